"""Nothing of one request reaches the next: each test changes something in one script and looks from another script in the same process."""

import json
import os
import unittest

from support import PhpCase, multipart


class Isolation(PhpCase):
    def check(self, change, look, expected=None):
        """`look` gives the same before and after `change`, in the same process."""
        before = self.php(f"echo json_encode([getmypid(), (function () {{ {look} }})()]);")
        if expected is not None:
            self.assertEqual(before[1], expected)
        pid = self.php(f"{change}; while (ob_get_level()) ob_end_clean(); echo getmypid();")
        after = self.php(f"echo json_encode([getmypid(), (function () {{ {look} }})()]);")
        self.assertEqual((after, pid), (before, before[0]))

    def test_environment(self):
        self.check("putenv('LEFT=1'); putenv('HOME=/nowhere'); putenv('PATH'); $_ENV['LEFT'] = $_SERVER['LEFT'] = 1", "return [getenv('LEFT'), getenv('HOME'), getenv('PATH'), shell_exec('echo x$LEFT'), $_SERVER['LEFT'] ?? null];")

    def test_globals_functions_classes_constants(self):
        self.check(
            "$left = 1; $GLOBALS['left2'] = 1; $_GET['left'] = 1; function left() {} class Left { static $x = 1; } define('LEFT', 1); const LEFT2 = 1;",
            "return [isset($GLOBALS['left']), isset($GLOBALS['left2']), isset($_GET['left']), function_exists('left'), class_exists('Left'), defined('LEFT'), defined('LEFT2')];",
        )

    def test_statics(self):
        name = self.script("class C { static $n = 0; } function f() { static $n = 0; return ++$n; } echo json_encode([++C::$n, f(), f()]);")
        self.assertEqual([self.server.get(f"/rte/{name}").text for _ in range(3)], ["[1,1,2]"] * 3)

    def test_working_directory(self):
        self.check("chdir('/')", "return getcwd();")

    def test_open_files(self):
        self.check(
            "global $f; $f = fopen('/etc/passwd', 'r'); $g = fopen('/etc/passwd', 'r'); flock($f, LOCK_SH); $s = stream_socket_server('tcp://127.0.0.1:0'); $p = popen('exec cat >/dev/null', 'w'); opendir('/');",
            # The script itself is open until opcache has it.
            "return array_values(array_filter(array_map(fn($n) => @readlink(\"/proc/self/fd/$n\"), scandir('/proc/self/fd')), fn($f) => !str_contains($f, '.php')));",
        )

    def test_locale(self):
        self.check("setlocale(LC_ALL, 'C.UTF-8'); setlocale(LC_NUMERIC, 'de_DE.UTF-8')", "return setlocale(LC_ALL, 0);")

    def test_umask(self):
        self.check("umask(0)", "return umask();")

    def test_settings(self):
        self.check(
            "ini_set('memory_limit', '64M'); set_include_path('/tmp'); ini_set('precision', 3); error_reporting(0); date_default_timezone_set('Asia/Tokyo'); mb_internal_encoding('EUC-JP'); set_time_limit(5); libxml_use_internal_errors(true); ignore_user_abort(true); ini_set('display_errors', 1);",
            "return [ini_get('memory_limit'), get_include_path(), ini_get('precision'), error_reporting(), date_default_timezone_get(), mb_internal_encoding(), ini_get('max_execution_time'), libxml_use_internal_errors(), ignore_user_abort(), ini_get('display_errors')];",
        )

    def test_output_buffers(self):
        name = self.script("ob_start(fn($x) => 'filtered'); ob_start(); echo 'x'; output_add_rewrite_var('left', 1);")
        self.server.get(f"/rte/{name}")
        self.assertEqual(self.php("echo json_encode([ob_get_level(), ob_list_handlers()]);"), [1, ["default output handler"]])
        self.assertEqual(self.get("echo '<a href=\"x.php\">';").text, '<a href="x.php">')

    def test_unread_body(self):
        name = self.script("echo $_SERVER['CONTENT_LENGTH'] ?? 'none';")
        for size in (10, 100_000, 3_000_000):
            self.assertEqual(self.server.post(f"/rte/{name}", b"y" * size, [("Content-Type", "text/plain")]).text, str(size))
            self.assertEqual(self.php("echo json_encode(file_get_contents('php://input'));", "POST", body=b"mine"), "mine")
        self.assertEqual(self.php("echo json_encode(file_get_contents('php://input'));"), "")

    def test_partly_read_body(self):
        name = self.script("echo fread(fopen('php://input', 'r'), 3);")
        self.assertEqual(self.server.post(f"/rte/{name}", b"abc" * 50_000, [("Content-Type", "text/plain")]).text, "abc")
        self.assertEqual(self.php("echo json_encode(file_get_contents('php://input'));", "POST", body=b"mine"), "mine")

    def test_uploads(self):
        body, kind = multipart([], [("f", "a", "text/plain", b"content")])
        path = self.php("echo json_encode($_FILES['f']['tmp_name']);", "POST", body=body, headers=[("Content-Type", kind)])
        self.assertEqual(os.path.dirname(os.path.dirname(path)), self.server.temporary)
        self.assertEqual(os.listdir(self.server.temporary), [])
        self.assertEqual(self.php(f"echo json_encode([$_FILES, is_uploaded_file('{path}')]);"), [[], False])

    def test_session(self):
        self.check("session_start(); $_SESSION['left'] = 1; session_name('OTHER'); session_cache_limiter('public')", "return [session_id(), session_status(), $_SESSION ?? null, session_name(), session_cache_limiter()];")

    def test_shutdown_functions(self):
        self.get("register_shutdown_function(function () { echo 'left'; });")
        self.assertEqual(self.get("echo 'own';").text, "own")

    def test_handlers(self):
        self.check(
            "set_error_handler(fn() => true); set_exception_handler(fn() => 1); spl_autoload_register(fn($c) => 1); header_register_callback(fn() => header('X-Left: 1')); assert_options(ASSERT_ACTIVE, 0); register_tick_function(fn() => 1);",
            "return [set_error_handler(null), set_exception_handler(null), spl_autoload_functions(), error_get_last()];",
        )
        self.assertIsNone(self.get("").field("X-Left"))

    def test_streams(self):
        self.check(
            "stream_context_set_default(['http' => ['header' => 'X: secret']]); stream_wrapper_unregister('http'); class W {} stream_wrapper_register('left', 'W'); stream_filter_register('left', 'php_user_filter');",
            "return [stream_context_get_options(stream_context_get_default()), stream_get_wrappers(), stream_get_filters()];",
        )

    def test_head(self):
        self.get("header('X-Left: 1'); http_response_code(404); setcookie('left', '1'); header('Content-Type: text/plain');")
        got = self.get("echo 1;")
        self.assertEqual((got.status, got.field("X-Left"), got.field("Set-Cookie"), got.field("Content-Type")), (200, None, None, "text/html; charset=UTF-8"))

    def test_credentials_and_cookies(self):
        self.php("echo json_encode($_COOKIE);", headers=[("Cookie", "secret=1"), ("Authorization", "Basic YTpi")])
        self.assertEqual(self.php("echo json_encode([$_COOKIE, $_SERVER['PHP_AUTH_USER'] ?? null, $_SERVER['HTTP_AUTHORIZATION'] ?? null]);"), [[], None, None])

    def test_random_numbers(self):
        self.get("mt_srand(1); srand(1);")
        one = self.php("echo json_encode([mt_rand(), rand()]);")
        self.get("mt_srand(1); srand(1);")
        self.assertNotEqual(self.php("echo json_encode([mt_rand(), rand()]);"), one, "a seed of another request")

    def test_timers(self):
        """A time limit of a script that has ended does not end the next one."""
        self.get("set_time_limit(1);")
        self.assertEqual(self.php("$e = hrtime(true) + 1.3e9; while (hrtime(true) < $e); echo json_encode(1);"), 1)

    def test_signals(self):
        look = "return preg_match_all('/^(Sig(?:Blk|Ign|Cgt)):\\s*(\\w+)/m', file_get_contents('/proc/self/status'), $m) ? $m[2] : null;"
        self.check("function_exists('pcntl_signal') && pcntl_signal(SIGUSR1, fn() => 1) && pcntl_alarm(1)", look)

    def test_priority(self):
        before = self.php("echo json_encode([getmypid(), proc_nice(0), (int) explode(' ', file_get_contents('/proc/self/stat'))[18]]);")
        # Any call costs the process: it cannot raise its priority again.
        lowered = self.php("echo json_encode([getmypid(), proc_nice(1)]);")
        after = self.php("echo json_encode([getmypid(), (int) explode(' ', file_get_contents('/proc/self/stat'))[18]]);")
        self.assertNotIn(after[0], (before[0], lowered[0]))
        self.assertEqual(after[1], before[2])

    def test_children(self):
        """A child neither reads the next body nor writes into a reply, and has no descriptors of the engine."""
        got = self.php("echo json_encode([shell_exec('cat | wc -c'), explode(\"\\n\", shell_exec('readlink /proc/self/fd/*'))]);", "POST", body=b"body")
        self.assertEqual(got[0].strip(), "0")
        # Beside 0 to 2 only the script itself, which PHP has open until opcache has it.
        self.assertEqual([name for name in got[1][3:] if name and ".php" not in name and not name.startswith("/proc")], [])

    def test_memory(self):
        name = self.script("$a = []; for ($i = 0; $i < 20000; $i++) { $o = new stdClass; $o->self = $o; $a[] = $o; } echo memory_get_usage();")
        sizes = [int(self.server.get(f"/rte/{name}").text) for _ in range(6)]
        self.assertLess(max(sizes[2:]) - min(sizes[2:]), 4096)


if __name__ == "__main__":
    unittest.main()
