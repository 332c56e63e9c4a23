"""The clients of the chaos test. Request N is decided by the seed and N alone; what its response must be, too."""

import asyncio
import random
import ssl
import struct
import time

from ..soak import wire
from . import http2, kinds
from .books import DEATH, Books, Windows

# Longer than any fault is in force.
DEADLINE = 60
# Statuses by which a server says that it cannot now: always for scripts, which are killed; for files only while something is exhausted.
UNAVAILABLE = (502, 503, 504)
EXHAUSTED = (500, 502, 503, 504, 507, 408)
# Faults under which connections may fail.
ENDINGS = (DEATH, "clients reset", "descriptors")
SHORTAGES = (*ENDINGS, "spool disk full", "log disk full", "processes", "memory of the server", "server stopped", "file size")


class Link:
    """A connection with its protocol."""

    def __init__(self, protocol, reader, writer):
        self.protocol, self.reader, self.writer = protocol, reader, writer
        self.http2 = http2.Connection(reader, writer) if protocol in (kinds.HTTP2, kinds.HTTP2_TLS) else None
        self.is_kept, self.is_reset = True, False
        # When the exchange before on it began, or the exchanges that were sent together.
        self.begun = None

    def close(self):
        self.writer.close()

    def reset(self):
        self.is_reset = True
        self.writer.transport.abort()


class Chaos:
    """The clients, and the books of their requests."""

    def __init__(self, server, columns, name, seed, clients):
        self.server, self.columns, self.name, self.seed, self.clients = server, columns, name, seed, clients
        self.books, self.windows = Books(name), Windows()
        self.links = set()
        self.is_over = False
        self.findings = []
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.tls.check_hostname, self.tls.verify_mode = False, ssl.CERT_NONE
        self.tls_http2 = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.tls_http2.check_hostname, self.tls_http2.verify_mode = False, ssl.CERT_NONE
        self.tls_http2.set_alpn_protocols(["h2"])

    def find(self, text):
        if len(self.findings) < 40:
            self.findings.append(text)
            print(f"{time.monotonic():.1f} FOUND: {text}", flush=True)

    # ---- One client ----

    async def client(self, index):
        link, number = None, index
        while not self.is_over:
            rng = random.Random(f"{self.seed} {number}")
            if link is None or rng.random() < 0.1:
                if link:
                    self.drop(link)
                link = await self.connect(rng.choice(kinds.PROTOCOLS))
                if link is None:
                    continue
            try:
                number = await self.use(link, rng, number)
            except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.TimeoutError, ValueError) as error:
                self.find(f"{link.protocol}: {error!r}")
                link.is_kept = False
            if link.is_reset or not link.is_kept:
                self.drop(link)
                link = None
        if link:
            self.drop(link)

    async def connect(self, protocol):
        """A connection, also while the server cannot accept any: then the next attempt follows a moment later."""
        has_tls = protocol in (kinds.TLS, kinds.HTTP2_TLS)
        if has_tls and not self.server.tls_address:
            protocol, has_tls = kinds.CLEAR, False
        address = self.server.tls_address if has_tls else self.server.address
        context = (self.tls_http2 if protocol == kinds.HTTP2_TLS else self.tls) if has_tls else None
        begun = time.monotonic()
        try:
            opened = asyncio.open_connection(*address, ssl=context, limit=1 << 20)
            reader, writer = await asyncio.wait_for(opened, DEADLINE)
        except (OSError, asyncio.TimeoutError) as error:
            if not self.windows.overlaps(ENDINGS, begun, time.monotonic()) and not self.is_over:
                self.find(f"no connection ({protocol}): {error!r}")
            await asyncio.sleep(0.01)
            return None
        link = Link(protocol, reader, writer)
        self.links.add(link)
        return link

    def drop(self, link):
        self.links.discard(link)
        link.close()

    async def use(self, link, rng, number):
        """One request, or several at once; the number of the next one."""
        begun = time.monotonic()
        try:
            if link.http2:
                return await self.use_http2(link, rng, number)
            kind, marker = self.request(rng, number)
            await self.exchange(link, rng, kind, marker, number)
            return number + self.clients
        finally:
            link.begun = begun

    def begin(self, link, kind, number):
        """Books an exchange on a connection."""
        self.books.begin(number, kind.name, time.monotonic(), link.begun)

    def request(self, rng, number):
        marker = f"{self.name}-{number}-{rng.getrandbits(32):x}"
        return kinds.choose(rng, self.columns, marker), marker

    # ---- HTTP/1 ----

    async def exchange(self, link, rng, kind, marker, number):
        mood, is_old = rng.random(), link.protocol == kinds.OLD
        is_chunked = kind.body is not None and not is_old and rng.random() < 0.4
        head = f"{kind.method} {kind.target} HTTP/1.{0 if is_old else 1}\r\nHost: localhost\r\n{kind.headers}"
        if is_chunked:
            head += "Transfer-Encoding: chunked\r\n"
        elif kind.body is not None:
            head += f"Content-Length: {len(kind.body)}\r\n"
        if mood < 0.02:
            # Never a request, so it has no line.
            link.writer.write(head.encode()[: rng.randrange(1, head.index(marker))])
            link.is_kept = False
            return
        self.begin(link, kind, number)
        link.writer.write(head.encode() + b"\r\n")
        if kind.body:
            if mood < 0.05:
                link.writer.write((b"1\r\n" if is_chunked else b"") + kind.body[:1])
                return await self.leave(link, kind, number, "half a body")
            wire.write_body(link.writer, kind.body, is_chunked)
        elif is_chunked:
            link.writer.write(b"0\r\n\r\n")
        if mood < 0.06:
            link.is_kept = False
            link.reset()
            return self.end(number, kind, "reset at once", is_doubtful=True)
        if mood < 0.09:
            return await self.leave(link, kind, number, "left in the middle", rng.randrange(1, 50_000))
        await self.finish(link, kind, marker, number)

    async def leave(self, link, kind, number, what, count=0):
        """Closes the connection within the exchange, perhaps after some bytes of the response."""
        link.is_kept = False
        try:
            if count:
                await asyncio.wait_for(link.reader.read(count), DEADLINE)
            else:
                await link.writer.drain()
        except OSError:
            what += ", late"
        except asyncio.TimeoutError:
            self.find(f"{self.books.about(number)}: no byte of a response for {DEADLINE} s")
        self.end(number, kind, what, is_doubtful=self.may_have_been_closed(number))

    async def finish(self, link, kind, marker, number):
        """Reads the response, and judges it."""
        sending = asyncio.ensure_future(link.writer.drain())
        got, head, failure = [], None, None
        try:
            head, failure = await asyncio.wait_for(self.receive(link, got), DEADLINE)
        except asyncio.TimeoutError:
            failure = "late"
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        status = wire.status_of(head) if head else None
        link.is_kept = failure is None and link.protocol != kinds.OLD and wire.is_kept(head) and status in (200, 206, 404)
        has_length = head is not None and ("\r\ncontent-length:" in head or "transfer-encoding: chunked" in head)
        self.judge(kind, marker, number, Response(status, b"".join(got), failure, has_length))

    async def receive(self, link, got):
        """The head of the response, and what is wrong with it: "nothing", "truncated", or None."""
        head = None
        try:
            head = await wire.read_head(link.reader)
            if link.protocol == kinds.OLD and "\r\ncontent-length:" not in head:
                if "transfer-encoding:" in head:
                    raise ValueError("chunks for HTTP/1.0")
                while part := await link.reader.read(1 << 16):
                    got.append(part)
            else:
                await wire.read_body(link.reader, head, got)
            return head, None
        except asyncio.IncompleteReadError as error:
            return head, "truncated" if head or error.partial else "nothing"
        except OSError:
            return head, "truncated" if head else "nothing"

    # ---- HTTP/2 ----

    async def use_http2(self, link, rng, number):
        sent = []
        for _ in range(rng.randrange(1, 5)):
            kind, marker = self.request(rng, number)
            if not link.http2.can_send(kind):
                link.is_kept = False
                # On a new connection it would meet the same window, so it is left out.
                number += 0 if sent else self.clients
                break
            self.begin(link, kind, number)
            sent.append((kind, marker, number, link.http2.send(kind, "http")))
            number += self.clients
        for _, _, _, stream in sent:
            if rng.random() < 0.03:
                link.http2.cancel(stream)
        failure = "truncated"
        try:
            await asyncio.wait_for(link.http2.finish(), DEADLINE)
            link.is_kept = link.is_kept and not link.http2.goes_away
        except asyncio.TimeoutError:
            link.is_kept, failure = False, "late"
        except (OSError, asyncio.IncompleteReadError):
            link.is_kept = False
        for kind, marker, one, stream in sent:
            if stream.end in ("refused", "cancelled"):
                self.end(one, kind, stream.end, is_doubtful=True)
                continue
            what = None if stream.end == "complete" else "nothing" if stream.status is None and failure != "late" else failure
            self.judge(kind, marker, one, Response(stream.status, bytes(stream.body), what, True))
        return number

    # ---- Judging ----

    def judge(self, kind, marker, number, response):
        """Whether a response is what it must be, with regard to the faults that were in force meanwhile."""
        # Reports show other requests: that is what they are for.
        others = self.books.others(marker, response.body) if kind.name != "report" else []
        if others:
            self.find(f"another's bytes: {self.books.about(number)}: {others[:3]}")
        if response.failure:
            self.judge_failure(kind, number, response)
        elif kind.status in (None, response.status):
            self.judge_body(kind, number, response)
        else:
            self.judge_status(kind, number, response)

    def judge_failure(self, kind, number, response):
        is_nothing = response.failure == "nothing"
        is_excused = self.may_have_been_closed(number) if is_nothing else self.is_excused(ENDINGS, number)
        self.end(number, kind, response.failure, is_doubtful=is_excused and is_nothing)
        if response.failure == "late":
            self.find(f"no end after {DEADLINE} s: {self.books.about(number)}, {len(response.body)} bytes")
        elif not is_excused and not kinds.is_of_script(kind):
            # A response of a script that dies ends with a reset, which also takes away what has arrived and was not read.
            self.find(f"{response.failure}: {self.books.about(number)}, {len(response.body)} bytes")

    def judge_body(self, kind, number, response):
        is_right = kind.is_right(response.body)
        self.end(number, kind, "right" if is_right else response.status)
        # A response that ends with its connection looks complete when the server is killed: HTTP/1.0 has nothing better.
        if not is_right and (response.has_length or not self.is_excused(ENDINGS, number)):
            self.find(f"complete, but wrong: {self.books.about(number)}: {len(response.body)} bytes, {response.body[:80]!r}")

    def judge_status(self, kind, number, response):
        self.end(number, kind, response.status)
        is_excused = kinds.is_of_script(kind) and response.status in UNAVAILABLE
        if not is_excused and not (response.status in EXHAUSTED and self.is_excused(SHORTAGES, number)):
            self.find(f"status {response.status}: {self.books.about(number)}: {response.body[:200]!r}")

    def end(self, number, kind, outcome, is_doubtful=False):
        self.books.end(number, kind.name, outcome, time.monotonic(), is_doubtful)

    def is_excused(self, names, number):
        return self.windows.overlaps(names, self.books.begun[number], time.monotonic())

    def may_have_been_closed(self, number):
        """Whether a fault may have ended the connection before the request was sent."""
        return self.windows.overlaps(ENDINGS, self.books.since[number], time.monotonic())

    async def reached(self, done, seconds):
        """Waits until so many exchanges are done; at most so long, and never after the end."""
        until = time.monotonic() + seconds
        while self.books.done < done and time.monotonic() < until and not self.is_over:
            await asyncio.sleep(0.01)

    def reset_all(self):
        """Resets every connection."""
        for link in list(self.links):
            sock = link.writer.get_extra_info("socket")
            if sock is not None:
                try:
                    sock.setsockopt(1, 13, struct.pack("ii", 1, 0))
                except OSError:
                    pass
            link.is_kept = False
            link.reset()


class Response:
    """What came back. `failure` is None if it is complete; `has_length` if its end differs from that of the connection."""

    def __init__(self, status, body, failure, has_length):
        self.status, self.body, self.failure, self.has_length = status, body, failure, has_length
