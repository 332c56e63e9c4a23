"""Behaviours: callouts and the memory buffer."""

from .cells import equal
from .registry import LIBRARY_ONLY, behaviour, php

PHP_DESCRIPTOR = (php, "PHP opens descriptor 4 only on the command line (`php://fd/4`); the buffer of the library works in every mode.")


def blocks(count):
    return b"".join(bytes([ord("a") + number % 26]) * 65536 for number in range(count))


@behaviour("callouts", LIBRARY_ONLY)
def callouts(cell):
    """`MAP-PATH`, `LIFETIME`, `NOTICED` and `NOOP` are answered in the middle of a reply; an unknown callout gets 400 and harms nothing."""
    start = cell.server.log_position()
    lines = cell.document(f"callouts?{cell.mark}").splitlines()
    expected = [f"200 {cell.server.path('htdocs/file.txt')}", "404", "400", "200 3600", "200 OK"]
    equal([line[: len(wanted)] for line, wanted in zip(lines, expected)], expected, "the answers")
    equal(len(lines), len(expected), "lines")
    cell.server.log_line(f"a notice {cell.mark}", start)
    cell.next_is_right()


@behaviour("memory buffer by callouts", LIBRARY_ONLY, PHP_DESCRIPTOR)
def buffer_plain(cell):
    """3 MB through a buffer of 128 kB, by `BUFFER-BEGIN`, `BUFFER-WRITE` and `BUFFER-END`."""
    got = cell.get("buffer-plain?48")
    equal((got.status, got.is_complete), (200, True), "the response")
    assert got.body == blocks(48), f"another body, of {len(got.body)} bytes"
    cell.next_is_right()


@behaviour("memory buffer of the library", LIBRARY_ONLY)
def buffer(cell):
    """8 MB by the functions of the library, as a ring where its native part is there."""
    got = cell.get("buffer?128")
    equal((got.status, got.is_complete), (200, True), "the response")
    assert got.body == blocks(128), f"another body, of {len(got.body)} bytes"
    cell.next_is_right()


@behaviour("client gone within the memory buffer", LIBRARY_ONLY)
def buffer_gone(cell):
    """A client that leaves while the script writes to the buffer: the write fails, or the script is stopped (CGI). The next request is
    right."""
    with cell.connect() as client:
        client.get(cell.path("buffer-gone"))
        equal(client.head().status, 200, "status")
        client.read_chunk()
        client.reset()
    if cell.is_persistent:
        assert cell.column.event.line().startswith("gone")
    cell.next_is_right()
