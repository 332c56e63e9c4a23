"""Unmodified CGI scripts in the engine: what they see and what they may do."""

import os
import re
import unittest

from support import EngineCase


LIBRARIES = r"""
import asyncio, multiprocessing, subprocess, concurrent.futures, sqlite3, sys, os, tempfile, csv, io
def sq(x): return x*x
async def main():
    p = await asyncio.create_subprocess_exec("echo", "hi", stdout=subprocess.PIPE)
    out, _ = await p.communicate()
    await asyncio.sleep(0)
    r = await asyncio.get_running_loop().run_in_executor(None, sq, 5)
    return out, r
if __name__ == "__main__":
    print("Content-Type: text/plain\n", flush=True)
    print(asyncio.run(main()), flush=True)
    with multiprocessing.Pool(2) as pool: print(pool.map(sq, [1,2,3]), flush=True)
    q = multiprocessing.Process(target=print, args=("from a process",)); q.start()
    q.join()
    with concurrent.futures.ProcessPoolExecutor(2) as ex: print(list(ex.map(sq, range(3))), flush=True)
    print(list(concurrent.futures.ThreadPoolExecutor(4).map(sq, range(4))), flush=True)
    db = sqlite3.connect(":memory:"); print(db.execute("select 1").fetchall())
    print(subprocess.run("cat; echo x", shell=True, capture_output=True, text=True).stdout)
    leftover = multiprocessing.Process(target=sq, args=(1,)); leftover.start()
    csv.writer(sys.stdout).writerow(["a", 1])
"""


class Scripts(EngineCase):
    files = {f"scripts/{name}/settings.py": f"colour = '{name}'\n" for name in "ab"}

    def test_a_script_is_main_with_arguments_paths_and_working_directory_of_cgi(self):
        got = self.assert_as_cgi(
            """
            import sys, os
            print("Content-Type: text/plain\\n")
            print(__name__, __file__, sys.argv, sys.path[0], os.getcwd(), __spec__, __package__)
            print(sorted(name for name in globals() if name not in ("__annotations__", "__builtins__")))
            print(sys.modules["__main__"].__dict__ is globals(), type(__builtins__).__name__)
            """
        )
        self.assertIn("__main__ " + self.server.path("scripts/script.cgi"), got.text)

    def test_the_environment_is_that_of_cgi(self):
        got = self.run_script("import os\nprint('Content-Type: text/plain\\n')\nfor n in sorted(os.environ): print(n)", mode="cgi")
        names = {name for name in got.text.split() if not name.startswith("WWW_GATEWAY_")}
        mine = set(self.output("import os\nfor n in sorted(os.environ): print(n)").split())
        ours = {"CGIPLUSESC", "CGIPLUSEOT", "CGIPLUSIN", "CGIPLUSBUF", "SCRIPT_RTE", "WWW_GATEWAY_MRS"}
        self.assertEqual(names - mine, set())
        self.assertEqual(mine - names - ours, set())
        self.assertNotIn("CGIPLUSEOF", mine)

    def test_the_environment_changes_with_the_request_also_for_child_processes(self):
        source = "import subprocess, os\nprint(os.environ.get('QUERY_STRING'), os.environ.get('HTTP_X_A'), flush=True)\nsubprocess.run('echo \"$QUERY_STRING\" \"$HTTP_X_A\"', shell=True)"
        self.assertEqual(self.output(source, query="?a=1", headers={"X-A": "yes"}), "a=1 yes\na=1 yes\n")
        self.assertEqual(self.output(source, query="?b=2"), "b=2 None\nb=2 \n")

    def test_the_process_stays_and_a_changed_script_is_compiled_again(self):
        first, second = (self.output("import os\nprint(os.getpid())") for _ in range(2))
        self.assertEqual(first, second)
        self.assertEqual(self.output("import os\nprint(-os.getpid())"), "-" + first)

    def test_text_and_bytes_on_the_standard_streams(self):
        self.assert_as_cgi(
            """
            import sys
            sys.stdout.buffer.write(b"Content-Type: text/plain; charset=utf-8\\n\\n")
            sys.stdout.buffer.write(b"\\xff\\x00")
            sys.stdout.flush()
            sys.stdout.reconfigure(encoding="utf-16-le", newline="\\r\\n")
            print("grün")
            print(sys.stdin.encoding, sys.stderr.errors, sys.stdout.fileno(), sys.stdin.fileno(), sys.stderr.fileno())
            """
        )
        self.assertEqual(self.output("print('grün')"), "grün\n")

    def test_output_by_descriptor_mixed_with_print_has_the_order_of_cgi(self):
        self.assert_as_cgi(
            """
            import os, subprocess, sys
            print("Content-Type: text/plain\\n", flush=True)
            print("one", flush=True)
            os.write(1, b"two\\n")
            print("four")
            subprocess.run(["echo", "three"])
            os.system("echo still before four")
            """
        )

    def test_wrappers_around_standard_output(self):
        for line in (
            "sys.stdout = codecs.getwriter('latin-1')(sys.stdout.buffer)",
            "sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='latin-1')",
            "sys.stdout = io.TextIOWrapper(sys.stdout.detach(), encoding='latin-1')",
            "sys.stdout = os.fdopen(sys.stdout.fileno(), 'w', encoding='latin-1')",
            "sys.stdout = open(1, 'w', encoding='latin-1', closefd=False)",
            "out = io.TextIOWrapper(sys.stdout.buffer, encoding='latin-1'); print = lambda text: out.write(text + '\\n')",
        ):
            with self.subTest(line):
                source = f"import codecs, io, os, sys\n{line}\nprint('Content-Type: text/plain; charset=latin-1\\n')\nprint('grün')"
                got = self.assert_as_cgi(source)
                self.assertEqual(got.body, b"gr\xfcn\n")

    def test_a_script_that_closes_its_streams(self):
        for line in ("sys.stdout.close()", "sys.stdin.close()", "os.close(1)", "os.close(0); os.close(3)", "os.closerange(0, 1000)"):
            with self.subTest(line):
                got = self.run_script(f"import os, sys\nprint('Content-Type: text/plain\\n\\nok', flush=True)\n{line}")
                self.assertEqual((got.status, got.text), (200, "ok\n"))
        self.assertEqual(self.output("import sys\nprint(repr(sys.stdin.read()))"), "''\n")

    def test_a_body_ends_with_end_of_file_for_scripts_and_child_processes(self):
        for size in (0, 1, 5000, 65536, 65537, 3_000_000):
            body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
            with self.subTest(size):
                source = """
                    import sys, hashlib
                    print("Content-Type: text/plain\\n")
                    data = sys.stdin.buffer.read()
                    print(len(data), hashlib.sha256(data).hexdigest(), sys.stdin.read() == "")
                    """
                self.assert_as_cgi(source, body=body)
                self.assert_as_cgi("import os\nos.system('echo Content-Type: text/plain; echo; sha256sum; cat')", body=body)
        self.assert_as_cgi("import os\nos.system('echo Content-Type: text/plain; echo; sha256sum')")

    def test_a_body_is_read_as_it_arrives(self):
        self.script("import sys\nprint('Content-Type: text/event-stream\\n', flush=True)\nfor line in sys.stdin.buffer:\n  print('got', line, flush=True)", "echo.cgi")
        with self.server.connect() as client:
            client.send("POST /rte/echo.cgi HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n\r\none\n")
            self.assertEqual(client.head().status, 200)
            client.read_body_until(b"got b'one\\n'\n")
            client.send("two\n")
            client.read_body_until(b"got b'two\\n'\n")
            client.send(b"x" * (9000 - 8))
            client.read_body_until(b"xxx'\n")

    def test_sys_exit_with_every_kind_of_argument(self):
        for argument in ("", "0", "None", "False", "256", "3", "'text'", "(1, 2)", "-1"):
            with self.subTest(argument):
                self.assert_as_cgi(f"import sys\nprint('Content-Type: text/plain\\n\\nbody')\nsys.exit({argument})")
        self.assert_as_cgi("import sys\nprint('Status: 404 Not Found\\nContent-Type: text/plain\\n\\nnot here')\nsys.exit(1)")
        self.assert_as_cgi("import sys\nprint('Location: http://localhost/\\n')\nsys.exit(1)")
        self.assert_as_cgi("print('Content-Type: text/plain\\n\\nby exit()')\nexit()")
        self.assert_as_cgi("import os\nos.write(1, b'Content-Type: text/plain\\n\\nbody')\nraise SystemExit(1)")
        for source in ("import sys\nsys.exit(1)", "import sys\nprint('Content-Type: text/plain\\n')\nsys.exit('why')"):
            self.assertEqual(self.run_script(source).status, 502)
        self.server.log_line("why")

    def test_an_exception_is_502_with_a_traceback_of_the_script_only(self):
        start = self.server.log_position()
        got = self.run_script("def f():\n    raise ValueError('no such colour')\nprint('Content-Type: text/plain\\n\\nbuffered')\nf()")
        self.assertEqual(got.status, 502)
        self.assertNotIn("buffered", got.text)
        self.server.log_line("ValueError: no such colour", start)
        self.server.log_line("Traceback", start)
        lines = [line for line in self.server.log().splitlines()[start:] if ", in " in line and "File" in line]
        self.assertEqual([re.search(r'([^/"]*", line .*?)( site=.*)?$', line)[1] for line in lines], ['script.cgi", line 5, in <module>', 'script.cgi", line 3, in f'])
        self.assertEqual(self.output("print('next')"), "next\n")

    def test_a_syntax_error_is_502(self):
        start = self.server.log_position()
        self.assertEqual(self.run_script("print('Content-Type: text/plain\\n')\nif").status, 502)
        self.server.log_line("SyntaxError", start)
        self.assertNotIn("sluice_engine", "".join(self.server.log().splitlines(True)[start:]))

    def test_an_exception_within_the_body_cuts_the_response(self):
        got = self.run_script("print('Content-Type: text/plain\\n\\nstart', flush=True)\nprint('x' * 200000, flush=True)\n1/0")
        self.assertFalse(got.is_complete)
        self.assertEqual(self.output("print('next')"), "next\n")

    def test_an_excepthook_that_writes_a_page(self):
        source = """
            import sys
            print("Content-Type: text/html\\n")
            sys.excepthook = lambda kind, error, trace: print("<p>", kind.__name__, error)
            raise KeyError("x")
            """
        got = self.run_script(source)
        self.assertEqual((got.status, got.text), (200, "<p> KeyError 'x'\n"))

    def test_the_modules_cgi_and_cgitb(self):
        source = """
            import warnings; warnings.simplefilter("ignore")
            try:
                import cgi, cgitb
            except ImportError:
                print("Content-Type: text/plain\\n\\nthere are none"); raise SystemExit
            cgitb.enable()
            print("Content-Type: text/plain\\n")
            form = cgi.FieldStorage()
            form["a"]
            print(form.getfirst("a"), form["f"].filename, form["f"].file.read())
            """
        body = b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--x\r\nContent-Disposition: form-data; name="f"; filename="n.txt"\r\n\r\nfile\r\n--x--\r\n'
        got = self.assert_as_cgi(source, body=body, headers={"Content-Type": "multipart/form-data; boundary=x"})
        if "none" not in got.text:
            self.assertEqual(got.text, "1 n.txt b'file'\n")
            self.assertIn("KeyError", self.run_script(source.replace("print(form", "form[\"b\"]; print(form"), body=b"").text)

    def test_threads_are_waited_for(self):
        source = """
            import threading, time, concurrent.futures, sys
            print("Content-Type: text/plain\\n")
            go = threading.Event()
            threading.Thread(target=lambda: (go.wait(), print("from a thread"))).start()
            pool = concurrent.futures.ThreadPoolExecutor(2)
            future = pool.submit(lambda: (go.wait(), print("from a pool", file=sys.stderr)))
            print("end of the script")
            go.set()
            """
        self.assertEqual(self.assert_as_cgi(source).text, "end of the script\nfrom a thread\n")

    def test_functions_for_the_exit_run_at_the_end_of_the_script(self):
        self.assert_as_cgi(
            """
            import atexit, sys
            print("Content-Type: text/plain\\n")
            atexit.register(print, "second", end="!\\n")
            @atexit.register
            def first():
                print("first", first.__name__)
            gone = atexit.register(print, "never")
            atexit.unregister(gone)
            """
        )
        self.assertEqual(self.output("print('nothing else')"), "nothing else\n")

    def test_destructors_run_at_the_end_and_may_print(self):
        self.assertEqual(self.output("class A:\n  def __del__(self): print('gone', len('four'))\na = A()\nprint('end')"), "end\ngone 4\n")

    def test_fork_in_a_script(self):
        self.assert_as_cgi(
            """
            import os, sys
            print("Content-Type: text/plain\\n", flush=True)
            if os.fork() == 0:
                print("the child")
                sys.exit(3)
            pid, status = os.wait()
            print("the parent", os.WEXITSTATUS(status))
            if os.fork() == 0:
                os._exit(4)
            print(os.WEXITSTATUS(os.wait()[1]))
            """
        )

    def test_os_exit_ends_the_process_and_affects_one_request(self):
        self.run_script("import os\nprint('Content-Type: text/plain\\n\\nhere', flush=True)\nos._exit(1)")
        self.run_script("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)")
        self.assertEqual(self.output("print('next')"), "next\n")

    def test_a_large_output_is_written_as_it_comes_and_flush_sends_at_once(self):
        self.server.fifo("go")
        self.script("print('Content-Type: text/plain\\n\\nfirst', flush=True)\nopen('@DIR@/go').readline()\nprint('last')", "stream.cgi")
        with self.server.connect() as client:
            client.get("/rte/stream.cgi")
            self.assertEqual(client.head().status, 200)
            client.read_body_until(b"first\n")
            self.server._fifos[-1].release()
            client.read_body_until(b"last\n")
        got = self.run_script("print('Content-Type: text/plain\\n')\nfor i in range(200000): print('%09d' % i)")
        self.assertEqual((len(got.body), got.body[-10:]), (2_000_000, b"000199999\n"))

    def test_no_output_is_a_fault_and_an_empty_body_is_none(self):
        self.assertEqual(self.run_script("pass").status, 502)
        self.assertEqual(self.run_script("print('Content-Type: text/plain\\n')").status, 200)
        self.assertEqual(self.run_script("print('Status: 204 No Content\\n')").status, 204)

    def test_scripts_in_two_directories_have_modules_of_the_same_name(self):
        for name in "ab":
            self.script("import settings, sys\nprint('Content-Type: text/plain\\n\\n' + settings.colour)", f"{name}/x.cgi")
        for name in "aabba":
            self.assertEqual(self.server.get(f"/rte/{name}/x.cgi").text, name + "\n")

    def test_processes_threads_and_event_loops_of_the_standard_library(self):
        got = self.assert_as_cgi(LIBRARIES)
        self.assertEqual(got.text.splitlines()[-4:], ["[(1,)]", "x", "", "a,1"])

    def test_memory_does_not_grow_with_requests(self):
        self.script(
            "class A:\n    def __init__(self): self.me = self; self.data = bytearray(100000)\nxs = [A() for _ in range(20)]\n"
            "try:\n    1/0\nexcept Exception as e:\n    keep = e\n"
            "print('Content-Type: text/plain\\n\\n', [line.split()[1] for line in open('/proc/self/status') if line.startswith('VmRSS')][0])",
            "memory.cgi",
        )
        with self.server.connect() as client:
            sizes = [int(client.get("/rte/memory.cgi").response().text) for _ in range(400)]  # 800 MB altogether
        self.assertLess(max(sizes[-20:]), sizes[0] + 100_000)

    def test_a_callout_of_a_script(self):
        source = """
            import os
            esc, eot = os.environ["CGIPLUSESC"], os.environ["CGIPLUSEOT"]
            print(esc + "\\nNOOP:\\n" + eot, flush=True)
            print(os.read(3, 100))
            """
        self.assertEqual(self.output(source), "b'200 OK\\n'\n")

    def test_names_that_are_not_ascii(self):
        self.script("import sys\nprint('Content-Type: text/plain\\n\\n' + ascii(sys.argv[0][-8:]))", "grün.cgi")
        self.assertEqual(self.server.get("/rte/gr%C3%BCn.cgi").text, "'gr\\xfcn.cgi'\n")


class Options(unittest.TestCase):
    def test_an_unknown_option_is_refused(self):
        import subprocess
        import sys

        engine = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../engine.py")
        for arguments in (["--nonsense=1"], ["file"], ["--fresh=never"], ["--app="]):
            done = subprocess.run([sys.executable, engine, *arguments], capture_output=True, text=True)
            self.assertEqual(done.returncode, 64)
            self.assertIn(arguments[0], done.stderr)


if __name__ == "__main__":
    unittest.main()
