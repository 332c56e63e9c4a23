"""Behaviours: what a client gets of a script's reply."""

from .cells import equal
from .registry import APPLICATION_STATUS, LIBRARY_ONLY, behaviour, php

PHP_302 = (php, "`header('Location: …')` of PHP sets the status 302 for every address, and a reply with a status is no local redirect.")
PHP_HEAD = (php, "PHP writes the head itself: the first line comes from `http_response_code()`, and there always is a head.")


@behaviour("streaming in and out")
def to_and_fro(cell):
    """The client sends half of a body, waits for the script's answer to that half, and only then sends the rest. So the script gets a body
    before it is complete, and the client gets output before the script ends."""
    half = b"x" * 65536
    with cell.connect() as client:
        client.send(f"PUT {cell.path('to-and-fro')} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {2 * len(half)}\r\n\r\n")
        client.send(half)
        equal(client.head().status, 200, "status")
        client.read_body_until(b"part 1: 65536 bytes\n")
        client.send(half)
        client.read_body_until(b"part 2: 65536 bytes\n")
        equal(client.read_chunk(), b"", "the end")


@behaviour("streaming out")
def stream(cell):
    """What a script has flushed is sent at once: the script waits until the client has got it."""
    with cell.connect() as client:
        client.get(cell.path("stream"))
        equal(client.head().status, 200, "status")
        client.read_body_until(b"first\n")
        cell.column.gate.release("second")
        client.read_body_until(b"second\n")
        equal(client.read_chunk(), b"", "the end")


@behaviour("server-sent events", LIBRARY_ONLY)
def events(cell):
    """`event()` writes the head, and each event arrives at once: the script waits until the client has got the first one."""
    with cell.connect() as client:
        client.get(cell.path("events"))
        got = client.head()
        assert (got.status, (got.field("Content-Type") or "").split(";")[0]) == (200, "text/event-stream"), got
        first = client.read_body_until(b"\n\n")
        equal(sorted(first.splitlines()), [b"", b"data: one", b"data: two", b"event: first", b"id: 1"], "the first event")
        cell.column.gate.release("second")
        equal(client.read_body_until(b"\n\n"), b"data: second\n\n", "the second event")
        equal(client.read_chunk(), b"", "the end")


@behaviour("local redirect", APPLICATION_STATUS, PHP_302)
def local_redirect(cell):
    """`Location: /path` alone: the server answers with that path."""
    got = cell.get("local-redirect")
    equal((got.status, got.text), (200, "the target\n"), "the response")


@behaviour("client redirect")
def client_redirect(cell):
    """`Location: https://…` alone: 302 to that address."""
    got = cell.get("client-redirect")
    equal((got.status, got.field("Location"), got.is_complete), (302, "https://example.org/elsewhere?a=1", True), "the response")


@behaviour("redirect with a document")
def document_redirect(cell):
    """Status, Location and a body: all three arrive."""
    got = cell.get("document-redirect")
    expected = (303, "https://example.org/new", "It is elsewhere.\n", True)
    equal((got.status, got.field("Location"), got.text, got.is_complete), expected, "the response")


@behaviour("status")
def status(cell):
    """The status of a script is the status of the response, with the script's document."""
    for code in (201, 404, 410, 500, 503):
        got = cell.get(f"status?{code}")
        equal((got.status, got.text, got.is_complete), (code, "a document\n", True), "the response")


@behaviour("error page of the script", LIBRARY_ONLY)
def fail(cell):
    """`fail(503, "not now")`: that status, with a text of two lines, `503 Service Unavailable` and `not now`; fields that were set before are
    dropped."""
    for code, reason in ((403, "Forbidden"), (503, "Service Unavailable")):
        got = cell.get(f"fail?{code}")
        equal((got.status, got.field("X-Dropped"), got.is_complete), (code, None, True), "the response")
        equal(got.text, f"{code} {reason}\nnot now\n", "the text")


@behaviour("HEAD")
def head(cell):
    """A request with HEAD gets the head and no body, whatever the script writes; the next request on the connection is right."""
    with cell.connect() as client:
        got = client.request("HEAD", cell.path("status?410")).response("HEAD")
        equal((got.status, got.body), (410, b""), "the response to HEAD")
        got = client.get(cell.path("status?404")).response()
        equal((got.status, got.text), (404, "a document\n"), "the next response")


@behaviour("empty reply")
def empty(cell):
    """A head without a body is a complete response, with status 200 or 204."""
    got = cell.get("empty")
    equal((got.status, got.body, got.is_complete), (200, b"", True), "a head only")
    got = cell.get("no-content")
    equal((got.status, got.field("Content-Length"), got.body), (204, None, b""), "204")


@behaviour("no reply at all", APPLICATION_STATUS, PHP_HEAD)
def nothing(cell):
    """A script that ends well without any output gets its client 502; the next request is right."""
    got = cell.get("nothing")
    equal(got.status, 502, "status")
    cell.next_is_right()


@behaviour("NPH", APPLICATION_STATUS, PHP_HEAD)
def nph(cell):
    """A reply that begins with `HTTP/1.1 299 …` has its own status line and fields."""
    got = cell.get("nph")
    equal((got.status, got.field("X-Nph"), got.text), (299, "yes", "with its own head\n"), "the response")


@behaviour("short of its Content-Length")
def short(cell):
    """A reply that has less than its Content-Length is truncated: the client sees that it is not complete. The next request is right."""
    got = cell.get("short")
    assert got.status == 502 or not got.is_complete, got
    cell.next_is_right()
