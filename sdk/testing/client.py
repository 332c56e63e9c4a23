"""An HTTP/1.1 client over a socket: raw bytes in, parsed responses out, each marked as complete or truncated."""

import errno
import socket
import struct
import threading

from .waits import DEADLINE


class Response:
    """A response. `is_complete` is false if the connection ended before the response did."""

    def __init__(self, version, status, reason, fields):
        self.version, self.status, self.reason, self.fields = version, status, reason, fields
        self.body, self.is_complete = b"", False

    @classmethod
    def parse(cls, head):
        lines = head.decode("latin-1").split("\r\n")
        version, status, *reason = lines[0].split(" ", 2)
        fields = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines[1:])]
        return cls(version, int(status), "".join(reason), fields)

    def field(self, name, default=None):
        """The first value of a header field; the name is case-insensitive."""
        return next((value for key, value in self.fields if key.lower() == name.lower()), default)

    def field_values(self, name):
        return [value for key, value in self.fields if key.lower() == name.lower()]

    @property
    def text(self):
        return self.body.decode("utf-8", "replace")

    @property
    def ends_connection(self):
        return (self.field("Connection") or "").lower() == "close"

    def __repr__(self):
        state = "complete" if self.is_complete else "TRUNCATED"
        return f"<{self.status} {self.reason} {state} {self.fields} {len(self.body)} bytes {self.body[:400]!r}>"


class Client:
    """A connection. Every wait for the server ends at the deadline, with TimeoutError."""

    def __init__(self, address):
        self.socket = socket.create_connection(address, DEADLINE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray()
        self._ending = None  # None while open, then "closed" or "reset"
        self._sender = None  # the thread that sends a large body

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # ---- Sending ----

    def send(self, data):
        """Sends raw bytes, after a large body that is still being sent; OSError if the server has closed."""
        if self._sender not in (None, threading.current_thread()):
            self._sender.join(DEADLINE)
        self.socket.sendall(data.encode() if isinstance(data, str) else data)
        return self

    def try_send(self, data):
        """Sends bytes to a server that may close before it has read them; false if it has."""
        try:
            self.send(data)
            return True
        except ConnectionError:
            return False
        except OSError as error:
            if error.errno != errno.EBADF:  # the test has closed the connection
                raise
            return False

    def request(self, method, path, headers=(), body=None, chunks=None):
        """Sends a request. `body` goes with Content-Length, `chunks` (an iterable of bytes) chunked. A large body is sent by a
        thread, so that a script may answer while it reads."""
        head = request_head(method, path, headers, None if body is None else len(body), chunks is not None)
        if chunks is not None:
            self.send(head)
            self._send_beside(chunk_frames(chunks))
        elif body is not None and len(body) > 65536:
            self.send(head)
            self._send_beside([body])
        else:
            self.send(head + (body or b""))
        return self

    def get(self, path, headers=()):
        return self.request("GET", path, headers)

    def _send_beside(self, parts):
        def send():
            for part in parts:
                if not self.try_send(part):
                    return

        self._sender = threading.Thread(target=send, daemon=True)
        self._sender.start()

    def chunk(self, data):
        """Sends one chunk of a chunked body; an empty one ends it."""
        return self.send(b"%x\r\n%s\r\n" % (len(data), data))

    def finish(self):
        """Closes the sending side: the server reads end-of-file."""
        self.socket.shutdown(socket.SHUT_WR)

    def close(self):
        self.socket.close()

    def reset(self):
        """Closes with a reset, as a client does that is gone."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    # ---- Receiving ----

    def response(self, method="GET"):
        """The next final response; interim ones (100, 103) are skipped. A response to HEAD has no body."""
        response = self.head()
        while 100 <= response.status < 200 and response.status != 101:
            response = self.head()
        self._read_body(response, method)
        return response

    def head(self):
        """The next response head, interim ones included. What follows stays in the buffer."""
        return Response.parse(self.through(b"\r\n\r\n")[:-4])

    def through(self, wanted):
        """Reads until `wanted` arrives; returns it and everything before it."""
        start = 0
        while (at := self._buffer.find(wanted, start)) < 0:
            start = max(0, len(self._buffer) - len(wanted) + 1)
            if not self._more():
                raise ConnectionError(f"{self._ending} before {wanted!r}, after {bytes(self._buffer[:2000])!r}")
        return self._take(at + len(wanted))

    def read_chunk(self):
        """The next chunk of a chunked body, b"" for the last; None if the connection ended before its end."""
        while (at := self._buffer.find(b"\r\n")) < 0:
            if not self._more():
                return None
        size = int(self._take(at + 2).split(b";")[0], 16)
        if not self._fill(size + 2):
            self._partial = self._take(min(size, len(self._buffer)))
            return None
        data = self._take(size)
        assert self._take(2) == b"\r\n", "no CR LF after a chunk"
        return data

    def read_body_until(self, wanted):
        """Reads chunks until their content contains `wanted`; returns the content. It proves that a stream is not held back."""
        got = b""
        while wanted not in got:
            chunk = self.read_chunk()
            if not chunk:
                raise ConnectionError(f"the body ended ({chunk!r}) before {wanted!r}, after {got[:2000]!r}")
            got += chunk
        return got

    def at_end(self):
        """Waits for the end of the connection: "closed" or "reset"; AssertionError if bytes come instead."""
        while self._ending is None:
            self._more()
            assert not self._buffer, f"bytes instead of the end: {bytes(self._buffer[:2000])!r}"
        return self._ending

    def _read_body(self, response, method):
        coding = (response.field("Transfer-Encoding") or "").lower()
        length = response.field("Content-Length")
        if method == "HEAD" or response.status in (204, 304):
            response.is_complete = True
        elif "chunked" in coding:
            self._partial = b""
            parts = []
            while chunk := self.read_chunk():
                parts.append(chunk)
            response.is_complete = chunk == b""
            response.body = b"".join(parts) + self._partial
        elif length is not None:
            response.is_complete = self._fill(int(length))
            response.body = self._take(min(int(length), len(self._buffer)))
        else:
            while self._more():
                pass
            response.is_complete = self._ending == "closed"
            response.body = self._take(len(self._buffer))

    def _fill(self, size):
        while len(self._buffer) < size:
            if not self._more():
                return False
        return True

    def _take(self, size):
        data = bytes(memoryview(self._buffer)[:size])
        del self._buffer[:size]
        return data

    def _more(self):
        if self._ending:
            return False
        try:
            data = self.socket.recv(1 << 20)
        except ConnectionError:
            self._ending = "reset"
            return False
        if not data:
            self._ending = "closed"
        self._buffer += data
        return bool(data)


def request_head(method, path, headers=(), length=None, is_chunked=False):
    """The bytes of a request's head. `headers` is a mapping or a list of pairs; Host is added if it is not there."""
    pairs = list(headers.items() if hasattr(headers, "items") else headers)
    names = {name.lower() for name, _ in pairs}
    if "host" not in names:
        pairs.insert(0, ("Host", "localhost"))
    if is_chunked:
        pairs.append(("Transfer-Encoding", "chunked"))
    elif length is not None and "content-length" not in names:
        pairs.append(("Content-Length", length))
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in pairs)]
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape")


def chunk_frames(chunks):
    """Chunks with their sizes, and the last chunk."""
    for chunk in chunks:
        if chunk:
            yield b"%x\r\n%s\r\n" % (len(chunk), chunk)
    yield b"0\r\n\r\n"
