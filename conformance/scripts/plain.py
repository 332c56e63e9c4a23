#!/usr/bin/env python3
"""The behaviours as a CGI script in Python that uses no library. PATH_INFO names one."""

import os
import signal
import sys
import time

variable = os.environ.get


def out(text):
    sys.stdout.write(text)


def text_head(*fields):
    out("".join(field + "\n" for field in ("Content-Type: text/plain; charset=utf-8", *fields)) + "\n")


def variables():
    text_head()
    for name in variable("HTTP_X_NAMES").split():
        out(f"{name}={variable(name)}\n" if name in os.environ else f"{name} is absent\n")


def fields():
    text_head("X-Twice: one", "X-Twice: two", "Set-Cookie: a=1", "Set-Cookie: b=2; Path=/")
    out(variable("HTTP_X_TWICE") + "\n" + variable("HTTP_COOKIE") + "\n")


def echo():
    left = int(variable("CONTENT_LENGTH") or 0)
    out(f"Content-Type: application/octet-stream\nX-Content-Length: {left}\n\n")
    sys.stdout.flush()
    while left:
        data = sys.stdin.buffer.read(min(left, 65536))
        if not data:
            raise EOFError(f"{left} bytes are missing")
        left -= len(data)
        sys.stdout.buffer.write(data)


def to_and_fro():
    text_head()
    for number in (1, 2):
        out(f"part {number}: {len(sys.stdin.buffer.read(65536))} bytes\n")
        sys.stdout.flush()


def wait_at_gate():
    with open(os.path.join(variable("PROBE_DIR"), "gate")) as gate:
        return gate.readline()


def stream():
    text_head()
    out("first\n")
    sys.stdout.flush()
    out(wait_at_gate())


def local_redirect():
    out("Location: /target.txt?from=script\n\n")


def client_redirect():
    out("Location: https://example.org/elsewhere?a=1\n\n")


def document_redirect():
    text_head("Status: 303 See Other", "Location: https://example.org/new")
    out("It is elsewhere.\n")


def status():
    text_head(f"Status: {variable('QUERY_STRING')} Its Own Words")
    out("a document\n")


def large_head():
    text_head(*(f"X-Field-{number}: {'v' * 300}" for number in range(int(variable("HTTP_X_COUNT")))))
    out(f"{len(variable('HTTP_X_LARGE'))} {len(variable('QUERY_STRING'))}\n")


def empty():
    text_head()


def no_content():
    out("Status: 204 No Content\n\n")


def nothing():
    pass


def nph():
    out("HTTP/1.1 299 Its Own\r\nContent-Type: text/plain\r\nX-Nph: yes\r\n\r\nwith its own head\n")


def short():
    text_head("Content-Length: 100")
    out("short\n")


def die_before():
    os.kill(os.getpid(), signal.SIGKILL)


def half():
    """Goes on when the client has got this."""
    text_head()
    out("half\n")
    sys.stdout.flush()
    wait_at_gate()


def die_within():
    half()
    os.kill(os.getpid(), signal.SIGKILL)


def exit_before():
    sys.exit(3)


def exit_within():
    text_head()
    out("before\n")
    sys.exit(0)


def error_before():
    raise RuntimeError("an error " + variable("QUERY_STRING"))


def error_within():
    half()
    raise RuntimeError("an error " + variable("QUERY_STRING"))


def endless():
    while True:
        time.sleep(0.01)


def errors():
    text_head()
    out(str(os.getpid()))
    print("a line", variable("QUERY_STRING"), file=sys.stderr)


def process():
    text_head()
    out(str(os.getpid()))


def directory():
    text_head()
    out(f"{os.getcwd()}\n{len(sys.argv) - 1} arguments\n")


def look():
    text_head()
    for name in ("REQUEST_METHOD", "QUERY_STRING", "CONTENT_LENGTH", "CONTENT_TYPE", "HTTP_X_LEFT", "HTTP_COOKIE", "LEFT"):
        out(f"{name}={variable(name)}\n")
    mask = os.umask(0)
    os.umask(mask)
    out(f"global={globals().get('left')} directory={os.getcwd()} umask={mask:o} process={hasattr(os, 'left')}\n")


def leave():
    global left
    left = "by another request"
    os.environ["LEFT"] = left
    os.chdir("/")
    os.umask(0o7)
    text_head("Status: 404 Not Found", "X-Left: here")
    out("left\n")


def bulk():
    text_head()
    out(f"{os.getpid()}\n")
    sys.stdout.flush()
    while True:
        out("x" * 65536)


def silent():
    text_head()
    out(f"{os.getpid()}\n")
    sys.stdout.flush()
    out(wait_at_gate())


globals()[variable("PATH_INFO").split("/")[1].replace("-", "_")]()
