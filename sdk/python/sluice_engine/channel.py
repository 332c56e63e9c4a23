"""The connection to the server: descriptors 0 to 5, request records, sentinels and callouts.

The engine works with copies of the descriptors, with high numbers that are closed on exec, so that a script that closes or replaces its
own does not end the process. `repair` puts 0 to 4 back."""

import _socket
import fcntl
import mmap
import os
import re

from .options import refuse

_close, _dup2 = os.close, os.dup2  # isolation/descriptors.py replaces those of the module os

PRIVATE_FROM = 200  # copies begin here, if the limit of descriptors allows
READ_BYTES = 65536
FAILED_BYTES_MAX = 1000  # of the text of !FAILED
REGION_BYTES_MIN = 16384  # below this, the pipe is as fast

_entries_of = re.compile("..([^=]*)=([^\0]*)\0", re.DOTALL).findall


class Channel:
    """Descriptors and sentinels. `request` returns the variables of the next request."""

    def __init__(self):
        environment = os.environb
        self.end = environment.get(b"CGIPLUSEOF", b"")
        self.escape = environment.get(b"CGIPLUSESC", b"")
        self.close = environment.get(b"CGIPLUSEOT", b"")
        if not (self.end and self.escape and self.close):
            refuse("CGIPLUSEOF, CGIPLUSESC and CGIPLUSEOT are not set: this program is started by the server, for mode = \"rte\"")
        self.null = self._private(os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC), and_close=True)
        self.body, self.mailbox, self.errors, self.input = (self._private(fd) for fd in (0, 1, 2, 3))
        self.memory = self._private(4) if _is_open(4) else None
        # The server can send requests by it after the first one, if it is asked. Answers to callouts come by `input`.
        self.socket = self._private(5, and_close=True) if environment.get(b"CGIPLUSSOCK") == b"5" and _is_open(5) else None
        self._from = self.input
        self.keeps_records = _is_record_socket(self.mailbox)
        self.record_bytes_max = 4096  # until the first request says WWW_GATEWAY_MRS
        self.private = {fd for fd in vars(self).values() if type(fd) is int and fd > 4 and _is_open(fd)}
        self._buffer = b""
        self._asked_for_struct = False
        self.region = None  # "OFFSET BYTES" of the output region of this request
        self._regions = {}  # their mappings, which this process keeps
        _dup2(self.null, 0)

    @staticmethod
    def _private(fd, and_close=False):
        try:
            copy = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, PRIVATE_FROM)
        except OSError:
            copy = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 5)
        if and_close:
            _close(fd)
        return copy

    # ---- Requests ----

    def request(self):
        """The variables of the next request, as a dictionary of latin-1 text; None at end-of-file."""
        if self.socket is not None and self._asked_for_struct:
            self._from, self._buffer = self.socket, b""
        try:
            return self._request()
        finally:
            self._from = self.input

    def _request(self):
        data = self._buffer or self._read()
        self._buffer = b""
        if data[:2] == b"!!":
            line_end = data.find(b"\n")
            if line_end > 0 and len(data) == line_end + 1 + int(data[2:line_end]):
                variables = dict(_entries_of(data.decode("latin-1"), line_end + 1))
                self.region = variables.pop("WWW_GATEWAY_REGION", None)
                return variables
        return self._request_slowly(data)

    def _request_slowly(self, data):
        """As `request`, for a record that came in parts, in record mode, or behind answers that nothing has read."""
        self._buffer = data
        while True:
            line = self._line()
            if line is None:
                return None
            if line == b"!":
                variables = self._record_lines()
            elif line[:2] == b"!!" and line[2:].isdigit():
                block = self._bytes(int(line[2:]))
                variables = None if block is None else dict(_entries_of(block.decode("latin-1")))
            else:
                continue  # an answer to a callout
            if variables is not None:
                self.record_bytes_max = int(variables.get("WWW_GATEWAY_MRS") or 4096)
                if not self._asked_for_struct:
                    self._asked_for_struct = True
                    self.callout(b"!CGIPLUS: struct" if self.socket is None else b"!CGIPLUS: struct socket")
                self.region = variables.pop("WWW_GATEWAY_REGION", None)
            return variables

    def _record_lines(self):
        variables = {}
        while line := self._line():
            name, _, value = line.decode("latin-1").partition("=")
            variables[name] = value
        return None if line is None else variables

    def _read(self):
        data = os.read(self._from, READ_BYTES)
        if not data and self._from == self.socket:
            # The server has not heard of it: requests come by the pipe.
            self._close_socket()
            self._from = self.input
            data = os.read(self._from, READ_BYTES)
        return data

    def _close_socket(self):
        if self.socket is not None:
            _close(self.socket)
            self.private.discard(self.socket)
            self.socket = None

    def _more(self):
        data = self._read()
        self._buffer += data
        return bool(data)

    def _line(self):
        while b"\n" not in self._buffer:
            if not self._more():
                return None
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _bytes(self, count):
        while len(self._buffer) < count:
            if not self._more():
                return None
        block, self._buffer = self._buffer[:count], self._buffer[count:]
        return block

    def answer(self):
        """The answer to a callout: its code and text. (0, "") at end-of-file."""
        line = (self._line() or b"000").decode("utf-8", "replace")
        return (int(line[:3]) if line[:3].isdigit() else 0), line[4:]

    # ---- The mailbox ----

    def write(self, data, fd=None):
        """Writes bytes to the mailbox (or to `fd`), in records of the permitted size."""
        fd = self.mailbox if fd is None else fd
        if self.keeps_records and len(data) > self.record_bytes_max:
            step = self.record_bytes_max // 4096 * 4096 or self.record_bytes_max
            for at in range(0, len(data), step):
                os.write(fd, data[at : at + step])
            return
        if not data:
            return  # an empty record would be an end-of-file
        done = os.write(fd, data)
        while done < len(data):
            done += os.write(fd, memoryview(data)[done:])

    def finish(self, data=b"", head=b""):
        """Writes the rest of a reply, after its `head` if that has not been written, and the end sentinel, in one write if the mailbox is a stream."""
        if self.keeps_records:
            self.write(head + data)
            self.write(self.end)
        elif len(data) >= REGION_BYTES_MIN and (region := self._region_for(len(data))):
            region[: len(data)] = data
            self.write(b"%s%s\n!BUFFER-REGION: %d\n%s\n%s" % (head, self.escape, len(data), self.close, self.end))
        else:
            self.write(b"%s%s%s" % (head, data, self.end))

    def _region_for(self, count):
        """The memory of this request's output region, once in a request; None if it has none, or if `count` bytes do not fit."""
        region, self.region = self.region, None
        if not region or self.memory is None:
            return None
        if region not in self._regions:
            offset, size = map(int, region.split())
            try:
                self._regions[region] = mmap.mmap(self.memory, size, offset=offset)
            except OSError:
                return None
        memory = self._regions[region]
        return memory if count <= len(memory) else None

    def callout(self, line):
        """Writes a callout of one line."""
        if self.keeps_records:
            for record in (self.escape, line, self.close):
                os.write(self.mailbox, record)
        else:
            self.write(b"%s\n%s\n%s\n" % (self.escape, line, self.close))

    def failed(self, text):
        """Says why the script failed. The end sentinel must follow."""
        line = " ".join(text.split())
        self.callout(b"!FAILED: " + "".join(c if c.isprintable() else "?" for c in line).encode("utf-8", "replace")[:FAILED_BYTES_MAX])

    # ---- Descriptors ----

    def repair(self):
        """Puts descriptors 0 to 4 back: 0 at end-of-file, the others as the server gave them."""
        for private, fd in ((self.null, 0), (self.mailbox, 1), (self.errors, 2), (self.input, 3), (self.memory, 4)):
            if private is not None:
                _dup2(private, fd)

    def leave(self):
        """In a process that an application has forked: what it writes goes nowhere, and it gets no request."""
        self._close_socket()
        self.mailbox = self.input = self._from = self.null
        self._buffer, self.region = b"", None

    def keep_stdout_apart(self):
        """Makes descriptor 1 write to standard error: an application's prints are no part of a reply."""
        _dup2(2, 1)


def _is_record_socket(fd):
    """Whether each write is a record: mailbox = "record". That of mailbox = "stream" is a socket, too."""
    try:
        probe = _socket.socket(fileno=fd)
    except OSError:
        return False
    kind = probe.type
    probe.detach()
    return kind == _socket.SOCK_SEQPACKET


def _is_open(fd):
    try:
        os.fstat(fd)
        return True
    except OSError:
        return False
