"""The behaviours as a WSGI application (PEP 3333). PATH_INFO names one."""

import os
import signal
import sys
import time


def text(start_response, body, status="200 OK", headers=()):
    start_response(status, [("Content-Type", "text/plain; charset=utf-8"), *headers])
    return [body.encode("utf-8", "surrogateescape")]


def unicode_of(value):
    """The variables of WSGI are bytes, as letters of Latin-1."""
    return value.encode("latin-1").decode("utf-8", "surrogateescape")


def variables(environ, start_response):
    names = environ["HTTP_X_NAMES"].split()
    values = [f"{name}={unicode_of(environ[name])}\n" if name in environ else f"{name} is absent\n" for name in names]
    return text(start_response, "".join(values))


def fields(environ, start_response):
    headers = [("X-Twice", "one"), ("X-Twice", "two"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2; Path=/")]
    return text(start_response, f"{environ['HTTP_X_TWICE']}\n{environ['HTTP_COOKIE']}\n", headers=headers)


def echo(environ, start_response):
    length = environ.get("CONTENT_LENGTH") or "0"
    start_response("200 OK", [("Content-Type", "application/octet-stream"), ("X-Content-Length", length)])
    return iter(lambda: environ["wsgi.input"].read(65536), b"")


def to_and_fro(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    for number in (1, 2):
        yield f"part {number}: {len(environ['wsgi.input'].read(65536))} bytes\n".encode()


def wait_at_gate():
    with open(os.path.join(os.environ["PROBE_DIR"], "gate"), "rb") as gate:
        return gate.readline()


def stream(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    yield b"first\n"
    yield wait_at_gate()


def client_redirect(environ, start_response):
    return text(start_response, "", "302 Found", [("Location", "https://example.org/elsewhere?a=1")])


def document_redirect(environ, start_response):
    return text(start_response, "It is elsewhere.\n", "303 See Other", [("Location", "https://example.org/new")])


def status(environ, start_response):
    return text(start_response, "a document\n", environ["QUERY_STRING"] + " Its Own Words")


def large_head(environ, start_response):
    headers = [(f"X-Field-{number}", "v" * 300) for number in range(int(environ["HTTP_X_COUNT"]))]
    return text(start_response, f"{len(environ['HTTP_X_LARGE'])} {len(environ['QUERY_STRING'])}\n", headers=headers)


def empty(environ, start_response):
    return text(start_response, "")


def no_content(environ, start_response):
    start_response("204 No Content", [])
    return []


def short(environ, start_response):
    return text(start_response, "short\n", headers=[("Content-Length", "100")])


def die_before(environ, start_response):
    os.kill(os.getpid(), signal.SIGKILL)


def half(start_response):
    """Goes on when the client has got this."""
    start_response("200 OK", [("Content-Type", "text/plain")])
    yield b"half\n"
    wait_at_gate()


def die_within(environ, start_response):
    yield from half(start_response)
    os.kill(os.getpid(), signal.SIGKILL)


def error_before(environ, start_response):
    raise RuntimeError("an error " + environ["QUERY_STRING"])


def error_within(environ, start_response):
    yield from half(start_response)
    raise RuntimeError("an error " + environ["QUERY_STRING"])


def endless(environ, start_response):
    while True:
        time.sleep(0.01)


def errors(environ, start_response):
    environ["wsgi.errors"].write(f"a line {environ['QUERY_STRING']}\n")
    return text(start_response, str(os.getpid()))


def process(environ, start_response):
    return text(start_response, str(os.getpid()))


def directory(environ, start_response):
    return text(start_response, f"{os.getcwd()}\n{len(sys.argv) - 1} arguments\n")


def look(environ, start_response):
    names = ("REQUEST_METHOD", "QUERY_STRING", "CONTENT_LENGTH", "CONTENT_TYPE", "HTTP_X_LEFT", "HTTP_COOKIE")
    # QUERY_STRING, CONTENT_LENGTH and CONTENT_TYPE may be empty or absent (PEP 3333).
    values = [environ.get(name) or ("" if name == "QUERY_STRING" else "None") for name in names]
    return text(start_response, "".join(f"{name}={value}\n" for name, value in zip(names, values)))


def leave(environ, start_response):
    return text(start_response, "left\n", "404 Not Found", [("X-Left", "here")])


def bulk(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    yield f"{os.getpid()}\n".encode()
    while True:
        yield b"x" * 65536


def silent(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    yield f"{os.getpid()}\n".encode()
    yield wait_at_gate()


def application(environ, start_response):
    name = environ["PATH_INFO"].split("/")[1].replace("-", "_")
    return globals()[name](environ, start_response)
