"""WSGI applications in the engine: PEP 3333, checked by wsgiref.validate, and real frameworks."""

import hashlib
import os
import sys
import unittest

import support
from support import testing

PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"

VALID = '''
import os, sys, time
from wsgiref.validate import validator

def simple(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [repr((environ["SCRIPT_NAME"], environ["PATH_INFO"], environ.get("QUERY_STRING"), environ["wsgi.url_scheme"])).encode()]

def echo(environ, start_response):
    start_response("200 OK", [("Content-Type", "application/octet-stream")])
    def blocks():
        while block := environ["wsgi.input"].read(50000):
            yield block
    return blocks()

def lines(environ, start_response):
    body = environ["wsgi.input"]
    first, two, rest = body.readline(), body.readlines(6), list(body)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [repr((first, two, rest, body.read(1))).encode()]

def write(environ, start_response):
    write = start_response("200 OK", [("Content-Type", "text/plain")])
    write(b"one "); write(b"two ")
    return [b"three"]

def empty(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "0")])
    return []

def nothing(environ, start_response):
    start_response("204 No Content", [])
    return [b""]

def moved(environ, start_response):
    start_response("302 Found", [("Location", "/elsewhere"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("Content-Type", "text/plain")])
    return [b"moved"]

def stream(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    yield b"first\\n"
    open("@DIR@/go").readline()
    yield b"last\\n"

def large(environ, start_response):
    path = "@DIR@/large"
    start_response("200 OK", [("Content-Type", "application/octet-stream")])
    file = open(path, "rb")
    file.seek(int(environ["QUERY_STRING"] or 0))
    return environ["wsgi.file_wrapper"](file, 4096)

def memory_file(environ, start_response):
    import io
    start_response("200 OK", [("Content-Type", "text/plain")])
    return environ["wsgi.file_wrapper"](io.BytesIO(b"from memory"))

class Closing:
    def __init__(self, fail): self.fail = fail
    def __iter__(self):
        yield b"x" * 100000
        if self.fail: raise ValueError("in the middle")
    def close(self): print("closed", self.fail, file=sys.stderr)

def closing(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return Closing(environ["QUERY_STRING"] == "fail")

def before(environ, start_response):
    raise KeyError("before the head")

def replaced(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    try:
        raise ValueError
    except ValueError:
        start_response("500 Oops", [("Content-Type", "text/plain")], sys.exc_info())
    return [b"the error page"]

def too_late(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    def blocks():
        yield b"x" * 100000
        try:
            raise ValueError("too late")
        except ValueError:
            start_response("500 Oops", [("Content-Type", "text/plain")], sys.exc_info())
    return blocks()

def prints(environ, start_response):
    print("a print in the application")
    os.write(1, b"a write to descriptor 1\\n")
    environ["wsgi.errors"].write("to wsgi.errors\\n")
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str(os.getpid()).encode()]

def flags(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [repr((environ["wsgi.multithread"], environ["wsgi.multiprocess"], environ["wsgi.run_once"], type(environ).__name__, "CGIPLUSEOF" in environ, os.getcwd())).encode()]

def bad(environ, start_response):
    kind = environ["QUERY_STRING"]
    headers = {"hop": [("Connection", "close")], "break": [("X-A", "a\\r\\nB: c")], "name": [("X A", "a")], "bytes": [(b"X", "a")], "tuple": ()}.get(kind, [])
    if kind != "nothing":
        start_response("OK" if kind == "status" else "200 OK", headers)
    if kind == "twice":
        start_response("200 OK", [])
    return ["text"] if kind == "text" else [b"x"]

def forks(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
    if environ["QUERY_STRING"] == "killed":
        os.kill(os.getpid(), 9)
    return [b"the process" if pid else b"the child"]

def leave(environ, start_response):
    sys.exit(3)

KEPT = []

def keep(environ, start_response):
    KEPT.append(environ["wsgi.input"])
    start_response("200 OK", [("Content-Type", "text/plain")])
    if environ["QUERY_STRING"] == "thread":
        import threading
        threading.Thread(target=KEPT[-1].read, daemon=True).start()
        while not KEPT[-1].raw._is_reading:
            time.sleep(0)
        return [str(os.getpid()).encode()]
    return [KEPT[-1].read(2)]

def kept(environ, start_response):
    try:
        stolen = KEPT[-1].read(5)
        while stolen:
            stolen = KEPT[-1].read(5)
    except ValueError as error:
        stolen = str(error)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [repr((stolen, environ["wsgi.input"].read())).encode()]

APPS = {name: f if name in ("before", "bad", "leave", "large", "memory_file", "keep", "kept") else validator(f) for name, f in list(globals().items()) if callable(f) and getattr(f, "__module__", "") == __name__ and name != "Closing"}

def app(environ, start_response):
    return APPS[environ["PATH_INFO"].strip("/").partition("/")[0] or "simple"](environ, start_response)

def create_app(prefix="", *, suffix=""):
    def made(environ, start_response):
        start_response("200 OK", [])
        return [(prefix + "made" + suffix).encode()]
    return made
'''

FLASK = """
from flask import Flask, request, redirect, url_for, session, send_file, stream_with_context, Response, abort
app = Flask(__name__)
app.secret_key = "x"
@app.route("/")
def index():
    session["n"] = session.get("n", 0) + 1
    return f"hello {request.args.get('name', 'world')} {session['n']} {url_for('upload')}"
@app.route("/upload", methods=["POST"])
def upload():
    file = request.files["file"]
    return f"{file.filename} {len(file.read())} {request.form['text']}"
@app.route("/go")
def go():
    return redirect(url_for("index"))
@app.route("/file")
def file():
    return send_file("@DIR@/large", mimetype="application/octet-stream", conditional=True)
@app.route("/stream")
def stream():
    return Response((f"{i}\\n" for i in range(1000)), mimetype="text/plain")
@app.route("/fail")
def fail():
    raise RuntimeError("in a view")
@app.route("/json", methods=["POST"])
def json():
    return {"got": request.get_json()}
"""

DJANGO = """
import sys
from django.conf import settings
settings.configure(DEBUG=False, LOGGING={"version": 1, "disable_existing_loggers": False, "handlers": {"log": {"class": "logging.StreamHandler"}}, "root": {"handlers": ["log"]}}, SECRET_KEY="x", ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], MIDDLEWARE=[],
    FILE_UPLOAD_TEMP_DIR="@TMP@")
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse, StreamingHttpResponse, HttpResponseRedirect, FileResponse
from django.urls import path, reverse
from django.views.decorators.csrf import csrf_exempt
def index(request): return HttpResponse(f"hello {request.GET.get('name')} {reverse('upload')}")
def upload(request):
    file = request.FILES["file"]
    return HttpResponse(f"{file.name} {file.size} {request.POST['text']}")
def stream(request): return StreamingHttpResponse(f"{i}\\n" for i in range(1000))
def go(request): return HttpResponseRedirect(reverse("index"))
def fail(request): raise RuntimeError("in a view")
def file(request): return FileResponse(open("@DIR@/large", "rb"))
urlpatterns = [path("", index, name="index"), path("upload", csrf_exempt(upload), name="upload"), path("stream", stream), path("go", go), path("fail", fail), path("file", file)]
application = get_wsgi_application()
"""

BOTTLE = """
import bottle
from bottle import request, redirect, static_file
@bottle.route("/")
def index(): return "hello " + request.query.get("name", "") + " " + request.script_name + "upload"
@bottle.post("/upload")
def upload():
    file = request.files["file"]
    return f"{file.raw_filename} {len(file.file.read())} {request.forms['text']}"
@bottle.route("/stream")
def stream():
    for i in range(1000): yield f"{i}\\n"
@bottle.route("/go")
def go(): redirect("/bottle/")
@bottle.route("/fail")
def fail(): raise RuntimeError("in a view")
@bottle.route("/file")
def file(): return static_file("large", root="@DIR@")
app = bottle.default_app()
"""


CHANGING = """
def app(environ, start_response):
    start_response("200 OK", [])
    return [b"%s"]
"""


def route(path, app, more=""):
    return f"""
      [[site.route]]
      path = "{path}"
      script = {{ directory = "site", mode = "rte", engine = "python", app = "{app}", processes = 1, environment = {{ TMPDIR = "@TMP@" }}{more} }}
    """


SITE = '[server]\nsdk = "@SDK@"\n[[site]]\n'


class Applications(testing.ServerCase):
    environment = {"PATH": support.PATH}
    configuration = SITE + "".join(
        [
            route("/valid/*", "valid:app"),
            route("/factory/*", "valid:create_app('<', suffix='>')"),
            route("/fork/*", "valid:app", ', fresh = "fork"'),
            route("/broken/*", "broken:app"),
            route("/changing/*", "changing:app"),
            route("/missing/*", "valid:nothing_like_this"),
            route("/asgi/*", "asgi:app"),
            route("/asgi-class/*", "asgi_class:app"),
            route("/installed/*", "installed_application:app", ', virtualenv = "@DIR@/venv"'),
            route("/flask/*", "flask_site:app"),
            route("/django/*", "django_site:application"),
            route("/bottle/*", "bottle_site:app"),
            route("/*", "valid:app"),
        ]
    )
    large = os.urandom(1 << 20) * 5
    files = {
        "site/valid.py": VALID,
        "site/changing.py": "from changing_text import app\n",
        "site/changing_text.py": CHANGING % "0",
        "site/broken.py": "import no_such_module\n",
        # Not certain by their text, so the server starts.
        "site/asgi.py": "async def call(scope, receive, send): pass\napp = call\n",
        "site/asgi_class.py": "class Application:\n    async def __call__(self, scope, receive, send): pass\napp = Application()\n",
        f"venv/lib/{PYTHON}/site-packages/installed_application/__init__.py": CHANGING % "installed",
        "venv/pyvenv.cfg": f"home = {os.path.dirname(os.path.realpath(sys.executable))}\ninclude-system-site-packages = false\n",
        "venv/bin/.keep": "",
        "site/flask_site.py": FLASK,
        "site/django_site.py": DJANGO,
        "site/bottle_site.py": BOTTLE,
        "large": large,
    }

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        os.symlink(os.path.realpath(sys.executable), cls.server.path("venv/bin/python"))

    def get(self, path, **headers):
        return self.server.get(path, headers)

    def test_an_installed_application(self):
        self.assertEqual(self.get("/installed/x").text, "installed")

    def test_an_asgi_application_says_what_to_do(self):
        for path in ("/asgi/", "/asgi-class/"):
            start = self.server.log_position()
            self.assertEqual(self.get(path).status, 502)
            self.server.log_line("is an ASGI application, and this engine runs WSGI: wrap it by a2wsgi.ASGIMiddleware", start)

    def assert_failed(self, path):
        """The response is never one that looks complete: 502 if nothing has been sent yet."""
        got = self.get(path)
        self.assertTrue(got.status == 502 or not got.is_complete, got)

    def test_names_of_the_request(self):
        self.assertEqual(self.get("/valid/simple/a%20b?c=d").text, "('/valid', '/simple/a b', 'c=d', 'http')")
        self.assertEqual(self.get("/simple").text, "('', '/simple', '', 'http')")
        self.assertEqual(self.get("/valid").text, "('/valid', '', '', 'http')", "the mount point itself has an empty PATH_INFO")
        self.assertEqual(self.get("/valid/flags").text, f"(False, True, False, 'dict', False, {self.server.path('site')!r})")
        self.assertEqual(self.get("/factory/").text, "<made>")

    def test_bodies_stream_in_and_out(self):
        for size in (0, 1, 65536, 3_000_000):
            body = self.large[:size]
            self.assertEqual(self.server.post("/valid/echo", body).body, body)
        self.assertEqual(self.server.request("POST", "/valid/echo", chunks=[b"a" * 70000, b"b"]).body, b"a" * 70000 + b"b")
        got = self.server.post("/valid/lines", b"one\ntwo\nthree\nfour\nfive")
        self.assertEqual(got.text, "(b'one\\n', [b'two\\n', b'three\\n'], [b'four\\n', b'five'], b'')")
        self.assertEqual(self.server.post("/valid/simple", self.large).status, 200)
        self.assertEqual(self.server.post("/valid/echo", b"mine").body, b"mine")

    def test_a_body_that_is_kept_ends_with_its_reply(self):
        head = b"POST /valid/%s HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n"
        with self.server.connect() as client:
            client.send(head % b"keep" + b"01234")
            self.assertEqual(client.response().text, "01")
            client.send(b"56789" + head % b"kept" + b"abcdefghij")
            self.assertEqual(client.response().text, "('the request of this body has been answered', b'abcdefghij')")

    def test_a_thread_that_waits_for_a_body_costs_the_process(self):
        with self.server.connect() as client:
            client.send(b"POST /valid/keep?thread HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n01234")
            process = client.response().text
            client.send(b"56789")
            self.assertEqual(self.server.post("/valid/echo", b"mine").text, "mine")
            self.assertNotEqual(self.server.get("/valid/prints").text, process)

    def test_a_block_is_sent_before_the_next_is_asked_for(self):
        go = self.server.fifo("go")
        with self.server.connect() as client:
            client.get("/valid/stream")
            self.assertEqual(client.head().status, 200)
            client.read_body_until(b"first\n")
            go.release()
            client.read_body_until(b"last\n")
            self.assertEqual(client.read_chunk(), b"")

    def test_write_and_other_results(self):
        self.assertEqual(self.get("/valid/write").text, "one two three")
        self.assertEqual((self.get("/valid/empty").status, self.get("/valid/empty").body), (200, b""))
        self.assertEqual(self.get("/valid/nothing").status, 204)
        got = self.get("/valid/moved")
        self.assertEqual((got.status, got.field("Location"), got.field_values("Set-Cookie"), got.text), (302, "/elsewhere", ["a=1", "b=2"], "moved"))
        head = self.server.request("HEAD", "/valid/simple")
        self.assertEqual((head.status, head.body), (200, b""))

    def test_files(self):
        got = self.get("/valid/large")
        self.assertEqual((got.field("Content-Length"), hashlib.sha256(got.body).digest()), (str(len(self.large)), hashlib.sha256(self.large).digest()))
        self.assertEqual(self.get("/valid/large?5000001").body, self.large[5000001:])
        self.assertEqual(self.get("/valid/memory_file").text, "from memory")

    def test_close_is_always_called(self):
        start = self.server.log_position()
        self.assertEqual(len(self.get("/valid/closing").body), 100000)
        self.server.log_line("closed False", start)
        self.assert_failed("/valid/closing?fail")
        self.server.log_line("closed True", start)
        self.server.log_line("ValueError: in the middle", start)

    def test_errors_before_and_after_the_head(self):
        start = self.server.log_position()
        self.assertEqual(self.get("/valid/before").status, 502)
        self.server.log_line("KeyError: 'before the head'", start)
        self.assertNotIn("sluice_engine", self.server.log())
        got = self.get("/valid/replaced")
        self.assertEqual((got.status, got.text), (500, "the error page"))
        self.assert_failed("/valid/too_late")
        self.server.log_line("ValueError: too late", start)
        self.assertEqual(self.get("/valid/leave").status, 502)
        self.assertEqual(self.get("/valid/simple").status, 200)

    def test_what_an_application_must_not_do_is_refused(self):
        for kind in ("hop", "break", "name", "bytes", "tuple", "status", "twice", "text", "nothing"):
            with self.subTest(kind):
                self.assertEqual(self.get("/valid/bad?" + kind).status, 502)
        self.assertEqual(self.get("/valid/bad?good").text, "x")

    def test_prints_go_to_the_log(self):
        start = self.server.log_position()
        first, second = self.get("/valid/prints").text, self.get("/valid/prints").text
        self.assertEqual(first, second)
        for text in ("a print in the application", "a write to descriptor 1", "to wsgi.errors"):
            self.server.log_line(text, start)

    def test_an_application_that_cannot_be_imported(self):
        self.assertEqual(self.get("/broken/").status, 502)
        self.server.log_line("No module named 'no_such_module'")
        self.server.write("site/broken.py", "def app(environ, start_response):\n    start_response('200 OK', [])\n    return [b'repaired']\n")
        self.assertEqual(self.get("/broken/").text, "repaired")
        self.assertEqual(self.get("/missing/").status, 502)
        self.server.log_line("has no 'nothing_like_this'")

    def test_a_changed_module_is_imported_again(self):
        for version in "010":  # of the same size, and within a second
            self.server.write("site/changing_text.py", CHANGING % version)
            self.assertTrue(testing.wait_until(lambda: self.get("/changing/").text == version))

    def test_a_process_that_the_application_forks_writes_no_reply(self):
        for path in ("/valid/forks", "/fork/forks"):
            for _ in range(3):
                self.assertEqual(self.get(path).text, "the process")
        self.assertEqual(self.get("/fork/forks?killed").status, 502)
        self.assertEqual(self.get("/fork/forks").text, "the process")

    def test_a_process_for_each_request(self):
        first, second = self.get("/fork/prints").text, self.get("/fork/prints").text
        self.assertNotEqual(first, second)
        self.assertEqual(self.server.post("/fork/echo", self.large).body, self.large)
        self.assertEqual(self.get("/fork/before").status, 502)
        self.assert_failed("/fork/closing?fail")

    def check_framework(self, name, package):
        testing.need_program("python3")
        self.need_module(package)
        base = f"/{name}"
        self.assertEqual(self.get(base + "/?name=you").text.split()[:2], ["hello", "you"])
        self.assertIn(f"/{name}/upload", self.get(base + "/").text)
        for size in (0, 10, 3_000_000):
            body = b'--a-boundary-that-is-not-in-random-bytes\r\nContent-Disposition: form-data; name="text"\r\n\r\nwords\r\n--a-boundary-that-is-not-in-random-bytes\r\nContent-Disposition: form-data; name="file"; filename="f.bin"\r\n\r\n' + self.large[:size] + b"\r\n--a-boundary-that-is-not-in-random-bytes--\r\n"
            got = self.server.post(base + "/upload", body, {"Content-Type": "multipart/form-data; boundary=a-boundary-that-is-not-in-random-bytes"})
            self.assertEqual(got.text, f"f.bin {size} words")
        self.assertEqual(self.get(base + "/stream").text, "".join(f"{i}\n" for i in range(1000)))
        self.assertEqual((self.get(base + "/go").status // 100, self.get(base + "/go").field("Location").endswith(f"/{name}/")), (3, True))
        self.assertEqual(self.get(base + "/file").body, self.large)
        start = self.server.log_position()
        self.assertEqual(self.get(base + "/fail").status, 500)
        self.server.log_line("RuntimeError: in a view", start)
        self.assertEqual(self.get(base + "/not/there").status, 404)

    def need_module(self, package):
        import subprocess

        if subprocess.run(["python3", "-c", f"import {package}"], env={"PATH": support.PATH}, stderr=subprocess.DEVNULL).returncode:
            testing.missing(f"Python package {package}")

    def test_flask(self):
        self.check_framework("flask", "flask")
        with self.server.connect() as client:
            first = client.get("/flask/").response()
            again = client.get("/flask/", {"Cookie": first.field("Set-Cookie").split(";")[0]}).response()
        self.assertEqual((first.text.split()[2], again.text.split()[2]), ("1", "2"))
        self.assertEqual(self.get("/flask/file", Range="bytes=1-3").status, 206)
        self.assertEqual(self.server.post("/flask/json", b'{"a": [1]}', {"Content-Type": "application/json"}).text.strip(), '{"got":{"a":[1]}}')

    def test_django(self):
        self.check_framework("django", "django")

    def test_bottle(self):
        self.check_framework("bottle", "bottle")


if __name__ == "__main__":
    unittest.main()
