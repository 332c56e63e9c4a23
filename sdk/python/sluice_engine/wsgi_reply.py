"""The reply of a WSGI application: start_response, write, the blocks of the result, and files."""

import os
import re
import stat

from .channel import READ_BYTES

# Only the server may set these (PEP 3333, "Other HTTP features"; RFC 9110 section 7.6.1).
HOP_BY_HOP = frozenset("connection keep-alive proxy-authenticate proxy-authorization te trailer trailers transfer-encoding upgrade".split())
NO_BODY = ("204", "304")
SEND_BYTES = 1 << 20
WHOLE_BYTES_MAX = 1 << 17  # of a reply that is collected with its head and the end sentinel


class Unwritable(Exception):
    """The mailbox is closed: the server has left."""


class FileWrapper:
    """wsgi.file_wrapper: a file that is passed on as a whole."""

    def __init__(self, filelike, block_size=65536):
        self.filelike, self.block_size = filelike, block_size
        if hasattr(filelike, "close"):
            self.close = filelike.close

    def __iter__(self):
        return self

    def __next__(self):
        if block := self.filelike.read(self.block_size):
            return block
        raise StopIteration


class Reply:
    """The reply of one request. `is_ended`: the end sentinel is written. `end_body` is called before that."""

    def __init__(self, channel, record, end_body):
        self._channel = channel
        self._end_body = end_body
        self._record = record
        self._head = None  # bytes, until they are sent
        self._fields = None
        self._code = ""
        self.is_started = False
        self.is_head_sent = False
        self.is_ended = False

    # ---- The application's side ----

    def start_response(self, status, headers, exc_info=None):
        """PEP 3333. Returns the function `write`."""
        if exc_info:
            try:
                if self.is_head_sent:
                    raise exc_info[1].with_traceback(exc_info[2])
            finally:
                exc_info = None
        elif self.is_started:
            raise AssertionError("start_response was called twice without exc_info")
        self._head = _head_of(status, headers)
        self._fields = headers
        self._code = status[:3]
        self.is_started = True
        return self.write

    def write(self, data):
        """Sends a block at once."""
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"a block of the response must be bytes, not {type(data).__name__}")
        if data:
            self._send(data)

    # ---- The result ----

    def write_all(self, result):
        """Sends what the application has returned."""
        kind = type(result)
        if kind is FileWrapper and self._write_file(result):
            return
        if kind is list or kind is tuple:
            # All blocks are there, so they go in one write.
            data = result[0] if len(result) == 1 else b"".join(result)
            if not isinstance(data, bytes):
                raise TypeError(f"a block of the response must be bytes, not {type(data).__name__}")
            self._need_head()
            if not self.is_head_sent and len(data) <= WHOLE_BYTES_MAX:
                self._end_with(data, len(result) == 1)
            elif data:
                self._send(data)
        else:
            for block in result:
                self.write(block)
            self._need_head()

    def end(self):
        """Ends the reply, with its head if there was no body."""
        if not self.is_head_sent:
            self._end_with(b"", False)
        elif not self.is_ended:
            self.is_ended = True
            self.abandon()

    def abandon(self):
        """Writes the end sentinel, whatever there is of the reply."""
        self._end_body()
        self._channel.finish()

    def fail(self, text):
        """Ends the reply as a failure."""
        self._channel.failed(text)
        self.abandon()

    def _need_head(self):
        if not self.is_started:
            raise AssertionError("the application did not call start_response")

    def _end_with(self, data, is_whole):
        """Head, body and end sentinel in one write."""
        head = self._head
        if is_whole and self._code not in NO_BODY and not self._has_length() and self._record.get("REQUEST_METHOD") != "HEAD":
            head = b"%sContent-Length: %d\r\n" % (head, len(data))
        self.is_head_sent = self.is_ended = True
        self._end_body()
        try:
            self._channel.finish(data, head + b"\r\n")
        except BrokenPipeError:
            raise Unwritable from None

    def _send(self, data):
        try:
            if self.is_head_sent:
                self._channel.write(data)
                return
            self._need_head()
            self.is_head_sent = True
            if len(data) <= READ_BYTES:
                self._channel.write(b"%s\r\n%s" % (self._head, data))
            else:
                self._channel.write(self._head + b"\r\n")
                self._channel.write(data)
        except BrokenPipeError:
            raise Unwritable from None

    def _has_length(self):
        return any(name.lower() == "content-length" for name, _ in self._fields)

    # ---- Files ----

    def _write_file(self, wrapper):
        """Passes a regular file to the server without reading it into Python. False for anything else."""
        try:
            fd = wrapper.filelike.fileno()
            status = os.fstat(fd)
            start = wrapper.filelike.tell()
        except (AttributeError, OSError, ValueError):
            return False
        if not stat.S_ISREG(status.st_mode) or self._channel.keeps_records:
            return False
        left = max(0, status.st_size - start)
        self._need_head()
        for name, value in self._fields:
            if name.lower() == "content-length":
                left = min(left, int(value))
        if self._record.get("REQUEST_METHOD") == "HEAD":
            left = 0
        if not self.is_head_sent:
            self.is_head_sent = True
            head = self._head if self._has_length() or self._code in NO_BODY else b"%sContent-Length: %d\r\n" % (self._head, left)
            self._channel.write(head + b"\r\n")
        try:
            self._move(fd, start, left)
        except BrokenPipeError:
            raise Unwritable from None
        return True

    def _move(self, fd, offset, left):
        """From the file to the mailbox."""
        mailbox, can_send = self._channel.mailbox, True
        while left:
            if can_send:
                try:
                    count = os.sendfile(mailbox, fd, offset, min(left, SEND_BYTES))
                except BrokenPipeError:
                    raise
                except OSError:
                    can_send = False  # a file system without sendfile(2)
                    continue
            else:
                data = os.pread(fd, min(left, SEND_BYTES), offset)
                self._channel.write(data)
                count = len(data)
            if count == 0:
                raise EOFError("the file has become shorter while it was sent")
            offset, left = offset + count, left - count


def _head_of(status, headers):
    """The head of a CGI reply."""
    if type(status) is not str or not (status[:3].isdigit() and (len(status) == 3 or status[3:4] == " ")) or not status.isprintable():
        raise ValueError(f"the status must be a string like '200 OK', not {status!r}")
    if type(headers) is not list:
        raise TypeError("the headers must be a list")
    lines = ["Status: ", status, "\r\n"]
    for name, value in headers:
        if type(name) is not str or type(value) is not str:
            raise TypeError(f"the names and values of headers must be strings: {name!r}: {value!r}")
        if not _is_token(name) or "\n" in value or "\r" in value or "\0" in value:
            raise ValueError(f"not a header field: {name!r}: {value!r}")
        lowered = name.lower()
        if lowered in HOP_BY_HOP:
            raise AssertionError(f"{name} is a hop-by-hop header field, which an application must not set (PEP 3333)")
        if lowered == "status":
            continue
        lines += (name, ": ", value, "\r\n")
    return "".join(lines).encode("latin-1")


_is_token = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+").fullmatch
