"""The functions sluice_…: built into the engine, and in PHP for php-cgi and the command line's php. Each test runs in all three."""

import json
import os
import unittest

from support import PhpCase, configuration, multipart, testing

LIBRARY = os.path.join(testing.CHECKOUT, "sdk/php/sluice.php")
ROUTES = """
  [[site.route]]
  path = "/rte/*"
  script = { directory = "scripts", mode = "rte", engine = "php", max = 1, environment = { TMPDIR = "@TMP@" }, php_value = { upload_tmp_dir = "@TMP@" } }

  [[site.route]]
  path = "/cgi/*"
  script = { directory = "scripts", mode = "cgi", interpreters = { ".php" = "php-cgi" }, environment = { TMPDIR = "@TMP@" } }

  [[site.route]]
  path = "/cgiplus/*"
  script = { directory = "scripts", mode = "cgiplus", max = 1, interpreters = { ".php" = "php" }, environment = { TMPDIR = "@TMP@" } }

  [[site.route]]
  path = "/examples/*"
  script = { directory = "@CHECKOUT@/sdk/php/examples", mode = "rte", engine = "php", max = 2, environment = { TMPDIR = "@TMP@" }, php_value = { upload_tmp_dir = "@TMP@" } }

  [[site.route]]
  path = "/examples-cgi/*"
  script = { directory = "@CHECKOUT@/sdk/php/examples", mode = "cgi", interpreters = { ".php" = "php-cgi" }, environment = { TMPDIR = "@TMP@" } }

  [[site.route]]
  path = "/examples-cgiplus/*"
  script = { directory = "@CHECKOUT@/sdk/php/examples", mode = "cgiplus", max = 1, interpreters = { ".php" = "php" }, environment = { TMPDIR = "@TMP@" } }

  [[site.route]]
  path = "/worker/*"
  script = { directory = "@CHECKOUT@/sdk/php/examples", mode = "rte", engine = "php", app = "worker.php", max = 1, environment = { TMPDIR = "@TMP@" } }
"""
FORM = ("Content-Type", "application/x-www-form-urlencoded")


class Library(PhpCase):
    configuration = configuration(ROUTES)
    files = {"htdocs/file.txt": "a file\n"}
    modes = ("rte", "cgi", "cgiplus")

    @classmethod
    def setUpClass(cls):
        testing.need_program("php-cgi")
        testing.need_program("php")
        super().setUpClass()

    def each(self, code, method="GET", query="", body=None, headers=(), modes=modes):
        """The response in each mode. The script is a loop, as the library wants it."""
        type(self).scripts = getattr(type(self), "scripts", 0) + 1
        name = f"s{self.scripts}.php"
        self.server.write(f"scripts/{name}", f"<?php require_once '{LIBRARY}'; while (sluice_accept()) {{ {code}; sluice_finish(); }}")
        for mode in modes:
            for turn in (1, 2) if mode != "cgi" else (1,):
                with self.subTest(mode, turn=turn):
                    yield self.server.request(method, f"/{mode}/{name}{query}", headers, body)

    def test_variables(self):
        for got in self.each("sluice_write(json_encode([sluice_variable('query_string'), sluice_variable('WWW_REMOTE_ADDR'), sluice_variable('NO', 5), isset(sluice_variables()['CGIPLUSEOF']), isset(sluice_variables()['SCRIPT_NAME'])]))", query="?x=1"):
            self.assertEqual(json.loads(got.text), ["x=1", "127.0.0.1", 5, False, True])

    def test_response(self):
        for got in self.each("sluice_status(404); sluice_header('X-A', '1'); sluice_header('X-A', '2'); sluice_respond('text/plain; charset=utf-8'); sluice_write('body'); echo ' more'"):
            self.assertEqual((got.status, got.field_values("X-A"), got.field("Content-Type"), got.text), (404, ["1", "2"], "text/plain; charset=utf-8", "body more"))

    def test_header_injection(self):
        for got in self.each("try { sluice_header('X-A', \"1\\r\\nX-B: 2\"); } catch (ValueError $e) { sluice_write('refused '); } try { sluice_header(\"X\\nY\", '1'); } catch (ValueError $e) { sluice_write('too'); }"):
            self.assertEqual((got.text, got.field("X-B")), ("refused too", None))

    def test_redirect_and_fail(self):
        for got in self.each("sluice_redirect('https://example.org/x', 303)"):
            self.assertEqual((got.status, got.field("Location")), (303, "https://example.org/x"))
        for got in self.each("sluice_header('X-Gone', '1'); sluice_fail(409, 'not now')"):
            self.assertEqual((got.status, got.text, got.field("X-Gone")), (409, "409 Conflict\nnot now\n", None))

    def test_form(self):
        code = "sluice_write(json_encode([sluice_parameter('a'), sluice_parameters('a'), sluice_parameter('d.e'), sluice_parameter('no', 'default'), sluice_parameter_names()]))"
        expected = ["1", ["1", "2", "3"], "ä", "default", ["a", "d.e"]]
        for got in self.each(code, "POST", "?a=1", b"a=2&a=3&d.e=%C3%A4", [FORM]):
            self.assertEqual(json.loads(got.text), expected)
        body, kind = multipart([("a", "2"), ("a", "3"), ("d.e", "ä")], [])
        for got in self.each(code, "POST", "?a=1", body, [("Content-Type", kind)], modes=("rte", "cgiplus")):
            self.assertEqual(json.loads(got.text), expected)

    def test_bounds(self):
        code = "try { sluice_parameter('a'); sluice_write('no error'); } catch (RuntimeException $e) { sluice_fail($e->getCode()); }"
        for got in self.each(code, "POST", "", b"&".join(b"a=%d" % n for n in range(1001)), [FORM]):
            self.assertEqual(got.status, 413)
        code = "sluice_upload_limit(1000); try { sluice_upload('f'); sluice_write('no error'); } catch (RuntimeException $e) { sluice_fail($e->getCode()); }"
        body, kind = multipart([], [("f", "a", "text/plain", b"x" * 5000)])
        for got in self.each(code, "POST", "", body, [("Content-Type", kind)]):
            self.assertEqual(got.status, 413)
        self.assertTrue(testing.wait_until(lambda: not os.listdir(self.server.temporary)))

    def test_uploads(self):
        body, kind = multipart([("t", "text")], [("f[]", "a.txt", "text/plain", b"one"), ("f[]", "b.png", "image/png", b"\0" * 200_000), ("empty", "", "text/plain", b"")])
        code = """$all = sluice_uploads('f[]'); sluice_write(json_encode([sluice_parameter('t'), count($all), $all[0]['filename'], $all[1]['type'], $all[1]['size'],
            file_get_contents($all[0]['path']), sluice_upload('empty'), sluice_upload('none')]))"""
        for got in self.each(code, "POST", "", body, [("Content-Type", kind)]):
            self.assertEqual(json.loads(got.text), ["text", 2, "a.txt", "image/png", 200_000, "one", None, None])
        self.assertTrue(testing.wait_until(lambda: not os.listdir(self.server.temporary)), "the temporary files are removed")

    def test_body(self):
        code = "for ($all = ''; ($part = sluice_body_read(1000)) !== ''; $all .= $part); sluice_write(md5($all) . ' ' . strlen($all))"
        import hashlib

        data = os.urandom(300_000)
        for got in self.each(code, "PUT", "", data):
            self.assertEqual(got.text, f"{hashlib.md5(data).hexdigest()} 300000")

    def test_names_with_quotes(self):
        """Browsers send %22 for a quote in the name of a field or of a file."""
        code = "sluice_write(json_encode([sluice_parameter('a\"b'), sluice_upload('f\"g')['filename']]))"
        body, kind = multipart([("a%22b", "1")], [("f%22g", "n%22<x>.txt", "text/plain", b"one")])
        for got in self.each(code, "POST", "", body, [("Content-Type", kind)]):
            self.assertEqual(json.loads(got.text), ["1", 'n"<x>.txt'])

    def test_malformed_bodies(self):
        """php-cgi takes the fields before the fault for the whole form."""
        code = "try { sluice_parameter('t'); sluice_write('no error'); } catch (RuntimeException $e) { sluice_fail($e->getCode(), $e->getMessage()); }"
        body, kind = multipart([("t", "text")], [("f", "a", "text/plain", b"x" * 100_000)])
        whole = body + b"an epilogue\r\n"
        truncated = body[: body.rindex(b"--", 0, -4)]
        without_name = body.replace(b'form-data; name="t"', b"form-data", 1)
        for text, media_type, status in (
            (whole, kind, 200), (truncated, kind, 400), (b"nothing of a form", kind, 400), (b"", kind, 400), (without_name, kind, 400),
            (body, "multipart/form-data", 400), (body, kind + "x", 400),
        ):
            for got in self.each(code, "POST", "", text, [("Content-Type", media_type)], modes=("rte", "cgiplus")):
                self.assertEqual(got.status, status, (media_type, len(text), got.text))

    def test_the_process(self):
        """is_persistent() is about the loop, uses() about the process."""
        code = "sluice_write(json_encode([sluice_is_persistent(), sluice_uses()]))"
        uses = {"rte": [], "cgi": [], "cgiplus": []}
        for mode, got in zip(("rte", "rte", "cgi", "cgiplus", "cgiplus"), list(self.each(code))):
            is_persistent, number = json.loads(got.text)
            self.assertEqual(is_persistent, mode == "cgiplus")
            uses[mode].append(number)
        self.assertEqual(uses["rte"][1] - uses["rte"][0], 1)
        self.assertEqual((uses["cgi"], uses["cgiplus"]), ([1], [1, 2]))

    def test_unread_body(self):
        for got in self.each("sluice_write('not read')", "PUT", "", b"z" * 200_000):
            self.assertEqual(got.text, "not read")

    def test_callouts(self):
        code = "sluice_write(json_encode([sluice_callout('NOOP:'), sluice_map_path('/file.txt'), sluice_map_path('/none/such'), sluice_callout('NONSENSE: 1')[0], sluice_lifetime('1h')])); sluice_notice('a notice from PHP'); sluice_watch('nobody watches')"
        for got in self.each(code):
            answers = json.loads(got.text)
            self.assertEqual((answers[0], answers[1], answers[3]), ([200, "OK"], self.server.path("htdocs/file.txt"), 400))
        self.server.log_line("a notice from PHP")
        # In the other modes the script writes the mailbox itself.
        for callout, modes in (("NOOP:\\nX:", self.modes), ("!BUFFER-REGION: 4 0", ("rte",)), ("! buffer-free: 4 0", ("rte",))):
            for got in self.each(f"try {{ sluice_callout(\"{callout}\"); }} catch (ValueError $e) {{ sluice_write('refused'); }}", modes=modes):
                self.assertEqual(got.text, "refused")

    def test_memory_buffer(self):
        code = """$size = sluice_buffer_begin(1 << 20); sluice_header('X-Size', (string) $size); sluice_respond('application/octet-stream');
            for ($i = 0; $i < 100; $i++) sluice_buffer_write(str_repeat(chr(65 + $i % 26), 50000)); $sent = sluice_buffer_end();
            error_log('sent ' . var_export($sent, true));"""
        expected = b"".join(bytes([65 + i % 26]) * 50000 for i in range(100))
        for got in self.each(code):
            self.assertEqual((len(got.body), got.body == expected, got.is_complete), (len(expected), True, True))
        self.server.log_lines(4, "sent 5000000")

    def test_memory_buffer_is_left_open(self):
        for got in self.each("sluice_buffer_begin(65536); sluice_respond('text/plain'); sluice_buffer_write('in the buffer'); exit", modes=("rte",)):
            self.assertEqual((got.text, got.is_complete), ("in the buffer", True))
        for got in self.each("echo 'next'", modes=("rte",)):
            self.assertEqual(got.text, "next")

    def test_memory_buffer_and_echo(self):
        code = "sluice_buffer_begin(65536); echo 'one '; sluice_buffer_write('two '); echo 'three '; sluice_buffer_write('four '); echo 'five '; sluice_buffer_end(); echo 'six'"
        for got in self.each(code, modes=("rte",)):
            self.assertEqual((got.text, got.is_complete), ("one two three four five six", True))
        for got in self.each("sluice_buffer_begin(65536); echo 'never ended'", modes=("rte",)):
            self.assertEqual((got.text, got.is_complete), ("never ended", True))
        for got in self.each("sluice_buffer_begin(65536); throw new Exception('in vain')", modes=("rte",)):
            self.assertEqual(got.status, 502)
        for got in self.each("sluice_buffer_begin(65536); sluice_fail(404, 'gone')", modes=("rte",)):
            self.assertEqual((got.status, got.text), (404, "404 Not Found\ngone\n"))

    def test_events(self):
        for got in self.each("if (sluice_event(\"one\\ntwo\", 'name', '7')) sluice_event('three')"):
            self.assertEqual(got.field("Content-Type").split(";")[0], "text/event-stream")
            self.assertEqual(got.text, "event: name\nid: 7\ndata: one\ndata: two\n\ndata: three\n\n")

    def test_coding(self):
        for got in self.each("sluice_write(json_encode([sluice_escape_html('<a \"b\" \\'c\\' &>'), sluice_url_encode('a b/ä'), sluice_url_decode('a+b%2F%C3%A4')]))"):
            self.assertEqual(json.loads(got.text), ["&lt;a &quot;b&quot; &#39;c&#39; &amp;&gt;", "a%20b%2F%C3%A4", "a b/ä"])

    def test_finish(self):
        for got in self.each("sluice_write('sent'); sluice_finish(); sluice_write('not sent')", modes=("rte",)):
            self.assertEqual(got.text, "sent")

    # ---- The examples ----

    def test_hello(self):
        for prefix in ("examples", "examples-cgi", "examples-cgiplus"):
            self.assertIn("Hello, you.\n", self.server.get(f"/{prefix}/hello.php?name=you").text)

    def test_form_example(self):
        body, kind = multipart([("name", "<Ann>")], [("file[]", "a.txt", "text/plain", b"first line\nsecond")])
        for prefix in ("examples", "examples-cgi", "examples-cgiplus"):
            self.assertIn("<form", self.server.get(f"/{prefix}/form.php").text)
            got = self.server.post(f"/{prefix}/form.php", body, [("Content-Type", kind)]).text
            single = self.server.post(f"/{prefix}/form.php", body.replace(b"file[]", b"file"), [("Content-Type", kind)]).text
            self.assertEqual(got, single)
            self.assertIn("<dt>name<dd>&lt;Ann&gt;", got)
            self.assertIn("17 bytes of text/plain, begins with <code>first line</code>", got)

    def test_counter(self):
        self.assertEqual([self.server.get("/examples-cgiplus/counter.php").text.split()[0] for _ in range(3)], ["1", "2", "3"])
        self.assertEqual([self.server.get("/examples-cgi/counter.php").text.split()[0] for _ in range(2)], ["1", "1"])
        counts = {int(self.server.get("/examples/counter.php").text) for _ in range(3)}
        self.assertGreater(len(counts), 1, "the engine's process counts")

    def test_download(self):
        for prefix, has_buffer in (("examples", "yes"), ("examples-cgi", "no"), ("examples-cgiplus", "yes")):
            got = self.server.get(f"/{prefix}/download.php?mb=3")
            self.assertEqual((got.field("X-Buffer"), len(got.body), got.is_complete), (has_buffer, 3 << 20, True))
            self.assertEqual(self.server.get(f"/{prefix}/download.php?mb=x").status, 400)

    def test_events_example(self):
        for prefix in ("examples", "examples-cgi", "examples-cgiplus"):
            got = self.server.get(f"/{prefix}/events.php?count=2&pause=1", [("Last-Event-ID", "4")])
            self.assertIn("event: tick\nid: 5\ndata: ", got.text)
            self.assertIn("id: 6\n", got.text)

    def test_worker_example(self):
        self.assertEqual(self.server.get("/worker/hello?name=you").text, "Hello, you.\n")
        self.assertEqual(self.server.get("/worker/none").status, 404)


if __name__ == "__main__":
    unittest.main()
