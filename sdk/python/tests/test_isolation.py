"""Nothing of one request reaches the next: a script makes a mess, and the next one, in the same process, shows what it finds."""

import contextlib
import os
import signal
import unittest

from support import EngineCase, testing

HEAD = "print('Content-Type: text/plain\\n')\n"


def kill(pid):
    """Ends a daemon, unless it has ended with the process that has started it."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


class Isolation(EngineCase):
    # Before the start: the server replaces the process when a module changes, and these tests need one process.
    files = {
        "scripts/keeper.py": "import socket, sqlite3\na, b = socket.socketpair()\ndb = sqlite3.connect('@TMP@/db')\n",
        "scripts/filters.py": "import warnings\nwarnings.filterwarnings('ignore', 'of a module')\n",
        "scripts/logged.py": "import logging\nlog = logging.getLogger('kept'); log.addHandler(logging.StreamHandler()); log.setLevel(10)\n",
        "scripts/opener.py": "import urllib.request as r\no = r.build_opener(); o.addheaders = [('X', 'kept')]; r.install_opener(o)\n",
        "scripts/threaded.py": "import threading\nthread = threading.Thread(target=threading.Event().wait, daemon=True); thread.start()\n",
        "scripts/site-packages/packaged.py": "import threading\ndef start(): threading.Thread(target=threading.Event().wait, daemon=True).start()\n",
        "scripts/closer.py": "import atexit\natexit.register(print, 'the end of the process')\n",
    }

    def assert_clean(self, mess, show, imports=""):
        """`show` prints the same before and after a request that makes the mess, in the same process."""
        show = f"import os, sys\n{imports}\n{show}\nprint('pid', os.getpid())"
        before = self.output(show, name="show.cgi")
        self.output(f"import os, sys\n{imports}\n{mess}", name="mess.cgi")
        self.assertEqual(self.output(show, name="show.cgi"), before)
        return before

    def test_environment(self):
        show = "print(sorted((k, v) for k, v in os.environ.items() if k not in ('UNIQUE_ID', 'REMOTE_PORT', 'REQUEST_TIME_GMT')), flush=True)\nos.system('env | grep -v -e UNIQUE_ID -e REMOTE_PORT -e ^REQUEST_TIME -e ^_= | sort')"
        self.assert_clean("os.environ['NEW'] = '1'; os.environ['HOME'] = '/gone'; del os.environ['PATH']; os.environ['QUERY_STRING'] = 'x'", show)
        self.assert_clean("os.putenv('RAW', '1'); os.unsetenv('HOME')", show)
        self.assert_clean("os.environ.clear()", show)
        self.assert_clean("os.environ = {'A': '1'}", show)
        self.assert_clean("os.environ['TZ'] = 'Asia/Tokyo'; time.tzset()", "print(time.localtime(0).tm_hour, time.tzname)", "import time")

    def test_a_variable_of_one_request_is_gone_in_the_next(self):
        self.script(HEAD + "import os\nprint(os.environ.get('HTTP_X_SECRET'), os.getenv('CONTENT_LENGTH'), flush=True)\nos.system('echo $HTTP_X_SECRET')", "a.cgi")
        self.assertIn("s3cret", self.server.post("/rte/a.cgi", b"x", {"X-Secret": "s3cret"}).text)
        self.assertEqual(self.server.get("/rte/a.cgi").text, "None None\n\n")

    def test_globals_and_main(self):
        self.assert_clean(
            "leak = 1; __builtins__.leak = 2; import builtins; builtins.print = None; builtins._ = str; builtins.open = len",
            "print(sorted(globals()), 'leak' in dir(__builtins__), print, open, hasattr(__builtins__, '_'), sys.modules['__main__'].__dict__ is globals())",
        )

    def test_working_directory(self):
        self.assert_clean("os.chdir('/')", "print(os.getcwd())")
        self.assert_clean("os.mkdir('x'); os.chdir('x'); os.rmdir('../x')", "print(os.getcwd())")

    def test_open_files(self):
        show = "print(sorted((n, os.readlink('/proc/self/fd/' + n)) for n in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + n) and 'pipe' not in os.readlink('/proc/self/fd/' + n) and '/proc/' not in os.readlink('/proc/self/fd/' + n)))\nprint(len(os.listdir('/proc/self/fd')))"
        self.assert_clean("f = open('/etc/passwd'); g = os.open('/etc/passwd', 0); r, w = os.pipe()", show)
        self.assert_clean("s = socket.socket(); a = [s]; a.append(a); t = socket.socketpair(); os.dup(1)", show, "import socket")
        self.assert_clean("os.dup2(os.open('/dev/null', os.O_WRONLY), 2); os.close(0); os.close(3); os.close(4)", show)
        self.assert_clean("os.dup2(os.open('/etc/passwd', 0), 0)", show + "\nprint(sys.stdin.read(), os.read(0, 10))")

    def test_a_file_is_written_at_the_end_of_the_script(self):
        self.output("f = open('@TMP@/out', 'w'); f.write('kept'); g = f", name="w.cgi")
        self.assertEqual(self.output("import os\nprint(open('@TMP@/out').read()); os.unlink('@TMP@/out')"), "kept\n")

    def test_a_connection_that_a_module_keeps_stays_open(self):
        use = "import keeper\nkeeper.a.send(b'x'); print(keeper.b.recv(1)); keeper.db.execute('create table if not exists t (a)'); keeper.db.execute('insert into t values (1)'); keeper.db.commit(); print('done')"
        for _ in range(3):
            self.assertEqual(self.output(use, name="use.cgi"), "b'x'\ndone\n")
        self.output("import os, keeper\nkeeper.db.close(); os.unlink('@TMP@/db')", name="use2.cgi")

    def test_locale(self):
        names = self.output("import locale, subprocess\nprint(subprocess.run(['locale', '-a'], capture_output=True, text=True).stdout)").split()
        other = next((name for name in names if name not in ("C", "POSIX")), "C")
        self.assert_clean(f"locale.setlocale(locale.LC_ALL, {other!r}); locale.setlocale(locale.LC_NUMERIC, 'C')", "print(locale.setlocale(locale.LC_ALL))", "import locale")

    def test_umask(self):
        self.assert_clean("os.umask(0o77)", "m = os.umask(0); os.umask(m); print(m)")

    def test_signal_handlers(self):
        show = "print([signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGPIPE, signal.SIGALRM)], signal.pthread_sigmask(signal.SIG_BLOCK, []))"
        mess = "def f(*a): pass\nfor n in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGALRM): signal.signal(n, f)\nsignal.signal(signal.SIGPIPE, signal.SIG_DFL); signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])"
        self.assert_clean(mess, show, "import signal")

    def test_timers(self):
        show = "print(signal.getitimer(signal.ITIMER_REAL), signal.getitimer(signal.ITIMER_PROF))"
        self.assert_clean("signal.alarm(100)", show, "import signal")
        self.assert_clean("signal.setitimer(signal.ITIMER_REAL, 0.2); signal.setitimer(signal.ITIMER_PROF, 100)", show, "import signal")
        self.assert_clean("faulthandler.dump_traceback_later(100, exit=True)", "pass", "import faulthandler")

    def test_output_buffers(self):
        self.run_script("print('Content-Type: text/plain\\n\\nsecret', end=''); raise ValueError", name="mess.cgi")
        self.assertEqual(self.output("print('mine')"), "mine\n")
        self.run_script("import sys, io\nprint('Content-Type: text/plain\\n'); sys.stdout.write('x' * 5000); sys.stderr.write('no newline'); keep = sys.stdout.buffer", name="mess.cgi")
        self.assertEqual(self.output("print('mine')"), "mine\n")

    def test_unread_input(self):
        for size in (100, 65536, 1_000_000):
            for mess in ("import sys; sys.stdin.readline()", "import os; os.read(0, 10)", "pass"):
                self.assertEqual(self.output(mess, body=b"secret\n" * (size // 7), name="mess.cgi"), "")
                self.assertEqual(self.output("import sys; print(sys.stdin.read())", body=b"mine"), "mine\n")
                self.assertEqual(self.output("import sys; print(repr(sys.stdin.read()))"), "''\n")

    def test_temporary_files(self):
        mess = "f = tempfile.NamedTemporaryFile(); d = tempfile.TemporaryDirectory(); d.me = d; g = tempfile.TemporaryFile(); tempfile.tempdir = '/'"
        self.assert_clean(mess, "tempfile.TemporaryFile().close(); print(os.listdir(tempfile.gettempdir()))", "import tempfile")

    def test_paths_of_modules(self):
        self.assert_clean(
            "sys.path.insert(0, '/nowhere'); sys.path = ['/x'] + sys.path; sys.meta_path.clear(); sys.path_hooks[:] = []", "import colorsys\nprint(sys.path, len(sys.meta_path), len(sys.path_hooks))"
        )

    def test_warnings_filters(self):
        self.assert_clean("warnings.simplefilter('error'); warnings.filters = []; warnings.showwarning = print", "import filters\nprint(warnings.filters, warnings.showwarning)", "import warnings")
        self.assertIn("of a module", self.output("import warnings, filters\nprint(warnings.filters)"))

    def test_replaced_streams_and_hooks(self):
        self.assert_clean(
            "sys.stderr = sys.stdin = None; sys.excepthook = print; sys.displayhook = None; sys.stdout.reconfigure(encoding='ascii'); sys.stdout.note = 1; sys.settrace(lambda *a: None); sys.setprofile(None); sys.tracebacklimit = 0; sys.mine = 1",
            "print(sys.stdout.encoding, sys.stderr.errors, sys.stdin.encoding, sys.excepthook, sys.displayhook, vars(sys.stdout), sys.gettrace(), hasattr(sys, 'tracebacklimit'), hasattr(sys, 'mine'), sys.stdout is sys.__stdout__)",
        )

    def test_limits_of_the_interpreter(self):
        self.assert_clean(
            "sys.setrecursionlimit(77777); socket.setdefaulttimeout(3); decimal.getcontext().prec = 3; gc.disable(); sys.setswitchinterval(1); var.set(2)",
            "print(sys.getrecursionlimit(), socket.getdefaulttimeout(), decimal.getcontext().prec, gc.isenabled(), sys.getswitchinterval())",
            "import socket, decimal, gc, contextvars; var = contextvars.ContextVar('v')",
        )
        self.assert_clean("resource.setrlimit(resource.RLIMIT_NOFILE, (100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))", "print(resource.getrlimit(resource.RLIMIT_NOFILE))", "import resource")

    def test_logging(self):
        self.assert_clean(
            "logging.basicConfig(filename='@TMP@/log', level=1); logging.info('x'); logged.log.setLevel(50); logging.disable(50); os.unlink('@TMP@/log')",
            "print(logging.root.handlers, logging.root.level, len(logged.log.handlers), logged.log.level, logging.root.manager.disable)",
            "import logging, logged",
        )

    def test_what_a_module_registers_for_the_exit_is_not_called_at_the_end_of_a_script(self):
        for _ in range(2):
            self.assertEqual(self.output("import closer\nprint('script')", name="c.cgi"), "script\n")

    def test_processes_that_are_left_running_are_killed(self):
        self.server.fifo("alive")
        pids = self.output(
            "import os, subprocess\np = subprocess.Popen(['sleep', '1000']); print(p.pid, flush=True)\nos.system('sleep 1000 & echo $!')\nif os.fork() == 0:\n  os.execvp('sleep', ['sleep', '1000'])"
        ).split()
        self.assertEqual(len(pids), 2)
        for pid in pids:
            self.assertFalse(testing.is_alive(int(pid)), pid)

    def test_a_thread_of_the_script_that_goes_on_ends_with_the_process(self):
        mess = "import threading, time, os\ndef run():\n  while True: time.sleep(0.01)\nthreading.Thread(target=run, daemon=True).start()\nprint(os.getpid())"
        first = self.output(mess)
        self.assertNotEqual(self.output("import os\nprint(os.getpid())"), first)

    def test_a_thread_of_the_script_writes_nothing_into_the_next_response(self):
        for start in (
            "t = threading.Timer(0.5, print, ['SECRET']); t.daemon = True; t.start()",
            "t = threading.Thread(target=time.sleep, args=[1000], daemon=True); t.start()",
            "import _thread; _thread.start_new_thread(time.sleep, (1000,))",
            "multiprocessing.pool.ThreadPool(1).apply_async(time.sleep, [1000])",
        ):
            with self.subTest(start):
                first = self.output("import os, threading, time, multiprocessing.pool\n%s\nprint(os.getpid())" % start)
                self.assertNotEqual(self.output("import os\nprint(os.getpid())"), first)

    def test_threads_of_a_module_and_of_a_package_stay(self):
        use = "import sys, os\nsys.path.insert(0, 'site-packages')\nimport threaded, packaged\npackaged.start()\nprint(os.getpid(), threaded.thread.is_alive())"
        self.assertEqual(self.output(use), self.output(use))
        # The process ends before other tests, which count its threads and descriptors.
        self.output("import os\nos.nice(1)")

    def test_a_process_with_a_session_of_its_own_writes_nothing_into_the_next_response(self):
        for start in (
            "p = subprocess.Popen(['sleep', '1000'], start_new_session=True); pid = p.pid",
            "p = subprocess.Popen(['sh', '-c', 'sleep 1000 & echo $! > @TMP@/pid'], start_new_session=True); p.wait(); pid = open('@TMP@/pid').read(); os.unlink('@TMP@/pid')",
        ):
            with self.subTest(start):
                first, daemon = self.output(f"import os, subprocess\n{start}\nprint(os.getpid(), pid)").split()
                self.addCleanup(kill, int(daemon))
                self.assertNotEqual(self.output("import os\nprint(os.getpid())").strip(), first)
        start = "import os, subprocess\nq = subprocess.DEVNULL\np = subprocess.Popen(['sleep', '1000'], start_new_session=True, stdout=q, stderr=q)\nprint(os.getpid(), p.pid)"
        first, daemon = self.output(start).split()
        self.addCleanup(kill, int(daemon))
        self.assertEqual(self.output("import os\nprint(os.getpid())").strip(), first)
        self.assertTrue(testing.is_alive(int(daemon)))

    def test_state_of_the_standard_library(self):
        self.assert_clean("csv.field_size_limit(1)", "print(csv.field_size_limit())", "import csv")
        self.assert_clean("threading.stack_size(1 << 20)", "print(threading.stack_size())", "import threading")
        self.assert_clean("ssl._create_default_https_context = ssl._create_unverified_context", "print(ssl._create_default_https_context.__name__)", "import ssl")
        show = "print(urllib.request._opener and urllib.request._opener.addheaders)"
        secret = "o = urllib.request.build_opener(); o.addheaders = [('Authorization', 's')]; urllib.request.install_opener(o)"
        self.assert_clean(secret, show, "import urllib.request")
        self.assertIn("kept", self.assert_clean(secret, show, "import urllib.request, opener"))
        for mess in ("random.seed(1)", "random.setstate(random.Random(1).getstate())"):
            self.output("import random\n" + mess, name="mess.cgi")
            self.assertNotEqual(self.output("import random\nprint(random.random())"), "0.13436424411240122\n")

    def test_a_changed_user_or_priority_renews_the_process(self):
        first = self.output("import os\nos.nice(1)\nprint(os.getpid())")
        self.assertEqual(self.output("import os\nprint(os.nice(0), os.getpid() == %s)" % first), f"{os.nice(0)} False\n")

    def test_descriptors_do_not_leak_over_many_requests(self):
        self.script(HEAD + "import os\nx = [os.open('/dev/null', 0) for _ in range(50)]; x[0] = open('/dev/null'); y = [x]; y.append(y)", "leak.cgi")
        for _ in range(60):
            self.assertEqual(self.server.get("/rte/leak.cgi").status, 200)


if __name__ == "__main__":
    unittest.main()
