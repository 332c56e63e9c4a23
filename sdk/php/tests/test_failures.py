"""Failures: what the client gets and what the log says after fatal errors, by the table at the head of src/request.c."""

import json
import unittest

from support import PhpCase, configuration

VALUES = 'max = 1, environment = { TMPDIR = "@TMP@" }, php_value = { max_execution_time = "1", memory_limit = "16M" }'
ROUTES = f"""
  [[site.route]]
  path = "/rte/*"
  script = {{ directory = "rte", mode = "rte", engine = "php", {VALUES} }}

  [[site.route]]
  path = "/shown/*"
  script = {{ directory = "rte", mode = "rte", engine = "php", max = 1, environment = {{ TMPDIR = "@TMP@" }}, php_value = {{ display_errors = "1", html_errors = "0" }} }}
"""


class Failures(PhpCase):
    configuration = configuration(ROUTES)
    files = {"rte/fine.php": "fine <?= getmypid() ?>"}

    def setUp(self):
        self.pid = self.server.get("/rte/fine.php").text

    def tearDown(self):
        self.assertEqual(self.server.get("/rte/fine.php").text, self.pid, "the process stays")

    def failing(self, code):
        start = self.server.log_position()
        return self.get(code), start

    def test_uncaught_exception(self):
        got, start = self.failing("throw new RuntimeException('no more tea');")
        self.assertEqual((got.status, got.is_complete), (502, True))
        self.assertNotIn("tea", got.text)
        self.server.log_line("Uncaught RuntimeException: no more tea", start)
        line = self.server.log_line("failed: Uncaught RuntimeException: no more tea", start)
        self.assertIn("GET /rte/test", line)
        self.assertIn("status=502", line)

    def test_syntax_error(self):
        got, start = self.failing("this is not PHP")
        self.assertEqual(got.status, 502)
        self.server.log_line("PHP Parse error", start)
        self.assertIn("GET /rte/test", self.server.log_line("failed: syntax error", start))

    def test_undefined_function(self):
        for code in ("no_such_function();", "echo 'begin'; no_such_function();", "ob_start(); echo 'begin'; no_such_function();",
                     "http_response_code(404); echo 'begin'; no_such_function();", "header('X-Own: 1'); no_such_function();"):
            got, start = self.failing(code)
            self.assertEqual((got.status, "begin" in got.text, got.field("X-Own")), (502, False, None), code)
            self.server.log_line("failed: Uncaught Error: Call to undefined function no_such_function()", start)

    def test_head_request(self):
        name = self.script("no_such_function();")
        self.assertEqual(self.server.request("HEAD", f"/rte/{name}").status, 502)
        name = self.script("register_shutdown_function(function () { echo 'own page'; }); no_such_function();")
        self.assertEqual(self.server.request("HEAD", f"/rte/{name}").status, 500)

    def test_own_error_page(self):
        got, _ = self.failing(
            "register_shutdown_function(function () { if (error_get_last()) { http_response_code(503); echo 'own page'; } }); no_such_function();"
        )
        self.assertEqual((got.status, got.text), (503, "own page"))
        for before, handler, page in (
            ("echo 'begin ';", "echo 'own page';", (500, "begin own page")),
            ("echo 'begin ';", "ob_clean(); echo 'own page';", (500, "own page")),
            ("echo 'as long ';", "ob_clean(); echo 'as long ';", (500, "as long ")),
            ("ob_start(); echo 'begin ';", "ob_end_clean(); echo 'own page';", (500, "own page")),
            ("", "http_response_code(503);", (503, "")),
            ("", "header('Location: /sorry');", (302, "")),
        ):
            got, _ = self.failing(f"register_shutdown_function(function () {{ {handler} }}); {before} no_such_function();")
            self.assertEqual((got.status, got.text), page, (before, handler))

    def test_exception_handler(self):
        got, _ = self.failing("set_exception_handler(function ($e) { http_response_code(400); echo $e->getMessage(); }); throw new Exception('handled');")
        self.assertEqual((got.status, got.text), (400, "handled"))

    def test_after_the_head_nothing_sent(self):
        """The head of success is made, and nothing has been sent: the server answers 502 instead of half a page."""
        got, start = self.failing("echo str_repeat('x', 20000); no_such_function();")
        self.assertEqual((got.status, "xxx" in got.text), (502, False))
        self.server.log_line("no_such_function", start)

    def test_within_the_body(self):
        start = self.server.log_position()
        name = self.script("echo 'part'; ob_flush(); flush(); fgets(fopen('@DIR@/gate', 'r')); no_such_function();")
        gate = self.server.fifo("gate")
        with self.server.connect() as client:
            client.get(f"/rte/{name}").head()
            client.read_body_until(b"part")
            gate.release()
            self.assertIsNone(client.read_chunk(), "the response is aborted")
        self.server.log_line("no_such_function", start)

    def test_execution_time(self):
        got, start = self.failing("for (;;);")
        self.assertEqual(got.status, 502)
        self.server.log_line("Maximum execution time of 1 second exceeded", start)

    def test_memory_limit(self):
        got, start = self.failing("$a = str_repeat('x', 64 << 20);")
        self.assertEqual(got.status, 502)
        self.server.log_line("Allowed memory size of 16777216 bytes exhausted", start)

    def test_endless_recursion(self):
        got, _ = self.failing("function f() { f(); } f();")
        self.assertEqual(got.status, 502)

    def test_output_callback_that_uses_output_buffering(self):
        # PHP switches its output off before it reports this error, so not even display_errors can show it.
        name = self.script("ob_start(function ($text) { ob_start(); return $text; }); echo 'page';")
        for route in ("rte", "shown"):
            start = self.server.log_position()
            got = self.server.get(f"/{route}/{name}")
            self.assertEqual((got.status, "page" in got.text), (502, False), route)
            self.server.log_line("failed: ob_start(): Cannot use output buffering in output buffering display handlers", start)
            self.assertEqual(self.server.get(f"/{route}/fine.php").status, 200)

    def test_display_errors(self):
        name = self.script("echo 'before '; no_such_function();")
        got = self.server.get(f"/shown/{name}")
        self.assertEqual(got.status, 200)
        self.assertIn("before ", got.text)
        self.assertIn("Call to undefined function no_such_function()", got.text)

    def test_failure_after_finish(self):
        got, start = self.failing("echo 'sent'; fastcgi_finish_request(); no_such_function();")
        self.assertEqual((got.status, got.text, got.is_complete), (200, "sent", True))
        self.server.log_line("no_such_function", start)

    def test_exit_status_is_no_failure(self):
        got, _ = self.failing("echo 'text'; exit(255);")
        self.assertEqual((got.status, got.text), (200, "text"))
        got, _ = self.failing("header('Location: /'); exit(1);")
        self.assertEqual(got.status, 302)

    def test_exit_status_with_no_content(self):
        self.assertEqual(self.get("http_response_code(204); exit(1);").status, 204)

    def test_exit_status_without_output(self):
        got, start = self.failing("exit(3);")
        self.assertEqual(got.status, 502)
        self.server.log_line("exit status 3 without output", start)

    def test_crash(self):
        """A process that dies is replaced; one request is affected."""
        got = self.get("posix_kill(getmypid(), 9);")
        self.assertEqual(got.status, 502)
        self.pid = self.server.get("/rte/fine.php").text


class Pages(PhpCase):
    configuration = configuration().replace('root = "htdocs"', 'root = "htdocs"\nerror_detail = "local"')

    def test_reason_on_the_page(self):
        """Where the route shows details, the page says what the log says: the error, the file and the line."""
        for code, reason in (("throw new Exception('no more milk');", "Uncaught Exception: no more milk"), ("this is not PHP", "syntax error"), ("no_such_function();", "no_such_function()")):
            name = self.script(code)
            got = self.server.get(f"/rte/{name}")
            self.assertEqual(got.status, 502)
            self.assertIn(reason, got.text)
            self.assertIn(name, got.text)


class OtherLanguages(PhpCase):
    configuration = configuration(
        """
  [[site.route]]
  path = "/rte/*"
  script = { directory = "rte", mode = "rte", engine = "php", interpreters = { ".page" = "php" }, max = 1, environment = { TMPDIR = "@TMP@" } }
"""
    )

    def test_source_is_not_sent(self):
        self.server.write("rte/tool", "#!/bin/sh\necho secret '<?xml'\n", 0o755)
        for path in ("tool",) * 2:
            got = self.server.get(f"/rte/{path}")
            self.assertEqual(got.status, 403, got)
            self.assertNotIn("secret", got.text)

    def test_php_with_another_suffix_runs(self):
        self.server.write("rte/b.page", "<?php echo 'runs';")
        self.assertEqual([self.server.get("/rte/b.page").text for _ in range(2)], ["runs"] * 2)


class Options(PhpCase):
    configuration = configuration(
        """
  [[site.route]]
  path = "/rte/*"
  script = { directory = "rte", mode = "rte", engine = "php", max = 1, environment = { TMPDIR = "@TMP@" }, php_value = {
    memory_limit = "77M", display_errors = "true", "date.timezone" = "Asia/Tokyo", "error_prepend_string" = "it's \\"q\\" & $x" },
    php_admin_value = { precision = "5", "nosuch.setting" = "1", "open_basedir" = "@DIR@" } }
"""
    )

    def test_values(self):
        got = self.php("echo json_encode(array_map('ini_get', ['memory_limit', 'date.timezone', 'precision', 'error_prepend_string']));")
        self.assertEqual(got, ["77M", "Asia/Tokyo", "5", "it's \"q\" & $x"])
        self.assertEqual(self.php("echo json_encode([ini_set('memory_limit', '88M'), ini_get('memory_limit'), (bool) ini_get('display_errors')]);"), ["77M", "88M", True])
        self.assertEqual(self.php("echo json_encode([ini_set('precision', '9'), ini_get('precision'), ini_get('memory_limit')]);"), [False, "5", "77M"])
        self.assertEqual(self.php("echo json_encode(@file_get_contents('/etc/passwd'));"), False)
        for path in ("/dev/fd/3", "/proc/self/fd/3", "/proc/self/fd/4"):
            self.assertEqual(self.php(f"echo json_encode((bool) @fopen('{path}', 'r'));"), False, "open_basedir")
        self.assertIn("PHP has no setting nosuch.setting", self.server.log_line("PHP has no setting"))

    def test_user_ini_with_sections_and_lists(self):
        code = "<?php echo json_encode([getmypid(), ini_get('precision')]);"
        self.server.write("rte/before.php", code)
        pid = json.loads(self.server.get("/rte/before.php").text)[0]
        for number, text in enumerate(("[PATH=/x]\nprecision = 3\n", "[HOST=a]\nprecision = 3\n", "foo[a] = 1\nfoo[] = 2\n", "[other]\n", "1 = 2\n[] = 3\n")):
            self.server.write(f"rte/ini{number}/.user.ini", "precision = 11\n" + text)
            self.server.write(f"rte/ini{number}/x.php", code)
            got = self.server.get(f"/rte/ini{number}/x.php")
            self.assertEqual((got.status, json.loads(got.text)[0]), (200, pid), text)

    def test_user_ini(self):
        self.server.write("rte/.user.ini", 'arg_separator.input = ";"\nprecision = 11\nuser_ini.cache_ttl = 1\n')
        self.server.write("rte/deeper/.user.ini", "serialize_precision = 3\n")
        self.server.write("rte/deeper/x.php", "<?php echo json_encode([ini_get('arg_separator.input'), ini_get('precision'), ini_get('serialize_precision'), count($_GET)]);")
        got = self.server.get("/rte/deeper/x.php?a=1;b=2").text
        self.assertEqual(got.replace('"', ""), "[&,5,3,1]", "without DOCUMENT_ROOT above it, only its own directory counts")
        self.server.write("rte/x.php", "<?php echo json_encode([ini_get('arg_separator.input'), ini_get('precision'), count($_GET)]);")
        self.assertEqual(self.server.get("/rte/x.php?a=1;b=2").text, '[";","5",2]', "php_admin_value wins, and $_GET is made with it")
        self.assertEqual(self.server.get("/rte/.user.ini").status, 404)


if __name__ == "__main__":
    unittest.main()
