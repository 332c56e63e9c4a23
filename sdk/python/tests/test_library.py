"""The library: the same scripts as CGI, CGIplus and under the engine; and its examples, from an installed wheel."""

import os
import shutil
import subprocess
import tempfile
import unittest

import support
from support import testing

PYTHON = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODES = ("cgi", "plus", "rte")
# Fields of the server; it knows the length of a response that comes in one write.
FRAMING = ("date", "server", "connection", "content-length", "transfer-encoding")


def configuration(python_path="", more="", venv="", scripts="scripts"):
    routes = ""
    for path, mode in (("cgi", 'mode = "cgi"'), ("plus", 'mode = "cgiplus", processes = 1'), ("rte", f'mode = "rte", engine = "python", processes = 1{venv}')):
        routes += f"""
      [[site.route]]
      path = "/{path}/*"
      script = {{ directory = "{scripts}", {mode}, environment = {{ TMPDIR = "@TMP@"{python_path}{more} }} }}
    """
    return '[server]\nsdk = "@SDK@"\n[[site]]\n' + routes


def multipart(*parts):
    """(head after "form-data; ", content) …"""
    body = b""
    for head, content in parts:
        body += b"--BOUND\r\nContent-Disposition: form-data; " + head.encode() + b"\r\n\r\n" + content + b"\r\n"
    return body + b"--BOUND--\r\n", {"Content-Type": "multipart/form-data; boundary=BOUND"}


class LibraryCase(testing.ServerCase):
    environment = {"PATH": support.PATH}
    configuration = configuration(f', PYTHONPATH = "{PYTHON}"')
    files = {"scripts/x.cgi": "#!/usr/bin/env python3\n"}

    def script(self, body, name):
        """A script with this loop body."""
        lines = "".join(f"    {line}\n" for line in body.strip("\n").splitlines())
        self.server.write(f"scripts/{name}.cgi", "#!/usr/bin/env python3\nimport sluice, os, sys\nwhile sluice.accept():\n" + lines)

    def each(self, code, name, query="", **request):
        """The responses of three modes, those of the two that keep their process twice. They are the same; the last one."""
        self.script(code, name)
        shown = []
        for mode in ("cgi", "plus", "rte", "plus", "rte"):
            path = f"/{mode}/{name}.cgi{query}"
            got = self.server.request("POST" if "body" in request else "GET", path, **request)
            fields = [(key.lower(), value) for key, value in got.fields if key.lower() not in FRAMING]
            shown.append((mode, got.status, got.is_complete, fields, got.body))
            self.assertEqual(shown[-1][1:], shown[0][1:], (mode, self.server.log()[-1500:]))
        return got


class Requests(LibraryCase):
    def test_variables_and_texts(self):
        body = """
sluice.respond("text/plain; charset=utf-8")
sluice.write(f"{sluice.variable('request_method')} {sluice.variable('WWW_QUERY_STRING')} {sluice.variable('nothing')} {sluice.variable('nothing', 'x')}\\n")
print(sluice.variables()["QUERY_STRING"], "grün")
sluice.write(sluice.escape_html("<a href='x'>&\\"") + sluice.url_encode("grün /+") + sluice.url_decode("gr%C3%BCn+x%2F") + "\\n")
"""
        got = self.each(body, "variables", "?a=b")
        self.assertEqual(got.text, "GET a=b None x\na=b grün\n&lt;a href=&#x27;x&#x27;&gt;&amp;&quot;gr%C3%BCn%20%2F%2Bgrün x/\n")

    def test_the_loop(self):
        self.script("sluice.respond('text/plain'); print(os.getpid(), sluice.uses(), sluice.is_persistent())", "loop")
        shown = {mode: [self.server.get(f"/{mode}/loop.cgi").text.split() for _ in range(3)] for mode in MODES}
        self.assertEqual([[line[1] for line in shown[mode]] for mode in MODES][0], ["1", "1", "1"])
        self.assertEqual([line[1] for line in shown["plus"]], ["1", "2", "3"])
        self.assertEqual(len({line[0] for line in shown["rte"]}), 1)
        self.assertEqual([shown[mode][0][2] for mode in MODES], ["False", "True", "False"])

    def test_without_accept(self):
        for code in (
            "sluice.respond('text/plain'); sluice.write(sluice.parameter('a'))",
            "sluice.header('X-A', 1); sluice.write(sluice.body_read())",
            "sluice.parameters('a'); sluice.status(201)\nwhile sluice.accept(): sluice.respond('text/plain')",
            "sluice.write('x'); sys.stdout.flush(); import atexit; atexit.unregister(sluice.request._end_of_script)",
        ):
            with self.subTest(code):
                self.server.write("scripts/bare.cgi", "#!/usr/bin/env python3\nimport sluice, sys\n" + code)
                shown = [self.server.post(f"/{mode}/bare.cgi?a=1", b"body") for mode in ("cgi", "rte", "rte", "rte")]
                self.assertLess(shown[0].status, 300)
                for got in shown:
                    self.assertEqual((got.status, got.is_complete, got.body, got.field("X-A")), (shown[0].status, True, shown[0].body, shown[0].field("X-A")))

    def test_bodies(self):
        body = "sluice.respond('application/octet-stream')\nsluice.write(sluice.body_read(3) + b'|')\nwhile part := sluice.body_read(100000): sluice.write(part)\nassert sluice.body_read() == b''"
        for size in (0, 2, 70000, 2_000_000):
            data = b"0123456789" * (size // 10) + b"x" * (size % 10)
            self.assertEqual(self.each(body, "body", body=data).body, data[:3] + b"|" + data[3:])

    def test_what_is_not_read_does_not_reach_the_next_request(self):
        body = "sluice.respond('text/plain'); print(sluice.body_read(1).decode())"
        self.assertEqual(self.each(body, "unread", body=b"ab" * 1000).text, "a\n")


class Forms(LibraryCase):
    SHOW = """
try:
    names = sluice.parameter_names()
    sluice.respond("text/plain; charset=utf-8")
    for name in names: sluice.write(f"{name!r}={sluice.parameters(name)!r}\\n")
    for u in sluice.uploads(): sluice.write(f"{u.name} {u.filename!r} {u.type} {u.size} {open(u.path, 'rb').read()[-5:]!r}\\n")
    sluice.write(f"{sluice.parameter('nothing')} {sluice.parameter('nothing', 'x')} {sluice.upload('nothing')}\\n")
except sluice.FormError as error:
    sluice.fail(error.status, str(error))
"""

    def test_fields_of_the_query_and_the_body(self):
        got = self.each(self.SHOW, "form", "?a=1&b=%3D&a=2&c", body=b"a=3&d=gr%C3%BCn+x&=", headers={"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"})
        self.assertEqual(got.text, "'a'=['1', '2', '3']\n'b'=['=']\n'c'=['']\n'd'=['grün x']\n''=['']\nNone x None\n")
        self.assertEqual(self.each(self.SHOW, "form").text, "None x None\n")

    def test_uploads(self):
        large = b"x" * 1_000_000 + b"\r\n--BOUN" + b"y" * 70000 + b"tail\r\n"
        body, headers = multipart(
            ('name="text"', "grün".encode()),
            ('name="f"; filename="a.txt"\r\nContent-Type: text/plain', b"hello"),
            ('name="f"; filename="C:\\dir\\b\\"c.bin"', large),
            ("name=g; filename*=UTF-8''gr%C3%BCn.txt", b""),
            ('name="none"; filename=""', b""),
            ('name="../h"; filename="../../etc/passwd"', b"\r\n"),
        )
        got = self.each(self.SHOW, "form", "?q=1", body=body, headers=headers)
        self.assertEqual(
            got.text.splitlines(),
            [
                "'q'=['1']",
                "'text'=['grün']",
                "f 'a.txt' text/plain 5 b'hello'",
                "f 'b\"c.bin' application/octet-stream %d b'ail\\r\\n'" % len(large),
                "g 'grün.txt' application/octet-stream 0 b''",
                "../h 'passwd' application/octet-stream 2 b'\\r\\n'",
                "None x None",
            ],
        )
        # The server's stop checks that no temporary file is left.

    def test_bounds_and_malformed_bodies(self):
        urlencoded = {"Content-Type": "application/x-www-form-urlencoded"}
        for status, body, headers in (
            (413, b"a&" * 1001, urlencoded),
            (413, b"a=" + b"x" * (9 << 20), urlencoded),
            (413, *multipart(('name="a"', b"x" * (9 << 20)))),
            (413, *multipart(*[('name="a"', b"")] * 1001)),
            (413, *multipart(*[('name=""; filename=""\r\nContent-Type: ', b"")] * 1001)),
            (413, b"--BOUND\r\n" + b"X: y\r\n" * 5000, {"Content-Type": "multipart/form-data; boundary=BOUND"}),
            (400, b"--BOUND\r\nContent-Disposition: form-data; name=a\r\n\r\nno end", {"Content-Type": "multipart/form-data; boundary=BOUND"}),
            (400, b"", {"Content-Type": "multipart/form-data; boundary=BOUND"}),
            (400, b"--BOUND\r\n\r\nx\r\n--BOUND--", {"Content-Type": "multipart/form-data; boundary=BOUND"}),
            (400, b"x", {"Content-Type": "multipart/form-data"}),
        ):
            with self.subTest(status=status, start=body[:60]):
                self.assertEqual(self.each(self.SHOW, "form", body=body, headers=headers).status, status)
        body, headers = multipart(('name="f"; filename="a"', b"x" * 2000))
        self.assertEqual(self.each("sluice.upload_limit(1000)\n" + self.SHOW, "limited", body=body, headers=headers).status, 413)
        self.assertEqual(self.each(self.SHOW, "form", body=body, headers=headers).status, 200)


    def test_many_uploads(self):
        body, headers = multipart(*[(f'name="f"; filename="{number}"', b"%d" % number) for number in range(300)])
        got = self.each(self.SHOW, "form", body=body, headers=headers)
        self.assertEqual(got.text.splitlines()[:-1], [f"f '{number}' application/octet-stream {len(str(number))} b'{number}'" for number in range(300)])

    def test_a_process_that_is_killed_while_a_form_is_read_leaves_no_file(self):
        body, headers = multipart(('name="f"; filename="a"', b"x" * 200000))
        self.script("sluice.forms.Form.name_files = lambda form: os.kill(os.getpid(), 9)\nsluice.uploads()", "killed")
        for mode in MODES:
            self.assertEqual(self.server.post(f"/{mode}/killed.cgi", body, headers).status, 502)
        self.assertEqual(os.listdir(self.server.temporary), [])


class Responses(LibraryCase):
    def test_heads(self):
        got = self.each("sluice.status(404); sluice.header('X-A', '1'); sluice.header('X-A', '2'); sluice.respond('text/plain'); sluice.respond('text/html'); sluice.write('x')", "head")
        self.assertEqual((got.status, got.field_values("X-A"), got.field("Content-Type"), got.text), (404, ["1", "2"], "text/plain", "x"))
        self.assertEqual(self.each("sluice.write('default')", "default").field("Content-Type"), "text/html; charset=utf-8")
        self.assertEqual(self.each("sluice.status(204)", "empty").status, 204)
        got = self.each("sluice.redirect('/grün x?a=b&c=%20')", "redirect")
        self.assertEqual((got.status, got.field("Location")), (302, "/gr%C3%BCn%20x?a=b&c=%20"))
        self.assertEqual(self.each("sluice.redirect('https://example.org/', 308)", "redirect2").status, 308)
        got = self.each("sluice.header('Content-Length', 5); sluice.fail(403, 'Not you.')", "fail")
        self.assertEqual((got.status, got.text), (403, "403 Forbidden\nNot you.\n"))

    def test_what_a_head_must_not_contain_is_refused(self):
        body = """
for call in (lambda: sluice.header('X', 'a\\r\\nB: c'), lambda: sluice.header('X Y', 'a'), lambda: sluice.header('', 'a'), lambda: sluice.status(99), lambda: sluice.redirect('/a\\nB: c'),
             lambda: sluice.respond('text/plain\\n'), lambda: sluice.event('a', 'b\\nc'), lambda: sluice.callout('NOOP:\\nNOOP:'), lambda: sluice.callout(''), lambda: sluice.fail(200)):
    try: call()
    except ValueError: print('refused', end=' ')
"""
        self.assertEqual(self.each("sluice.channel.channel.output(); out = []; print = lambda *a, **k: out.append(a)" + body + "sluice.write(str(len(out)))", "refused").text, "10")

    def test_events(self):
        got = self.each("sluice.event('one')\nsluice.event('a\\nb\\r\\nc', 'tick', '7')", "events")
        self.assertEqual((got.field("Content-Type"), got.text), ("text/event-stream", "data: one\n\nid: 7\nevent: tick\ndata: a\ndata: b\ndata: c\n\n"))

    def test_flush_sends_at_once(self):
        go = self.server.fifo("go")
        self.script("sluice.respond('text/plain'); sluice.write('first\\n'); sluice.flush(); open('@DIR@/go').readline(); sluice.write('last\\n')", "flush")
        for mode in MODES:
            with self.server.connect() as client:
                client.get(f"/{mode}/flush.cgi")
                self.assertEqual(client.head().status, 200)
                client.read_body_until(b"first\n")
                go.release()
                client.read_body_until(b"last\n")

    def test_callouts(self):
        body = """
sluice.respond("text/plain")
sluice.write("before\\n")
sluice.write(f"{sluice.callout('NOOP:')} {sluice.callout('!NOOP:')} {sluice.callout('NONSENSE: x')[0]}\\n")
file = sluice.map_path(sluice.variable('SCRIPT_NAME'))
sluice.write(f"{file.endswith('callouts.cgi')} {sluice.map_file('/nowhere')} {sluice.lifetime('5m')} {sluice.lifetime('x')}\\n")
sluice.notice("a line for the log")
"""
        self.assertEqual(self.each(body, "callouts").text, "before\n(200, 'OK') (0, '') 400\nTrue None 300 None\n")
        self.server.log_lines(5, "a line for the log")


class Buffers(LibraryCase):
    BODY = """
size = sluice.buffer_begin(65536)
sluice.header('Content-Length', 3_000_007)
sluice.respond('application/octet-stream')
for i in range(30): sluice.buffer_write(bytes([i]) * 100000)
sluice.buffer_write('seven')
sluice.buffer_end()
sluice.write('!!')
"""

    def test_the_ring_and_the_plain_buffer_give_the_same(self):
        expected = b"".join(bytes([i]) * 100000 for i in range(30)) + b"seven!!"
        testing.need_file(os.path.join(PYTHON, "../c/build/libsluice.so"))
        body = self.BODY + "assert type(sluice.buffer).__name__ == 'module' and sluice.buffer.Ring.library is not None"
        self.assertEqual(self.each(body, "ring").body, expected)

    def test_a_buffer_that_is_not_ended_is_ended_with_the_response(self):
        body = "sluice.buffer_begin(65536); sluice.respond('text/plain'); sluice.buffer_write(b'x' * 100000)"
        self.assertEqual(len(self.each(body, "open").body), 100000)

    def test_errors(self):
        body = """
shown = []
for call in (lambda: sluice.buffer_write(b'x'), sluice.buffer_end, lambda: sluice.buffer_begin(1 << 50), lambda: sluice.buffer_begin(4096) and sluice.buffer_begin(4096)):
    try: call()
    except OSError as error: shown.append(error.errno)
sluice.respond('text/plain'); sluice.buffer_write(str(shown))
"""
        import errno

        self.assertEqual(self.each(body, "errors").text, str([errno.ENOTCONN, errno.ENOTCONN, errno.EFBIG, errno.EALREADY]))

    def test_a_client_that_leaves(self):
        self.script("sluice.buffer_begin(1 << 20); sluice.respond('application/octet-stream')\ntry:\n        while True: sluice.buffer_write(b'x' * 65536)\n    except BrokenPipeError: sluice.request.State.is_open and open('@DIR@/left', 'w').write('left')", "leave")
        left = self.server.fifo("left")
        for mode in ("plus", "rte"):
            client = self.server.connect()
            client.get(f"/{mode}/leave.cgi")
            client.head()
            client.reset()
        self.assertTrue(left)


class PlainBuffers(Buffers):
    """Without libsluice."""

    configuration = configuration(f', PYTHONPATH = "{PYTHON}"', ', SLUICE_LIBRARY = ""')

    def test_the_ring_and_the_plain_buffer_give_the_same(self):
        expected = b"".join(bytes([i]) * 100000 for i in range(30)) + b"seven!!"
        self.assertEqual(self.each(self.BODY + "assert sluice.buffer.Ring.library is None", "plain").body, expected)


class Examples(unittest.TestCase):
    """The examples with the library from a wheel in a virtual environment."""

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="sluice-venv-")
        cls.addClassCleanup(shutil.rmtree, cls.directory, ignore_errors=True)
        python = os.path.join(support.PATH.split(os.pathsep)[0], "python3")
        source = os.path.join(cls.directory, "source")
        shutil.copytree(PYTHON, source, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
        venv = cls.venv = os.path.join(cls.directory, "venv")
        if not cls.with_setuptools(python)["PYTHONPATH"]:
            testing.missing("setuptools 61 or newer, and wheel")
        done = subprocess.run([python, "-m", "venv", venv], capture_output=True, text=True)
        if done.returncode:
            testing.missing(f"python3-venv ({done.stdout[-200:]})")
        pip = [os.path.join(venv, "bin/python"), "-m", "pip", "--disable-pip-version-check", "-q"]
        subprocess.run([*pip, "wheel", "--no-index", "--no-build-isolation", "--no-deps", "-w", cls.directory, source], check=True, env=cls.with_setuptools(python))
        wheel = next(name for name in os.listdir(cls.directory) if name.endswith(".whl"))
        subprocess.run([*pip, "install", "--no-index", os.path.join(cls.directory, wheel)], check=True)
        cls.server = testing.Server(
            configuration(venv=f', virtualenv = "{venv}"', scripts="@SDK@/python/examples"), environment={"PATH": os.path.join(venv, "bin") + os.pathsep + support.PATH}
        )

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    @staticmethod
    def with_setuptools(python):
        """The environment in which a virtual environment finds setuptools and wheel of the system."""
        code = "import setuptools, wheel, os; int(setuptools.__version__.split('.')[0]) >= 61 and print(os.pathsep.join({os.path.dirname(os.path.dirname(m.__file__)) for m in (setuptools, wheel)}))"
        found = subprocess.run([python, "-c", code], capture_output=True, text=True)
        return dict(os.environ, PYTHONPATH=found.stdout.strip())

    def test_the_library_comes_from_the_wheel(self):
        code = "import sluice; print(sluice.__file__)"
        done = subprocess.run([os.path.join(self.venv, "bin/python"), "-c", code], capture_output=True, text=True, cwd="/")
        self.assertIn("site-packages/sluice/__init__.py", done.stdout)

    def test_hello_and_counter(self):
        for mode in MODES:
            self.assertRegex(self.server.get(f"/{mode}/hello.py").text, "^Hello, 127.0.0.1.\nThis process has answered [0-9]+ requests?.\n$")
        self.assertEqual([self.server.get("/cgi/counter.py").text for _ in range(2)], ["1\n", "1\n"])
        self.assertEqual([self.server.get("/plus/counter.py").text for _ in range(2)], ["1\n", "2\n"])
        first, second = (int(self.server.get("/rte/counter.py").text) for _ in range(2))
        self.assertEqual(second, first + 1)

    def test_form(self):
        body, headers = multipart(('name="name"', b"<Ann>"), ('name="file"; filename="a&b.txt"\r\nContent-Type: text/plain', b"<first>\nsecond"))
        for mode in MODES:
            self.assertIn('enctype="multipart/form-data"', self.server.get(f"/{mode}/form.py").text)
            text = self.server.post(f"/{mode}/form.py", body, headers).text
            self.assertIn("<dt>name<dd>&lt;Ann&gt;\n<dt>a&amp;b.txt<dd>14 bytes of text/plain, begins with <code>&lt;first&gt;</code>", text)
            self.assertEqual(self.server.post(f"/{mode}/form.py", body[:50], headers).status, 400)

    def test_download(self):
        expected = b"".join(bytes([i & 0xFF]) * 65536 for i in range(48))
        for mode in MODES:
            got = self.server.get(f"/{mode}/download.py?mb=3")
            self.assertEqual((got.field("X-Buffer"), got.body == expected), ("yes", True))
            self.assertEqual(self.server.get(f"/{mode}/download.py?mb=x").status, 400)

    def test_events(self):
        for mode in MODES:
            got = self.server.get(f"/{mode}/events.py?count=2&pause=1", {"Last-Event-ID": "4"})
            self.assertEqual([line for line in got.text.splitlines() if not line.startswith("data")], ["id: 5", "event: tick", "", "id: 6", "event: tick", ""])


if __name__ == "__main__":
    unittest.main()
