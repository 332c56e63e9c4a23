#!/usr/bin/env python3
"""The behaviours as a script in Python on the library: CGI, CGIplus and RTE by the same source. PATH_INFO names one."""

import os
import signal
import sys
import time

import sluice

variable = sluice.variable


def text_head(*fields):
    for field in fields:
        sluice.header(*field.split(": ", 1))
    sluice.respond("text/plain; charset=utf-8")


def variables():
    text_head()
    for name in variable("HTTP_X_NAMES").split():
        value = variable(name)
        sluice.write(f"{name} is absent\n" if value is None else f"{name}={value}\n")


def fields():
    text_head("X-Twice: one", "X-Twice: two", "Set-Cookie: a=1", "Set-Cookie: b=2; Path=/")
    sluice.write(variable("HTTP_X_TWICE") + "\n" + variable("HTTP_COOKIE") + "\n")


def echo():
    sluice.header("X-Content-Length", variable("CONTENT_LENGTH") or "0")
    sluice.respond("application/octet-stream")
    while data := sluice.body_read(65536):
        sluice.write(data)


def to_and_fro():
    text_head()
    for number in (1, 2):
        got = 0
        while got < 65536 and (data := sluice.body_read(65536 - got)):
            got += len(data)
        sluice.write(f"part {number}: {got} bytes\n")
        sluice.flush()


def wait_at_gate():
    with open(os.path.join(os.environ["PROBE_DIR"], "gate")) as gate:
        return gate.readline()


def stream():
    text_head()
    sluice.write("first\n")
    sluice.flush()
    sluice.write(wait_at_gate())


def events():
    sluice.event("one\ntwo", name="first", id="1")
    sluice.event(wait_at_gate().strip())


def local_redirect():
    # A head of its own: redirect() sends the client there.
    print("Location: /target.txt?from=script\n")


def client_redirect():
    sluice.redirect("https://example.org/elsewhere?a=1")


def document_redirect():
    sluice.status(303)
    text_head("Location: https://example.org/new")
    sluice.write("It is elsewhere.\n")


def status():
    sluice.status(int(variable("QUERY_STRING")))
    text_head()
    sluice.write("a document\n")


def fail():
    sluice.header("X-Dropped", "yes")
    sluice.fail(int(variable("QUERY_STRING")), "not now")


def large_head():
    text_head(*(f"X-Field-{number}: {'v' * 300}" for number in range(int(variable("HTTP_X_COUNT")))))
    sluice.write(f"{len(variable('HTTP_X_LARGE'))} {len(variable('QUERY_STRING'))}\n")


def empty():
    text_head()


def no_content():
    sluice.status(204)
    sluice.respond()


def nothing():
    pass


def nph():
    sys.stdout.write("HTTP/1.1 299 Its Own\r\nContent-Type: text/plain\r\nX-Nph: yes\r\n\r\nwith its own head\n")


def short():
    text_head("Content-Length: 100")
    sluice.write("short\n")


def die_before():
    os.kill(os.getpid(), signal.SIGKILL)


def half():
    """Goes on when the client has got this."""
    text_head()
    sluice.write("half\n")
    sluice.flush()
    wait_at_gate()


def die_within():
    half()
    os.kill(os.getpid(), signal.SIGKILL)


def exit_before():
    sys.exit(3)


def exit_within():
    text_head()
    sluice.write("before\n")
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
    sluice.write(str(os.getpid()))
    print("a line", variable("QUERY_STRING"), file=sys.stderr)


def process():
    text_head()
    sluice.write(str(os.getpid()))


def directory():
    text_head()
    sluice.write(f"{os.getcwd()}\n{len(sys.argv) - 1} arguments\n")


def look():
    text_head()
    for name in ("REQUEST_METHOD", "QUERY_STRING", "CONTENT_LENGTH", "CONTENT_TYPE", "HTTP_X_LEFT", "HTTP_COOKIE"):
        sluice.write(f"{name}={variable(name)}\n")
    sluice.write(f"parameters: {len(sluice.parameter_names())}\n")


def leave():
    sluice.status(404)
    text_head("X-Left: here")
    sluice.write("left\n")


def bulk():
    text_head()
    sluice.write(f"{os.getpid()}\n")
    sluice.flush()
    while True:
        sluice.write(b"x" * 65536)


def silent():
    text_head()
    sluice.write(f"{os.getpid()}\n")
    sluice.flush()
    sluice.write(wait_at_gate())


def form():
    text_head()
    for name in ("a", "b", "c"):
        sluice.write(f"{name}: {'|'.join(sluice.parameters(name))}\n")
    sluice.write(f"{sluice.parameter('a')} {sluice.parameter('missing', 'absent')}\n")


def upload():
    text_head()
    for name in ("f", "g"):
        file = sluice.upload(name)
        sluice.write(f"{file.name}|{file.filename}|{file.type}|{file.size}\n")
    with open(file.path, "rb") as content:
        sluice.write(content.read())


def form_limit():
    try:
        sluice.parameter("a")
    except sluice.FormError as error:
        return sluice.fail(error.status)
    text_head()


def quoted():
    text_head()
    sluice.write(sluice.parameter('a"b') + "\n" + sluice.upload('f"g').filename + "\n")


def loop():
    text_head()
    sluice.write(f"{os.getpid()} {'yes' if sluice.is_persistent() else 'no'} {sluice.uses()}")


def coding():
    text = "<a href=\"x\">'&amp;ü</a> 100%"
    text_head()
    for coded in (sluice.escape_html(text), sluice.url_encode(text), sluice.url_decode("%3Ca%3E+%C3%BC+%zz%")):
        sluice.write(coded + "\n")


def callouts():
    text_head()
    for request in ("MAP-PATH: /file.txt", "MAP-FILE: /etc/passwd", "NONSENSE: x", "LIFETIME: 1h", "NOOP:"):
        code, text = sluice.callout(request)
        sluice.write(f"{code} {text}\n")
    sluice.notice(f"a notice {variable('QUERY_STRING')}")


def block(number):
    return bytes([ord("a") + number % 26]) * 65536


def buffer_plain():
    assert sluice.callout("BUFFER-BEGIN: 128k")[0] == 200
    text_head()
    with open(os.environ["CGIPLUSBUF"], "r+b", buffering=0) as buffer:
        for number in range(int(variable("QUERY_STRING"))):
            offset = number % 2 * 65536
            os.pwrite(buffer.fileno(), block(number), offset)
            assert sluice.callout(f"BUFFER-WRITE: 65536 {offset}")[0] == 200
    sluice.callout("BUFFER-END:")


def buffer():
    sluice.buffer_begin(1 << 20)
    text_head()
    for number in range(int(variable("QUERY_STRING"))):
        sluice.buffer_write(block(number))
    sluice.buffer_end()


def buffer_gone():
    sluice.buffer_begin(1 << 20)
    text_head()
    try:
        while True:
            sluice.buffer_write(block(0))
    except OSError as error:
        with open(os.path.join(os.environ["PROBE_DIR"], "event"), "w") as event:
            event.write(f"gone: {error}\n")


while sluice.accept():
    globals()[variable("PATH_INFO").split("/")[1].replace("-", "_")]()
    sluice.finish()
