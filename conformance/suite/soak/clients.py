"""The clients of the soak test: random requests of every kind, each response checked to the byte."""

import asyncio
import collections
import random
import time

from . import server as soak_server
from .kinds import column_kinds, program_kinds
from .wire import response, write_body


class Soak:
    """The clients, and the records of their requests."""

    def __init__(self, server, columns, name, seed):
        self.server, self.columns, self.name = server, columns, name
        self.random = random.Random(f"{name} {seed}")
        self.sent = {}  # marker -> kinds of this request and of the one before, for every request whose head was sent completely
        self.count = 0
        self.outcome = collections.defaultdict(collections.Counter)  # kind -> status or event -> number
        self.disturbed = collections.Counter()
        self.wrong = []

    def choose(self, marker):
        if not self.columns or self.random.random() < 0.25:
            kind = self.random.choice(program_kinds(self.random))
            kind.target = kind.target.format(marker)
            return kind
        return self.random.choice(column_kinds(self.random, self.random.choice(self.columns), marker))

    async def client(self, until):
        reader = writer = None
        while time.monotonic() < until:
            try:
                if writer is None or self.random.random() < 0.1:
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
        marker = f"{self.name}-{self.count}-{self.random.getrandbits(48):x}"
        kind = self.choose(marker)
        is_chunked = kind.body is not None and self.random.random() < 0.4
        head = f"{kind.method} {kind.target} HTTP/1.1\r\nHost: soak\r\n{kind.headers}"
        if is_chunked:
            head += "Transfer-Encoding: chunked\r\n"
        elif kind.body is not None:
            head += f"Content-Length: {len(kind.body)}\r\n"
        mood = self.random.random()
        if mood < 0.02:
            writer.write(head.encode()[: self.random.randrange(1, len(head))])
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
            await asyncio.wait_for(reader.read(self.random.randrange(1, 50_000)), 60)
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
            await asyncio.sleep(self.random.uniform(0.02, 0.3))
            self.disturbed["processes killed"] += soak_server.kill_one(self.server, self.random)
            if self.columns and self.random.random() < 0.15:
                soak_server.renew_one(self.server, self.random)
                self.disturbed["scripts renewed"] += 1

    async def run(self, seconds, clients):
        until = time.monotonic() + seconds
        await asyncio.gather(self.disturb(until), *(self.client(until) for _ in range(clients)))
