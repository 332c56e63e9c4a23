"""Worker mode: a script boots once and handles requests in a loop; each request begins in the state after the boot."""

import json
import os
import unittest

from support import PhpCase, configuration, multipart, testing

APP = """<?php
error_log('boot ' . getmypid());
putenv('BOOTED=yes');
ini_set('precision', '10');
$boots = 1;
$count = 0;
register_shutdown_function(fn() => error_log('the worker ends'));
$handler = function () use (&$count) {
    $count++;
    $page = ltrim($_SERVER['PATH_INFO'] ?? '', '/');
    include __DIR__ . "/pages/$page.php";
};
while (sluice_handle_request($handler)) {
    gc_collect_cycles();
}
error_log('after the loop');
"""


def route(path="/app/*", app="worker.php", more=""):
    return f"""
  [[site.route]]
  path = "{path}"
  script = {{ directory = "app", mode = "rte", engine = "php", app = "{app}", max = 1, {more} environment = {{ TMPDIR = "@TMP@" }}, php_value = {{
    upload_tmp_dir = "@TMP@", "session.save_path" = "@DIR@/sessions", "opcache.enable" = "0", max_execution_time = "2" }} }}
"""


class WorkerCase(PhpCase):
    prefix = "/app"

    def page(self, code, method="GET", query="", body=None, headers=()):
        """The response of a page of the application; each is a file that the handler includes."""
        type(self).pages = getattr(type(self), "pages", 0) + 1
        name = f"p{self.pages}"
        self.server.write(f"app/pages/{name}.php", "<?php " + code)
        return self.server.request(method, f"{self.prefix}/{name}{query}", headers, body)

    def value(self, code, **more):
        got = self.page(f"echo json_encode((function () {{ {code} }})());", **more)
        self.assertEqual(got.status, 200, got)
        return json.loads(got.text)

    def check(self, change, look):
        before = self.value(look)
        self.page(change)
        self.assertEqual(self.value(look), before)


class Worker(WorkerCase):
    configuration = configuration(route())
    # In a directory that is not watched: a new page does not replace the process.
    files = {"app/worker.php": APP.replace("__DIR__ . \"/pages", "'@DIR@/pages").replace("$page.php\"", "' . \"$page.php\"")}

    def page(self, code, method="GET", query="", body=None, headers=()):
        type(self).pages = getattr(type(self), "pages", 0) + 1
        self.server.write(f"pages/p{self.pages}.php", "<?php " + code)
        return self.server.request(method, f"/app/p{self.pages}{query}", headers, body)

    def test_boots_once(self):
        first = self.value("return [getmypid(), $GLOBALS['count']];")
        second = self.value("return [getmypid(), $GLOBALS['count']];")
        self.assertEqual(second, [first[0], first[1] + 1])

    def test_superglobals(self):
        code = "return [$_GET, $_POST, $_COOKIE, $_REQUEST, $_SERVER['REQUEST_METHOD'], $_SERVER['SCRIPT_NAME'], $_SERVER['HTTP_X_A'] ?? null, $_FILES, getenv('HTTP_X_A'), $_SERVER['REQUEST_TIME_FLOAT'] > 1e9];"
        got = self.value(code, method="POST", query="?a=1", body=b"b=2", headers=[("Cookie", "c=3"), ("X-A", "4"), ("Content-Type", "application/x-www-form-urlencoded")])
        self.assertEqual(got, [{"a": "1"}, {"b": "2"}, {"c": "3"}, {"a": "1", "b": "2"}, "POST", "/app", "4", [], "4", True])
        self.assertEqual(self.value(code), [[], [], [], [], "GET", "/app", None, [], False, True])

    def test_head_and_output(self):
        got = self.page("header('X-Own: 1'); http_response_code(404); ob_start(); ob_start(); echo 'buffered';")
        self.assertEqual((got.status, got.field("X-Own"), got.text), (404, "1", "buffered"))
        got = self.page("echo ob_get_level();")
        self.assertEqual((got.status, got.field("X-Own"), got.text), (200, None, "1"))

    def test_body_and_uploads(self):
        self.assertEqual(self.value("return file_get_contents('php://input');", method="PUT", body=b"z" * 200_000), "z" * 200_000)
        self.page("echo 'unread';", "POST", body=b"x" * 200_000)
        body, kind = multipart([("t", "u")], [("f", "a.txt", "text/plain", b"content")])
        got = self.value("return [$_POST, file_get_contents($_FILES['f']['tmp_name']), sluice_upload('f')['filename']];", method="POST", body=body, headers=[("Content-Type", kind)])
        self.assertEqual(got, [{"t": "u"}, "content", "a.txt"])
        self.assertEqual(os.listdir(self.server.temporary), [])
        self.assertEqual(self.value("return [$_FILES, sluice_upload('f'), file_get_contents('php://input')];"), [[], None, ""])

    def test_session(self):
        code = "session_start(); echo $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;"
        got = self.page(code)
        cookie = got.field("Set-Cookie").split(";")[0]
        self.assertEqual([got.text, self.page(code, headers=[("Cookie", cookie)]).text, self.page(code).text], ["1", "2", "1"])
        self.assertEqual(self.value("return [$_SESSION ?? null, session_status(), session_id()];"), [None, 1, ""])

    def test_what_the_boot_has_set_stays(self):
        self.assertEqual(self.value("return getenv('BOOTED');"), "yes")
        self.page("putenv('BOOTED=changed'); putenv('OTHER=1');")
        self.assertEqual(self.value("return [getenv('BOOTED'), getenv('OTHER'), getenv('CGIPLUSEOF')];"), ["yes", False, False])

    def test_settings(self):
        self.check(
            "ini_set('precision', 3); set_include_path('/tmp'); error_reporting(0); date_default_timezone_set('Asia/Tokyo'); setlocale(LC_ALL, 'C.UTF-8'); umask(0); chdir('/'); ini_set('memory_limit', '-1'); mb_internal_encoding('EUC-JP');",
            "return [ini_get('precision'), get_include_path(), error_reporting(), date_default_timezone_get(), setlocale(LC_ALL, 0), umask(), getcwd(), ini_get('memory_limit')];",
        )

    def test_restored_setting(self):
        """ini_restore() goes back to the value of php.ini, and the next request has that of the boot again."""
        self.assertEqual(self.value("ini_restore('precision'); return ini_get('precision');"), "14")
        self.assertEqual(self.value("return ini_get('precision');"), "10")

    def test_handlers(self):
        self.check(
            "set_error_handler(fn() => true); set_error_handler(fn() => true); set_exception_handler(fn() => 1);",
            "$h = [set_error_handler(null), set_exception_handler(null)]; return $h;",
        )

    def test_shutdown_functions(self):
        self.assertEqual(self.page("register_shutdown_function(function () { echo ' own shutdown'; }); echo 'a';").text, "a own shutdown")
        self.assertEqual(self.page("echo 'b';").text, "b")

    def test_what_extensions_keep(self):
        self.check(
            """stream_context_set_default(['http' => ['header' => 'Authorization: secret']]); mb_internal_encoding('ISO-8859-1'); mb_substitute_character(88);
            mb_detect_order('ISO-8859-1'); @trigger_error('secret'); strtok('/the secret', '/'); stream_wrapper_unregister('http');
            stream_filter_register('left', 'php_user_filter'); libxml_use_internal_errors(true); simplexml_load_string('<a');""",
            """return [stream_context_get_options(stream_context_get_default()), mb_internal_encoding(), mb_substitute_character(), mb_detect_order(),
            error_get_last(), strtok('/'), stream_get_wrappers(), stream_get_filters(), count(libxml_get_errors()), libxml_use_internal_errors()];""",
        )

    def test_random_numbers(self):
        numbers = []
        for _ in range(2):
            self.page("mt_srand(1); mt_rand();")
            numbers.append(self.value("return [mt_rand(), rand(), mt_rand()];"))
        self.assertNotEqual(*numbers)

    def test_exception_in_the_exception_handler(self):
        boots = self.value("return $GLOBALS['count'];")
        got = self.page("set_exception_handler(function ($e) { throw new Error('in handler after ' . $e->getMessage()); }); throw new Exception('first');")
        self.assertEqual(got.status, 502)
        self.server.log_line("Uncaught Error: in handler after first")
        got = self.page("set_exception_handler(function ($e) { echo 'handled'; exit; }); throw new Exception('first');")
        self.assertEqual((got.status, got.text), (200, "handled"))
        self.assertEqual(self.value("return $GLOBALS['count'];"), boots + 3)

    def test_exception_after_the_handler(self):
        """The request fails, its session is written, and the application is not booted again."""
        count = self.value("return $GLOBALS['count'];")
        got = self.page("session_id('after'); session_start(); $_SESSION['x'] = 1; register_shutdown_function(function () { throw new Exception('in shutdown'); });")
        self.assertEqual(got.status, 502)
        self.server.log_line("Uncaught Exception: in shutdown")
        self.assertEqual(self.value("session_id('after'); session_start(); return $_SESSION;"), {"x": 1})
        got = self.page("ob_start(function ($text) { throw new Exception('in a callback'); }); echo 'x';")
        self.assertEqual(got.status, 502)
        self.server.log_line("Uncaught Exception: in a callback")
        self.assertEqual(self.value("return $GLOBALS['count'];"), count + 4)

    def test_exit(self):
        pid = self.value("return getmypid();")
        self.assertEqual(self.page("echo 'before'; exit; echo 'after';").text, "before")
        self.assertEqual(self.page("exit('text');").text, "text")
        self.assertEqual(self.value("return getmypid();"), pid)

    def test_exception(self):
        before = self.value("return [getmypid(), $GLOBALS['count']];")
        start = self.server.log_position()
        self.assertEqual(self.page("throw new RuntimeException('only this one');").status, 502)
        self.assertIn("GET /app/p", self.server.log_line("failed: Uncaught RuntimeException: only this one", start))
        self.assertEqual(self.value("return [getmypid(), $GLOBALS['count']];"), [before[0], before[1] + 2], "the script has not booted again")

    def test_exception_in_the_body(self):
        gate = self.server.fifo("gate")
        with self.server.connect() as client:
            self.server.write("pages/part.php", "<?php echo 'part'; ob_flush(); flush(); fgets(fopen('@DIR@/gate', 'r')); throw new Exception('late');")
            client.get("/app/part").head()
            client.read_body_until(b"part")
            gate.release()
            self.assertIsNone(client.read_chunk())
        self.value("return 1;")

    def test_fatal_error_boots_again(self):
        before = self.value("return [getmypid(), $GLOBALS['count']];")
        start = self.server.log_position()
        got = self.page("register_shutdown_function(function () { echo 'own page'; }); $x = str_repeat('x', 1 << 40);")
        self.assertEqual((got.status, got.text), (500, "own page"))
        self.server.log_line("Allowed memory size", start)
        self.assertEqual(self.value("return [getmypid(), $GLOBALS['count']];"), [before[0], 1])
        self.server.log_line("boot ", start)

    def test_execution_time(self):
        self.assertEqual(self.page("for (;;);").status, 502)
        self.value("return 1;")

    def test_finish_request(self):
        done = self.server.fifo("done")
        got = self.page("echo 'sent'; fastcgi_finish_request(); echo 'not sent'; file_put_contents('@DIR@/done', \"done\\n\");".replace("@DIR@", self.server.directory))
        self.assertEqual((got.text, done.line()), ("sent", "done"))
        self.assertEqual(self.page("echo 'next';").text, "next")

    def test_streaming(self):
        gate = self.server.fifo("gate2")
        with self.server.connect() as client:
            self.server.write("pages/stream.php", "<?php echo 'first'; ob_flush(); flush(); fgets(fopen('@DIR@/gate2', 'r')); echo 'second';")
            client.get("/app/stream").head()
            client.read_body_until(b"first")
            gate.release()
            client.read_body_until(b"second")

    def test_client_that_leaves(self):
        """The handler ends, and the application is not booted again; its shutdown functions run."""
        count = self.value("return $GLOBALS['count'];")
        gone = self.server.fifo("gone")
        shutdown = "register_shutdown_function(function () { file_put_contents('@DIR@/gone', connection_aborted() . PHP_EOL); });".replace("@DIR@", self.server.directory)
        parts = "str_repeat('x', 65536)"
        for number, code in enumerate((
            f"sluice_buffer_begin(65536); for (;;) echo {parts};",
            f"sluice_buffer_begin(65536); for (;;) sluice_buffer_write({parts});",
            f"sluice_buffer_begin(65536); for (;;) {{ printf('%s', {parts}); ob_flush(); flush(); }}",
            f"sluice_buffer_begin(65536); try {{ for (;;) print({parts}); }} finally {{ echo 'not reached'; }}",
        )):
            self.server.write(f"pages/leave{number}.php", f"<?php {shutdown} set_time_limit(30); {code}")
            with self.server.connect() as client:
                client.get(f"/app/leave{number}").head()
                client.read_body_until(b"xxx")
                client.reset()
            self.assertEqual(gone.line(), "1", code)
        self.assertEqual(self.value("return $GLOBALS['count'];"), count + 5)

    def test_nested_call(self):
        self.assertEqual(self.page("try { sluice_handle_request(fn() => 1); } catch (Error $e) { echo $e->getMessage(); }").text, "sluice_handle_request() must not be called by a handler")

    def test_memory(self):
        code = "$a = []; for ($i = 0; $i < 10000; $i++) { $o = new stdClass; $o->self = $o; $a[] = $o; } return 1;"
        sizes = []
        self.server.write("pages/memory.php", f"<?php echo json_encode((function () {{ {code} }})()), ' ', memory_get_usage();")
        for _ in range(8):
            sizes.append(int(self.server.get("/app/memory").text.split()[1]))
        self.assertLess(max(sizes[2:]) - min(sizes[2:]), 65536, sizes)


class Ends(unittest.TestCase):
    def setUp(self):
        testing.need_file(os.path.join(testing.CHECKOUT, "sdk/php/build/sluice-php"))

    def test_end_of_the_server(self):
        with testing.Server(configuration(route()), {"app/worker.php": APP, "app/pages/x.php": "x", "sessions/x": ""}) as server:
            self.assertEqual(server.get("/app/x").text, "x")
            position = server.log_position()
        self.assertIn("after the loop", server.log())
        self.assertIn("the worker ends", server.log())
        del position

    def test_boot_fails(self):
        with testing.Server(configuration(route()), {"app/worker.php": "<?php throw new Exception('no boot');", "sessions/x": ""}) as server:
            self.assertEqual(server.get("/app/x").status, 502)
            server.log_line("no boot")
            # The next request runs the script again, so that a repaired one serves.
            server.write("app/worker.php", "<?php while (sluice_handle_request(fn() => print('repaired')));")
            self.assertEqual(server.get("/app/x").text, "repaired")

    def test_script_that_ends_by_itself(self):
        app = "<?php $n = 0; while (sluice_handle_request(function () use (&$n) { echo ++$n; }) && $n < 2);"
        with testing.Server(configuration(route()), {"app/worker.php": app, "sessions/x": ""}) as server:
            self.assertEqual([server.get("/app/").text for _ in range(5)], ["1", "2", "1", "2", "1"])

    def test_outside_worker_mode(self):
        from support import ROUTE

        with testing.Server(configuration(ROUTE), {"rte/x.php": "<?php sluice_handle_request(fn() => 1);", "sessions/x": ""}) as server:
            self.assertEqual(server.get("/rte/x.php").status, 502)
            server.log_line("sluice_handle_request() is for worker mode")


if __name__ == "__main__":
    unittest.main()
