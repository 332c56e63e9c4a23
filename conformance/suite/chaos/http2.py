"""A client of HTTP/2 (RFC 9113) for tests: enough to send requests at once over a connection, and to tell complete responses from others.

Fields of requests are sent as literals; of a response's fields only the status is read (RFC 7541, with the codes of digits)."""

import asyncio
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITY = 1, 1, 4, 8, 32
REFUSED_STREAM, CANCEL = 7, 8
FIRST_WINDOW = 65535
STATIC_STATUS = {8: 200, 9: 204, 10: 206, 11: 304, 12: 400, 13: 404, 14: 500}
# The codes of digits, as texts of bits.
HUFFMAN = {f"{n:05b}": str(n) for n in range(3)} | {f"{n + 0x16:06b}": str(n) for n in range(3, 10)}


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def literal(text):
    data = text.encode()
    if len(data) < 127:
        return bytes([len(data)]) + data
    rest, number = bytearray([127]), len(data) - 127
    while number >= 128:
        rest.append(number % 128 | 128)
        number //= 128
    return bytes([*rest, number]) + data


def status_of(block):
    """The status of a block of fields; it comes first. ValueError if that is not so."""
    while block and block[0] & 0xE0 == 0x20:
        block = block[1:]  # the size of the table, which is 0
    if not block:
        raise ValueError("no fields")
    if block[0] & 0x80 and block[0] & 0x7F in STATIC_STATUS:
        return STATIC_STATUS[block[0] & 0x7F]
    if block[0] & 0x0F in STATIC_STATUS and block[0] & 0x80 == 0 or block[0] & 0x40 and block[0] & 0x3F in STATIC_STATUS:
        text = block[2 : 2 + (block[1] & 0x7F)]
        return int(digits(text) if block[1] & 0x80 else text)
    raise ValueError(f"fields without a status: {block[:20].hex()}")


def digits(data):
    bits = "".join(f"{byte:08b}" for byte in data)
    found, code = "", ""
    for bit in bits:
        code += bit
        if code in HUFFMAN:
            found, code = found + HUFFMAN[code], ""
    return found


class Stream:
    """A response so far. `end` is None while it is open; then "complete", "reset", or "refused" (the server has not processed the request)."""

    def __init__(self, kind):
        self.kind, self.status, self.body, self.end, self.window = kind, None, bytearray(), None, FIRST_WINDOW
        self.fields = b""


class Connection:
    """A connection; `open` it, then `send` requests, then `finish` them."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self.streams = {}
        self.next = 1
        self.window = FIRST_WINDOW
        self.goes_away = False
        settings = struct.pack(">HIHIHI", 1, 0, 2, 0, 4, 1 << 24)
        writer.write(PREFACE + frame(SETTINGS, 0, 0, settings) + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 30)))

    def can_send(self, kind):
        """Whether a request has room in the window that is known, and the connection has a number left for it."""
        return not self.goes_away and self.next < 1 << 30 and len(kind.body or b"") <= min(self.window, FIRST_WINDOW)

    def send(self, kind, scheme):
        """Sends a request; its stream."""
        stream, self.next = Stream(kind), self.next + 2
        number = self.next - 2
        self.streams[number] = stream
        fields = [(":method", kind.method), (":scheme", scheme), (":authority", "localhost"), (":path", kind.target)]
        for line in kind.headers.split("\r\n")[:-1]:
            name, _, value = line.partition(": ")
            fields.append((name.lower(), value))
        if kind.body is not None:
            fields.append(("content-length", str(len(kind.body))))
        block = b"".join(b"\x10" + literal(name) + literal(value) for name, value in fields)
        self.writer.write(frame(HEADERS, END_HEADERS | (0 if kind.body else END_STREAM), number, block))
        body = kind.body or b""
        self.window -= len(body)
        for at in range(0, len(body), 16384):
            last = at + 16384 >= len(body)
            self.writer.write(frame(DATA, END_STREAM if last else 0, number, body[at : at + 16384]))
        return stream

    def cancel(self, stream):
        number = next(number for number, other in self.streams.items() if other is stream)
        stream.end = "cancelled"
        self.writer.write(frame(RST_STREAM, 0, number, struct.pack(">I", CANCEL)))

    async def finish(self):
        """Reads until every stream has ended; IncompleteReadError if the connection ends before."""
        await self.writer.drain()
        while any(stream.end is None for stream in self.streams.values()):
            await self.read_frame()
        self.streams.clear()

    async def read_frame(self):
        head = await self.reader.readexactly(9)
        length, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
        number = int.from_bytes(head[5:], "big") & 0x7FFFFFFF
        payload = await self.reader.readexactly(length)
        stream = self.streams.get(number)
        if kind == SETTINGS and not flags & ACK:
            self.writer.write(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self.writer.write(frame(PING, ACK, 0, payload))
        elif kind == GOAWAY:
            self.on_goaway(struct.unpack(">II", payload[:8]))
        elif kind == WINDOW_UPDATE and number == 0:
            self.window += int.from_bytes(payload, "big")
        elif stream and stream.end is None:
            self.on_stream(stream, kind, flags, payload)

    def on_goaway(self, last_and_error):
        self.goes_away = True
        last = last_and_error[0] & 0x7FFFFFFF
        for number, stream in self.streams.items():
            if number > last and stream.end is None:
                stream.end = "refused"

    def on_stream(self, stream, kind, flags, payload):
        if flags & PADDED and kind in (DATA, HEADERS):
            payload = payload[1 : len(payload) - payload[0]]
        if kind == RST_STREAM:
            error = int.from_bytes(payload, "big")
            if stream.end is None:
                stream.end = "refused" if error == REFUSED_STREAM else "reset"
            return
        if kind in (HEADERS, CONTINUATION):
            stream.fields += payload[5:] if flags & PRIORITY and kind == HEADERS else payload
            if flags & END_HEADERS and stream.status in (None, 100, 103):
                stream.status = status_of(stream.fields)
                stream.fields = b""
        elif kind == DATA:
            stream.body += payload
            if payload:
                # What was read may be sent again, on the connection; a stream's window is larger than any body here.
                self.writer.write(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", len(payload))))
        if flags & END_STREAM and kind in (DATA, HEADERS):
            stream.end = "complete"


async def exchange(connection, kinds, scheme):
    """Several requests at once; their streams when all have ended."""
    streams = [connection.send(kind, scheme) for kind in kinds]
    await asyncio.wait_for(connection.finish(), 60)
    return streams
