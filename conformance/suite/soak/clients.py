"""The clients of the soak test: random requests of every kind, each response checked to the byte."""

import asyncio
import collections
import hashlib
import random
import re
import time

from . import server as soak_server

BODIES = [random.Random(seed).randbytes(size) for seed, size in enumerate((1, 1000, 70_000, 2_000_000))]
DIGESTS = {body: (hashlib.sha256(body).hexdigest() + "\n").encode() for body in BODIES}
BULK = b"".join(bytes([n]) * 65536 for n in range(48))
FORM = "Content-Type: application/x-www-form-urlencoded\r\n"


class Kind:
    """A kind of request, and what its response must be: `is_right(body)` for a complete one with this status."""

    def __init__(self, name, target, is_right, body=None, status=200, headers=""):
        self.name, self.target, self.is_right, self.status, self.headers = name, target, is_right, status, headers
        self.body, self.method = body, "GET" if body is None else "POST"


def whole(expected):
    return lambda got: got == expected


def never(_):
    """For responses that must not be complete."""
    return False


def no_error_text(got):
    return b"an error" not in got


def program_kinds():
    """Files, and the C programs of the SDK. `{}` is where the marker of the request goes."""
    body = random.choice(BODIES)
    size = random.choice((0, 100, 16384, 65536, 200_000))
    return [
        Kind("file", "/file.bin?{}", whole(soak_server.FILE)),
        Kind("cgi", f"/cgi-bin/cgiplustest?{size}+{{}}", lambda got: len(got) == size),
        Kind("cgiplus", f"/cgiplus-bin/cgiplustest?{size}+{{}}", lambda got: len(got) == size),
        Kind("digest", "/cgiplus-bin/digest?{}", whole(DIGESTS[body]), body),
        Kind("record", "/record-bin/digest?{}", whole(DIGESTS[body]), body),
        Kind("mailbox", "/cgi-bin/membufdemo?3+m+65536+1+{}", whole(BULK)),
        Kind("buffer", "/cgi-bin/membufdemo?3+b+65536+1+{}", whole(BULK)),
        Kind("buffer+", "/cgiplus-bin/membufdemo?3+b+65536+1+{}", whole(BULK)),
    ]


def column_kinds(column, marker):
    """The requests to a column of the conformance table."""
    body = random.choice(BODIES)
    names = "X-Names: QUERY_STRING HTTP_COOKIE CONTENT_LENGTH\r\n"
    name = column.name

    def at(action, query=""):
        return column.path(f"{action}/{marker}{query}")

    def is_clean(got):
        # The globals of an application are its own.
        return (column.is_application or b"by another" not in got) and b"QUERY_STRING=clean\n" in got

    kinds = [
        Kind(f"{name} variables", at("variables", "?" + marker), whole(absent(marker)), headers=names),
        Kind(f"{name} echo", at("echo"), whole(body), body),
        Kind(f"{name} leave", at("leave"), whole(b"left\n"), b"left=1&more=2", 404, "Cookie: left=1\r\n" + FORM),
        Kind(f"{name} state", at("look", "?clean"), is_clean),
        Kind(f"{name} status", at("status", "?410"), whole(b"a document\n"), status=410),
        Kind(f"{name} error", at("error-before"), no_error_text, status=column.error_status),
        Kind(f"{name} death", at("die-before"), lambda got: True, status=502),
        Kind(f"{name} death within", at("die-within"), never),
    ]
    if not column.is_application:
        # Under CGIplus the end sentinel is missing.
        kinds.append(Kind(f"{name} exit", at("exit-within"), whole(b"before\n") if column.mode != "cgiplus" else never))
    if column.kind == "library":
        blocks = b"".join(bytes([ord("a") + number % 26]) * 65536 for number in range(40))
        kinds += [
            Kind(f"{name} form", at("form", "?a=1&b=x"), whole(b"a: 1|2\nb: x\nc: \n1 absent\n"), b"a=2", headers=FORM),
            Kind(f"{name} buffer", at("buffer", "?40"), whole(blocks)),
        ]
    return kinds


def absent(marker):
    return f"QUERY_STRING={marker}\nHTTP_COOKIE is absent\nCONTENT_LENGTH is absent\n".encode()


class Soak:
    """The clients, and the records of their requests."""

    def __init__(self, server, columns, name):
        self.server, self.columns, self.name = server, columns, name
        self.sent = {}  # marker -> kinds of this request and of the one before, for every request whose head was sent completely
        self.count = 0
        self.outcome = collections.defaultdict(collections.Counter)  # kind -> status or event -> number
        self.disturbed = collections.Counter()
        self.wrong = []

    def choose(self, marker):
        if not self.columns or random.random() < 0.25:
            kind = random.choice(program_kinds())
            kind.target = kind.target.format(marker)
            return kind
        return random.choice(column_kinds(random.choice(self.columns), marker))

    async def client(self, until):
        reader = writer = None
        while time.monotonic() < until:
            try:
                if writer is None or random.random() < 0.1:
                    if writer:
                        writer.close()
                    reader, writer = await asyncio.open_connection(*self.server.address)
                    before = "a new connection"
                before, is_kept = await self.exchange(reader, writer, before)
                if not is_kept:
                    writer.close()
                    writer = None
            except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError, ValueError) as error:
                self.disturbed[type(error).__name__] += 1
                if writer:
                    writer.close()
                writer = None
        if writer:
            writer.close()

    async def exchange(self, reader, writer, before):
        """One request, after one of the kind `before`; its kind, and false when the connection cannot be used again."""
        self.count += 1
        marker = f"{self.name}-{self.count}-{random.getrandbits(48):x}"
        kind = self.choose(marker)
        is_chunked = kind.body is not None and random.random() < 0.4
        head = f"{kind.method} {kind.target} HTTP/1.1\r\nHost: soak\r\n{kind.headers}"
        if is_chunked:
            head += "Transfer-Encoding: chunked\r\n"
        elif kind.body is not None:
            head += f"Content-Length: {len(kind.body)}\r\n"
        mood = random.random()
        if mood < 0.02:
            writer.write(head.encode()[: random.randrange(1, len(head))])
            await writer.drain()
            self.disturbed["half a head"] += 1
            return kind.name, False
        writer.write(head.encode() + b"\r\n")
        self.sent[marker] = f"{kind.name}, after {before}"
        if mood < 0.05 and kind.body:
            # At least a part of the body: a head that is followed directly by a close may be discarded unread.
            writer.write((b"1\r\n" if is_chunked else b"") + kind.body[:1])
            await writer.drain()
            self.disturbed["half a body"] += 1
            return kind.name, False
        if kind.body is not None:
            write_body(writer, kind.body, is_chunked)
        if 0.05 < mood < 0.09:
            await asyncio.wait_for(reader.read(random.randrange(1, 50_000)), 60)
            self.disturbed["left in the middle"] += 1
            return kind.name, False
        return kind.name, await self.finish(kind, marker, reader, writer)

    async def finish(self, kind, marker, reader, writer):
        """Reads the response and checks it."""
        outcome = "truncated"
        sending = asyncio.ensure_future(writer.drain())
        try:
            status, got, is_kept = await asyncio.wait_for(response(reader), 60)
            outcome = status
        finally:
            sending.cancel()
            self.outcome[kind.name][outcome] += 1
        if status == kind.status:
            if not kind.is_right(got):
                self.wrong.append(f"{kind.name} {marker}: a complete response with status {status} is wrong: {len(got)} bytes, {got[:80]!r}")
            self.outcome[kind.name]["right"] += kind.is_right(got)
        elif status not in (502, 503, 504):
            self.wrong.append(f"{kind.name} {marker}: status {status}: {got[:80]!r}")
        return status == 200 and is_kept

    async def disturb(self, until):
        """Kills a script process every tenth of a second or so, and renews a script every second."""
        while time.monotonic() < until:
            await asyncio.sleep(random.uniform(0.02, 0.3))
            self.disturbed["processes killed"] += soak_server.kill_one(self.server)
            if self.columns and random.random() < 0.15:
                soak_server.renew_one(self.server)
                self.disturbed["scripts renewed"] += 1

    async def run(self, seconds, clients):
        until = time.monotonic() + seconds
        await asyncio.gather(self.disturb(until), *(self.client(until) for _ in range(clients)))


def write_body(writer, body, is_chunked):
    if not is_chunked:
        writer.write(body)
        return
    for at in range(0, len(body), 50_000):
        chunk = body[at : at + 50_000]
        writer.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
    writer.write(b"0\r\n\r\n")


async def response(reader):
    """Status and body of a complete response, and whether the server keeps the connection; IncompleteReadError if it is truncated."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    status = int(head.split()[1])
    is_kept = "\r\nconnection: close\r\n" not in head
    length = re.search(r"\r\ncontent-length: (\d+)", head)
    if length:
        return status, await reader.readexactly(int(length.group(1))), is_kept
    if "transfer-encoding: chunked" not in head:
        raise ValueError("a response without length")
    got = []
    while True:
        line = await reader.readline()
        if not line.endswith(b"\n"):
            raise asyncio.IncompleteReadError(line, None)
        size = int(line, 16)
        if size == 0:
            break
        got.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readexactly(2)
    return status, b"".join(got), is_kept
