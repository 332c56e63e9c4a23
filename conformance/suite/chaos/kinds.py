"""The requests of the chaos test. Number N of a seed is always the same request: protocol, kind, size, and whether the client leaves.

Wherever it can, a response carries a value of its request: the marker, or bytes that follow from it."""

import hashlib

from ..soak import server as soak_server
from ..soak.kinds import Kind, column_kinds, program_kinds, whole

CLEAR, OLD, TLS, HTTP2, HTTP2_TLS = "HTTP/1.1", "HTTP/1.0", "HTTP/1.1 with TLS", "HTTP/2", "HTTP/2 with TLS"
PROTOCOLS = (CLEAR, CLEAR, CLEAR, OLD, TLS, HTTP2, HTTP2, HTTP2_TLS)
SIZES = (0, 10, 1000, 16384, 70_000, 300_000)
BODY_SIZES = (1, 1000, 40_000)
REPORTS = ("", "scripts", "scripts.json", "requests", "connections", "metrics", "activity")
LIES = 8


def lines(marker, size):
    """What the action `out` of value.c sends."""
    line = marker.encode() + b"\n"
    return _first(line * (65536 // len(line)), size)


def _first(block, size):
    return block * (size // len(block)) + block[: size % len(block)]


def anything(_):
    return True


def part_of_file(rng, marker):
    first = rng.randrange(len(soak_server.FILE))
    last = rng.randrange(first, len(soak_server.FILE))
    part = soak_server.FILE[first : last + 1]
    return Kind("part of a file", f"/file.bin?{marker}", whole(part), status=206, headers=f"Range: bytes={first}-{last}\r\n")


def value(name, path):
    """The script in C whose response consists of the marker."""

    def make(rng, marker):
        size = rng.choice(SIZES)
        return Kind(name, f"{path}?{size}+{marker}", lambda got: got == lines(marker, size))

    return make


def echo(name, path):
    """The same script, which sends the marker and the body."""

    def make(rng, marker):
        body = lines(marker, rng.choice(BODY_SIZES))
        return Kind(name, f"{path}?{marker}", whole(marker.encode() + b"\n" + body), body)

    return make


def record(rng, marker):
    body = lines(marker, rng.choice(BODY_SIZES))
    return Kind("record", f"/record-bin/digest?{marker}", whole((hashlib.sha256(body).hexdigest() + "\n").encode()), body)


def liar(rng, marker):
    """A script that lies in shared memory; some of its lies have it wait for ever, so it is asked less often."""
    return Kind("liar", f"/liar/lie?{rng.randrange(LIES)}+{marker}", anything)


def program(rng, marker):
    """The programs of the SDK, by mailbox and memory buffer, as in the soak test."""
    kind = rng.choice([kind for kind in program_kinds(rng) if kind.name in ("mailbox", "buffer", "buffer+", "digest")])
    kind.target = kind.target.format(marker)
    return kind


# What needs no script. Nothing that happens to scripts excuses a wrong or truncated response.
FILES = [
    lambda rng, marker: Kind("file", f"/file.bin?{marker}", whole(soak_server.FILE)),
    part_of_file,
    lambda rng, marker: Kind("no file", f"/{marker}", lambda got: got != b"", status=404),
    lambda rng, marker: Kind("listing", f"/list/?{marker}", lambda got: b"number 39.txt" in got),
    lambda rng, marker: Kind("report", f"/-/{rng.choice(REPORTS)}?{marker}", lambda got: got != b"", status=None),
]
# Scripts whose processes are kept.
VALUES = [
    value("value", "/value/out"),
    value("value", "/value/out"),
    value("value, ring", "/value/ring"),
    echo("value, body", "/value/echo"),
    record,
    lambda rng, marker: liar(rng, marker) if rng.random() < 0.2 else value("value", "/value/out")(rng, marker),
]
# Those of which each takes a process.
PROCESSES = [
    value("value, CGI", "/value-cgi/out"),
    value("value, CGI, ring", "/value-cgi/ring"),
    echo("value, CGI, body", "/value-cgi/echo"),
    value("value, private_tmp", "/value-private/out"),
    program,
]


def choose(rng, columns, marker):
    """The kind of a request. Most are of those that need no new process, so that there are many."""
    draw = rng.random()
    if draw < 0.45:
        return rng.choice(FILES)(rng, marker)
    if draw < 0.88:
        return rng.choice(VALUES)(rng, marker)
    if draw < 0.91 or not columns:
        return rng.choice(PROCESSES)(rng, marker)
    # Kept processes more often than CGI, whose interpreters take long to start.
    column = rng.choice(columns)
    if column.mode == "cgi" and rng.random() < 0.8:
        column = rng.choice([other for other in columns if other.mode != "cgi"] or columns)
    return with_marker(rng.choice(column_kinds(rng, column, marker)), marker)


def with_marker(kind, marker):
    """An echo of a body that consists of the marker, so that it cannot be another's."""
    if kind.name.endswith(" echo"):
        kind.body = lines(marker, len(kind.body))
        kind.is_right = whole(kind.body)
    return kind


def is_of_script(kind):
    """Whether faults of scripts excuse its failures."""
    return kind.name not in ("file", "part of a file", "no file", "listing", "report")
