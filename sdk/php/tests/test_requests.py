"""One request under the PHP engine: what a script gets and what becomes of its reply, compared with what php-fpm does."""

import hashlib
import json
import os
import signal
import struct
import unittest
import zlib

from support import PhpCase, multipart, testing


def phar(files):
    """The bytes of a phar whose stub is a web site of its files."""
    manifest = struct.pack("<I2sIII", len(files), b"\x11\x10", 0x10000, 0, 0)
    for name, content in files.items():
        manifest += struct.pack("<I", len(name)) + name.encode()
        manifest += struct.pack("<6I", len(content), 0, len(content), zlib.crc32(content), 0o644, 0)
    archive = b"<?php Phar::webPhar(); __HALT_COMPILER(); ?>\r\n" + struct.pack("<I", len(manifest)) + manifest + b"".join(files.values())
    return archive + hashlib.sha256(archive).digest() + struct.pack("<I4s", 3, b"GBMB")


class Requests(PhpCase):
    def test_superglobals(self):
        got = self.php(
            "echo json_encode([$_GET, $_POST, $_COOKIE, $_REQUEST, $_FILES]);",
            "POST",
            "?a=1&b[]=2&b[]=3",
            b"c=4&d=%C3%A4",
            [("Cookie", "e=5; f=6"), ("Content-Type", "application/x-www-form-urlencoded")],
        )
        self.assertEqual(got[0], {"a": "1", "b": ["2", "3"]})
        self.assertEqual(got[1:3], [{"c": "4", "d": "ä"}, {"e": "5", "f": "6"}])
        self.assertEqual(got[3], {"a": "1", "b": ["2", "3"], "c": "4", "d": "ä"})
        self.assertEqual(got[4], [])

    def test_server_variables(self):
        name = self.script("echo json_encode($_SERVER + ['cwd' => getcwd(), 'file' => __FILE__]);")
        got = json.loads(self.server.get(f"/rte/{name}/more/path?x=1", [("X-Own-Field", "y"), ("Proxy", "http://evil/")]).text)
        expected = {
            "PHP_SELF": f"/rte/{name}/more/path",
            "SCRIPT_NAME": f"/rte/{name}",
            "PATH_INFO": "/more/path",
            "QUERY_STRING": "x=1",
            "REQUEST_URI": f"/rte/{name}/more/path?x=1",
            "REQUEST_METHOD": "GET",
            "SCRIPT_FILENAME": self.server.path("rte", name),
            "HTTP_X_OWN_FIELD": "y",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "GATEWAY_INTERFACE": "CGI/1.1",
            "REMOTE_ADDR": "127.0.0.1",
            "SCRIPT_RTE": "php",
            "cwd": self.server.path("rte"),
            "file": self.server.path("rte", name),
        }
        self.assertEqual({key: got.get(key) for key in expected}, expected)
        for absent in ("HTTP_PROXY", "CGIPLUSEOF", "HTTPS", "PHP_AUTH_USER"):
            self.assertNotIn(absent, got)
        self.assertIsInstance(got["REQUEST_TIME_FLOAT"], float)
        self.assertTrue(got["DOCUMENT_ROOT"])

    def test_web_phar(self):
        files = {"index.php": b"<?php echo 'index';", "more/a.txt": b"text", "b.php": b"<?= $_SERVER['PHP_SELF'], $_GET['c'];"}
        self.server.write("rte/archive.php", phar(files))
        for path, status, text in (
            ("/index.php", 200, "index"),
            ("/more/a.txt", 200, "text"),
            ("/b.php?c=1", 200, "/rte/archive.php/b.php1"),
            ("/none", 404, None),
        ):
            got = self.server.get("/rte/archive.php" + path)
            self.assertEqual((got.status, got.text if text else None), (status, text), path)
        for path in ("", "/"):
            got = self.server.get("/rte/archive.php" + path)
            self.assertEqual((got.status, got.field("Location")), (301, "/rte/archive.php/index.php"))

    def test_environment_is_that_of_a_cgi_process(self):
        got = self.php("echo json_encode([getenv('QUERY_STRING'), shell_exec('echo $QUERY_STRING'), getenv('CGIPLUSEOF'), getenv('HOME') != '']);", query="?x")
        self.assertEqual(got, ["x", "x\n", False, True])

    def test_names_of_the_sapi(self):
        got = self.php("echo json_encode([PHP_SAPI, php_sapi_name(), basename(PHP_BINARY), extension_loaded('sluice')]);")
        self.assertEqual(got, ["sluice", "sluice", "sluice-php", True])

    def test_head(self):
        got = self.get("header('X-A: 1'); header('X-A: 2', false); setcookie('c', 'd', ['httponly' => true]); http_response_code(418); echo 'tea';")
        self.assertEqual((got.status, got.text, got.field_values("X-A")), (418, "tea", ["1", "2"]))
        self.assertEqual(got.field("Set-Cookie"), "c=d; HttpOnly")
        self.assertEqual(got.field("Content-Type"), "text/html; charset=UTF-8")
        self.assertEqual(self.get("header('HTTP/1.1 404 Not Found');").status, 404)
        self.assertEqual(self.get("header('Status: 410 Gone');").status, 410)
        got = self.get("header('Location: /elsewhere');")
        self.assertEqual((got.status, got.field("Location")), (302, "/elsewhere"))
        self.assertEqual(self.get("header('Content-Type: text/plain'); echo 1;").field("Content-Type"), "text/plain;charset=UTF-8")
        self.assertEqual(self.get("").status, 200)
        self.assertEqual(self.get("header_remove(); ini_set('default_mimetype', ''); echo 'bare';").text, "bare")

    def test_methods(self):
        name = self.script("echo $_SERVER['REQUEST_METHOD'], ':', file_get_contents('php://input');")
        self.assertEqual(self.server.request("PUT", f"/rte/{name}", body=b"data").text, "PUT:data")
        self.assertEqual(self.server.request("DELETE", f"/rte/{name}").text, "DELETE:")
        got = self.server.request("HEAD", f"/rte/{name}")
        self.assertEqual((got.status, got.body), (200, b""))

    def test_body(self):
        name = self.script("echo md5_file('php://input'), ' ', strlen(file_get_contents('php://stdin'));")
        for size in (0, 1, 4096, 1_000_000, 7_000_000):
            body = os.urandom(size)
            got = self.server.post(f"/rte/{name}", body, [("Content-Type", "application/octet-stream")])
            self.assertEqual(got.text, f"{hashlib.md5(body).hexdigest()} {size}")
        got = self.server.request("POST", f"/rte/{name}", chunks=[b"one", b"two"])
        self.assertEqual(got.text, hashlib.md5(b"onetwo").hexdigest() + " 6")

    def test_upload(self):
        body, kind = multipart([("t", "text"), ("t2[]", "x")], [("f", "a.txt", "text/plain", b"content"), ("g[]", "b.bin", "image/png", b"\0" * 70000)])
        got = self.php(
            """$f = $_FILES; $path = $f['f']['tmp_name']; $content = file_get_contents($path); $moved = move_uploaded_file($path, '@DIR@/moved');
            echo json_encode([$_POST, $content, $f['f']['name'], $f['f']['type'], $f['f']['size'], $f['f']['error'], $f['g']['size'], $moved,
                is_uploaded_file($f['g']['tmp_name'][0])]);""",
            "POST",
            body=body,
            headers=[("Content-Type", kind)],
        )
        self.assertEqual(got, [{"t": "text", "t2": ["x"]}, "content", "a.txt", "text/plain", 7, 0, [70000], True, True])
        with open(self.server.path("moved")) as moved:
            self.assertEqual(moved.read(), "content")
        self.assertEqual(os.listdir(self.server.temporary), [], "the other temporary file is removed")

    def test_upload_of_a_process_that_is_ended(self):
        self.leave_an_upload(signal.SIGTERM)
        self.assertEqual(os.listdir(self.server.temporary), [])
        self.leave_an_upload(signal.SIGKILL)
        left = os.listdir(self.server.temporary)
        self.assertEqual(len(left), 1, left)
        body, kind = multipart([], [("f", "a.txt", "text/plain", b"content")])
        self.php("echo json_encode(is_file($_FILES['f']['tmp_name']));", "POST", body=body, headers=[("Content-Type", kind)])
        self.assertEqual(os.listdir(self.server.temporary), [], "the next process has removed it")

    def leave_an_upload(self, number):
        """Ends a process while its script has an upload."""
        path = f"at{number}"
        at = self.server.fifo(path)
        body, kind = multipart([], [("f", "a.txt", "text/plain", b"content")])
        with self.server.connect() as client:
            name = self.script(f"file_put_contents('@DIR@/{path}', getmypid() . ' ' . $_FILES['f']['tmp_name'] . \"\\n\"); sleep(60);")
            client.request("POST", f"/rte/{name}", [("Content-Type", kind)], body)
            process, file = at.line().split()
            self.assertTrue(os.path.exists(file))
            os.kill(int(process), number)
            client.response()
        testing.wait_gone(int(process))

    def test_upload_over_the_limits(self):
        body, kind = multipart([("t", "text")], [("f", "a.txt", "text/plain", b"x" * 3_000_000)])
        code = "echo json_encode([$_FILES['f']['error'] ?? null, $_POST]);"
        self.assertEqual(self.php(code, "POST", body=body, headers=[("Content-Type", kind)]), [1, {"t": "text"}])
        start = self.server.log_position()
        body, kind = multipart([("t", "text")], [("f", "a.txt", "text/plain", b"x" * 9_000_000)])
        self.assertEqual(self.php(code, "POST", body=body, headers=[("Content-Type", kind)]), [None, []])
        self.server.log_line("POST Content-Length of", start)
        self.assertEqual(self.php("echo json_encode($_GET);", query="?after=1"), {"after": "1"})

    def test_streaming_out(self):
        gate = self.server.fifo("gate")
        name = self.script("echo 'first'; ob_flush(); flush(); fgets(fopen('@DIR@/gate', 'r')); echo 'second';")
        with self.server.connect() as client:
            client.get(f"/rte/{name}").head()
            client.read_body_until(b"first")
            gate.release()
            client.read_body_until(b"second")

    def test_head_is_sent_by_flush(self):
        gate = self.server.fifo("gate2")
        name = self.script("header('Content-Type: text/event-stream'); flush(); fgets(fopen('@DIR@/gate2', 'r')); echo 'end';")
        with self.server.connect() as client:
            self.assertEqual(client.get(f"/rte/{name}").head().field("Content-Type").split(";")[0], "text/event-stream")
            gate.release()
            client.read_body_until(b"end")

    def test_large_body(self):
        got = self.get("for ($i = 0; $i < 3000; $i++) echo str_repeat(chr(65 + $i % 26), 5000);")
        expected = b"".join(bytes([65 + i % 26]) * 5000 for i in range(3000))
        self.assertTrue(got.body == expected and got.is_complete)

    def test_output_buffers(self):
        self.assertEqual(self.get("ob_start(fn($t) => strtoupper($t)); echo 'a'; ob_start(); echo 'b';").text, "AB")
        self.assertEqual(self.get("ob_start(); echo 'gone'; ob_end_clean(); header('X-Late: 1'); echo 'kept';").text, "kept")

    def test_exit_and_shutdown_functions(self):
        got = self.get("register_shutdown_function(function () { echo ' shutdown'; chdir('/'); }); echo 'a'; exit(3);")
        self.assertEqual((got.status, got.text), (200, "a shutdown"))
        self.assertEqual(self.get("class D { function __destruct() { echo 'destructed'; } } $d = new D; exit;").text, "destructed")
        self.assertEqual(self.get("exit('message');").text, "message")

    def test_finish_request(self):
        gate, done = self.server.fifo("gate3"), self.server.fifo("done3")
        got = self.get(
            """echo 'sent'; var_dump(fastcgi_finish_request()); echo 'not sent'; fgets(fopen('@DIR@/gate3', 'r'));
            file_put_contents('@DIR@/done3', "done\\n");"""
        )
        self.assertEqual((got.text, got.is_complete), ("sent", True))
        gate.release()
        self.assertEqual(done.line(), "done")
        self.assertEqual(self.get("echo 'next';").text, "next")

    def test_finish_request_twice(self):
        self.assertEqual(self.get("echo 'x'; fastcgi_finish_request(); error_log('second: ' . var_export(fastcgi_finish_request(), true));").text, "x")
        self.server.log_line("second: false")

    def test_sessions(self):
        name = self.script("session_start(); echo $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;")
        got = self.server.get(f"/rte/{name}")
        cookie = got.field("Set-Cookie").split(";")[0]
        texts = [self.server.get(f"/rte/{name}", [("Cookie", cookie)]).text for _ in range(3)]
        self.assertEqual([got.text, *texts], ["1", "2", "3", "4"])
        self.assertEqual(self.server.get(f"/rte/{name}").text, "1", "another visitor has another session")

    def test_request_headers(self):
        got = self.php(
            "echo json_encode([getallheaders(), apache_request_headers() == getallheaders()]);", "POST", body=b"x", headers=[("X-One-Two", "3"), ("Content-Type", "a/b")]
        )
        self.assertEqual({k: got[0].get(k) for k in ("X-One-Two", "Content-Type", "Content-Length")}, {"X-One-Two": "3", "Content-Type": "a/b", "Content-Length": "1"})
        self.assertTrue(got[1])
        self.assertEqual(self.php("header('X-A: b'); echo json_encode(apache_response_headers()['X-A']);"), "b")

    def test_missing_and_unreadable(self):
        self.assertEqual(self.server.get("/rte/missing.php").status, 404)
        os.makedirs(self.server.path("rte/directory.php"), exist_ok=True)
        self.assertIn(self.server.get("/rte/directory.php").status, (301, 403, 404))
        self.assertEqual(self.get("echo 'fine';").text, "fine")

    def test_changed_script_is_compiled_at_once(self):
        for text in ("one", "two", "three"):
            self.script(f"echo '{text}';", "changing.php")
            self.assertEqual(self.server.get("/rte/changing.php").text, text)

    def test_opcache(self):
        name = self.script(
            """$s = opcache_get_status(true); $own = $s['scripts'][__FILE__] ?? null;
            echo json_encode([$s['opcache_enabled'], $s['opcache_statistics']['hits'], $own['hits'] ?? null, getmypid()]);"""
        )
        os.utime(self.server.path("rte", name), (1, 1))  # opcache leaves files alone that were written in the last two seconds
        first, *_, last = [json.loads(self.server.get(f"/rte/{name}").text) for _ in range(4)]
        self.assertTrue(first[0])
        self.assertEqual(first[3], last[3])
        self.assertGreaterEqual(last[1], first[1] + 3)
        self.assertGreaterEqual(last[2], 3)

    def test_standard_output_of_children_is_logged(self):
        start = self.server.log_position()
        got = self.get("$p = proc_open('cat; echo from a child', [], $pipes); proc_close($p); file_put_contents('php://stdout', \"raw\\n\"); echo 'reply';")
        self.assertEqual(got.text, "reply")
        self.server.log_line("from a child", start)
        self.server.log_line("raw", start)

    def test_stderr(self):
        start = self.server.log_position()
        self.assertEqual(self.get("error_log('to the log'); fwrite(fopen('php://stderr', 'w'), \"and this\\n\"); trigger_error('a warning', E_USER_WARNING); echo 1;").text, "1")
        for text in ("to the log", "and this", "a warning"):
            self.server.log_line(text, start)

    def test_script_tags_and_text(self):
        self.server.write("rte/plain.php", "no code\n<?= 1 + 1 ?>\n")
        self.assertEqual(self.server.get("/rte/plain.php").text, "no code\n2")
        self.server.write("rte/bang.php", "#!/usr/bin/env php\n<?php echo 'after'; include 'included.php';", 0o755)
        self.server.write("rte/included.php", "#text\n")
        for age in (None, (1, 1)):
            os.utime(self.server.path("rte/bang.php"), age)
            self.assertEqual([self.server.get("/rte/bang.php").text for _ in range(2)], ["after#text\n"] * 2)


if __name__ == "__main__":
    unittest.main()
