"""Behaviours: what a script learns of its request."""

import html
import os

from testing import wait_until

from .cells import equal
from .registry import LIBRARY_ONLY, behaviour



@behaviour("variables")
def variables(cell):
    """The variables of RFC 3875 and of the request's fields have the right values, also with blanks, `=` and letters beyond ASCII; a
    missing one is missing; `HTTP_PROXY` never exists."""
    expected = {
        "REQUEST_METHOD": "GET",
        "QUERY_STRING": "a=1&b=%20+c",
        "PATH_INFO": "/variables/a b/ü",
        "SCRIPT_NAME": cell.path("").rstrip("/"),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "GATEWAY_INTERFACE": "CGI/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "SERVER_NAME": "localhost",
        "HTTP_X_WORDS": "x = y; größe",
        "HTTP_X_ABSENT": None,
        "HTTP_PROXY": None,
        "CONTENT_LENGTH": None,
    }
    headers = {"X-Names": " ".join(expected), "X-Words": "x = y; größe", "Proxy": "http://127.0.0.1:1/", "X_Absent": "x"}
    text = cell.document("variables/a%20b/%C3%BC?a=1&b=%20+c", headers)
    wanted = "".join(f"{name} is absent\n" if value is None else f"{name}={value}\n" for name, value in expected.items())
    equal(text, wanted, "variables")


@behaviour("repeated fields")
def fields(cell):
    """A field that the request has twice arrives as one variable with both values; a field that the script writes twice is sent twice."""
    headers = [("X-Twice", "1"), ("X-Twice", "2, 3"), ("Cookie", "a=1"), ("Cookie", "b=2")]
    got = cell.get("fields", headers)
    equal((got.status, got.text), (200, "1, 2, 3\na=1; b=2\n"), "the script's reply")
    equal(got.field_values("X-Twice"), ["one", "two"], "X-Twice")
    cookies = [value.lower().replace("; path=/", "; path") for value in got.field_values("Set-Cookie")]
    equal(cookies, ["a=1", "b=2; path"], "Set-Cookie")


SIZES = (0, 1, 4095, 4096, 4097, 65535, 65536, 65537, 1_000_003)
RANDOM = os.urandom(1_000_003)
LARGE = 64 << 20


def echo(cell, size, **body):
    got = cell.request("POST", "echo", {"Content-Type": "application/octet-stream"}, **body)
    equal((got.status, got.field("X-Content-Length"), got.is_complete), (200, str(size), True), f"echo of {size} bytes")
    return got.body


@behaviour("bodies of 0 bytes to 64 MB")
def bodies(cell):
    """A request body comes back unchanged, with the right CONTENT_LENGTH: 0 bytes, 1, around the sizes of buffers and pipes, 1 MB and
    64 MB."""
    for size in SIZES:
        assert echo(cell, size, body=RANDOM[:size]) == RANDOM[:size], f"another body of {size} bytes"
    large = RANDOM * (LARGE // len(RANDOM) + 1)
    large = large[:LARGE]
    assert echo(cell, LARGE, body=large) == large, "another body of 64 MB"


@behaviour("chunked bodies")
def chunked(cell):
    """The same for bodies without a length: CONTENT_LENGTH is right nevertheless."""
    for chunks in ((), (b"x",), (b"one ", b"two"), (RANDOM[:70_000], RANDOM[70_000:140_000])):
        body = b"".join(chunks)
        assert echo(cell, len(body), chunks=chunks) == body, f"another body of {len(body)} bytes"


@behaviour("a body that is not read")
def unread(cell):
    """A script that does not read its request's body does not disturb the next request on the same connection and in the same process."""
    with cell.connect() as client:
        got = client.request("POST", cell.path("process"), body=RANDOM[:10]).response()
        equal((got.status, got.is_complete), (200, True), "10 bytes that are not read")
        for size in (200_000, 65536, 1):
            got = client.request("POST", cell.path("process"), body=RANDOM[:size]).response()
            equal((got.status, got.is_complete), (200, True), f"{size} bytes that are not read")
        got = client.request("POST", cell.path("echo"), body=b"small").response()
        equal((got.status, got.body), (200, b"small"), "the next request")
        client.get(cell.path("process")).get(cell.path("look"))
        equal([client.response().status, client.response().status], [200, 200], "two pipelined requests")


@behaviour("large head")
def large_head(cell):
    """A request's field of 8 kB, and a query of 4 kB, arrive whole; a reply's head of 150 fields (45 kB) is passed on. A head above the
    limit (64 KiB) gets 502; the next request is right."""
    got = cell.get("large-head?" + "q" * 4000, {"X-Large": "l" * 8000, "X-Count": 150})
    equal((got.status, got.text), (200, "8000 4000\n"), "the script's reply")
    values = [value for name, value in got.fields if name.lower().startswith("x-field-")]
    equal([len(value) for value in values], [300] * 150, "fields")
    equal(cell.get("large-head?", {"X-Large": "", "X-Count": 300}).status, 502, "a head that is too large")
    cell.next_is_right()


@behaviour("working directory")
def directory(cell):
    """A script starts in its own directory, without arguments."""
    text = cell.document("directory?one+two")
    equal(text, f"{cell.server.path(cell.column.directory)}\n0 arguments\n", "directory and arguments")


@behaviour("two requests with different state")
def state(cell):
    """After a request with a body, a query, fields, cookies, a status and fields of its own, the next one in the same process sees
    nothing of them. Under CGI and RTE also nothing of the first one's global variables, environment, working directory and umask; in a
    CGIplus loop and in an application these belong to the author."""

    def seen():
        got = cell.get("look")
        return got.status, got.field("X-Left"), got.text.partition("global=")[0] if cell.column.is_application else got.text

    before = seen()
    equal(before[:2], (200, None), "the response before")
    headers = {"X-Left": "left", "Cookie": "left=1", "Content-Type": "application/x-www-form-urlencoded"}
    got = cell.request("POST", "leave?left=1", headers, b"form=left&more=2")
    equal((got.status, got.field("X-Left"), got.text), (404, "here", "left\n"), "the first request")
    equal(seen(), before, "the second request")
    for name in ("QUERY_STRING=\n", "HTTP_X_LEFT=None\n", "HTTP_COOKIE=None\n", "CONTENT_TYPE=None\n", "REQUEST_METHOD=GET\n"):
        assert name in before[2], before


FORM = "application/x-www-form-urlencoded"


@behaviour("form", LIBRARY_ONLY)
def form(cell):
    """The fields of the query and of the body, in order, decoded, with all values of a field that is there several times."""
    got = cell.request("POST", "form?a=1&b=x+y&a=2", {"Content-Type": FORM}, b"a=3&c=%C3%BC%26&c=")
    equal((got.status, got.text), (200, "a: 1|2|3\nb: x y\nc: ü&|\n1 absent\n"), "the fields")


@behaviour("upload", LIBRARY_ONLY)
def upload(cell):
    """Two files of a form, with their names, types and sizes; the content of the larger one (300 kB) comes back. The temporary files are
    removed after the request."""
    content = RANDOM[:300_000]
    parts = [
        b'name="a"\r\n\r\n1',
        'name="f"; filename="größe.txt"\r\nContent-Type: text/plain\r\n\r\nsmall'.encode(),
        b'name="g"; filename="g.bin"\r\nContent-Type: application/octet-stream\r\n\r\n' + content,
    ]
    body = b"".join(b"--Grenze\r\nContent-Disposition: form-data; " + part + b"\r\n" for part in parts) + b"--Grenze--\r\n"
    got = cell.request("POST", "upload", {"Content-Type": "multipart/form-data; boundary=Grenze"}, body)
    about = "f|größe.txt|text/plain|5\ng|g.bin|application/octet-stream|300000\n".encode()
    equal((got.status, got.body[: len(about)]), (200, about), "the files")
    assert got.body[len(about) :] == content, "another content"
    cell.next_is_right()
    directory = cell.server.path("events", cell.column.name, "tmp")
    assert wait_until(lambda: not os.listdir(directory)), f"temporary files: {os.listdir(directory)}"


@behaviour("form above its bounds", LIBRARY_ONLY)
def form_limit(cell):
    """More than 1000 fields: an error of the language, which the script answers with 413. The next request is right."""
    got = cell.request("POST", "form-limit", {"Content-Type": FORM}, b"&".join(b"a=1" for _ in range(1001)))
    equal(got.status, 413, "status")
    got = cell.request("POST", "form?b=2", {"Content-Type": FORM}, b"a=1")
    equal((got.status, got.text), (200, "a: 1\nb: 2\nc: \n1 absent\n"), "the next form")


def parts_of(*parts):
    """A multipart form of these parts, each with its head."""
    return b"".join(b"--Grenze\r\nContent-Disposition: form-data; " + part + b"\r\n" for part in parts) + b"--Grenze--\r\n"


MULTIPART = {"Content-Type": "multipart/form-data; boundary=Grenze"}


@behaviour("names with quotes", LIBRARY_ONLY)
def quoted(cell):
    """The name of a field, of a file and of its field with a quote, for which browsers send `%22`."""
    body = parts_of(b'name="a%22b"\r\n\r\nvalue', b'name="f%22g"; filename="n%22<x>.txt"\r\nContent-Type: text/plain\r\n\r\nfile')
    got = cell.request("POST", "quoted", MULTIPART, body)
    equal((got.status, got.text), (200, 'value\nn"<x>.txt\n'), "the names")


def php_cgi(column):
    return column.language == "PHP" and column.mode == "cgi"


@behaviour("malformed form", LIBRARY_ONLY, (php_cgi, "php-cgi takes what it has understood of a form for all of it, and says nothing."))
def malformed(cell):
    """A multipart form without its last boundary, or with a part without a name: an error of the language, with the status 400. The next form
    is right."""
    whole = parts_of(b'name="a"\r\n\r\n1', b'name="f"; filename="f"\r\n\r\n' + RANDOM[:100_000])
    for body in (whole[:-20], whole[:500], b"", b"a=1", whole.replace(b'; name="a"', b"")):
        equal(cell.request("POST", "form-limit", MULTIPART, body).status, 400, f"status for {body[:60]!r}")
    equal(cell.request("POST", "form-limit", MULTIPART, whole).status, 200, "status of a form that is whole")


@behaviour("loop and uses", LIBRARY_ONLY)
def loop(cell):
    """`is_persistent()` says whether `accept()` can be true again, which is so under CGIplus only. `uses()` counts the requests of the
    process, this one included."""
    seen = [cell.document("loop").split() for _ in range(3)]
    for (pid, is_persistent, uses), before in zip(seen, [["", "", "0"], *seen]):
        equal(is_persistent, "yes" if cell.mode == "cgiplus" else "no", "is_persistent")
        if cell.mode == "cgi":
            equal(uses, "1", "uses")
        elif pid == before[0]:
            equal(int(uses), int(before[2]) + 1, "uses")


@behaviour("coding", LIBRARY_ONLY)
def coding(cell):
    """HTML escaping, URL encoding and decoding mean the same in every language, also for letters beyond ASCII and for `%` without digits."""
    text = "<a href=\"x\">'&amp;ü</a> 100%"
    escaped, *coded = cell.document("coding").splitlines()
    assert html.unescape(escaped) == text and not set("<>\"'") & set(escaped), escaped
    equal(coded, ["%3Ca%20href%3D%22x%22%3E%27%26amp%3B%C3%BC%3C%2Fa%3E%20100%25", "<a> ü %zz%"], "url_encode, url_decode")
