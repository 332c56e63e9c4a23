"""Descriptors 1 and 3: output, sentinels, request records and answers. Not for scripts.

Three kinds of process: CGI, CGIplus (CGIPLUSEOF is set: this module reads the requests itself), and the Python engine (SCRIPT_RTE without
CGIPLUSEOF: as CGI, but the module stays imported)."""

from __future__ import annotations

import _socket
import io
import os
import stat
import sys
from typing import Any, Dict, Optional, cast

BUFFER_BYTES = 128 * 1024  # a body of 64 KiB, its head and the sentinel fit
READ_BYTES = 65536

END = os.environb.get(b"CGIPLUSEOF", b"")


def is_record_socket(descriptor: int) -> bool:
    """Whether each write is a record: mailbox = "record". That of mailbox = "stream" is a socket, too."""
    try:
        probe = _socket.socket(fileno=descriptor)
    except OSError:
        return False
    kind = probe.type
    probe.detach()
    return kind == _socket.SOCK_SEQPACKET


def socket_of_requests() -> Optional[int]:
    """The descriptor by which the server can send requests after the first one, if it is asked; None if there is none."""
    number = os.environ.get("CGIPLUSSOCK", "")
    try:
        if not number.isdigit() or not stat.S_ISSOCK(os.fstat(int(number)).st_mode):
            return None
    except OSError:
        return None
    os.set_inheritable(int(number), False)
    return int(number)


class Channel:
    """The connection to the server. There is one, `channel`."""

    def __init__(self) -> None:
        self._input = b""
        self._own_output: Optional[io.BufferedWriter] = None
        self._application: Any = getattr(sys.modules.get("sluice_engine"), "application_channel", None)
        self.mailbox = self._application.mailbox if self._application else 1
        self.asked_for_struct = False
        self._pipe = 3  # the answers to callouts, and the first request at least
        self._socket = socket_of_requests() if END else None
        self._from = self._pipe

    def forget(self) -> None:
        """Forgets answers that nothing has read."""
        if not END:
            self._input = b""

    # ---- Output ----

    def output(self) -> Any:
        """The stream below sys.stdout. Texts that scripts print go through at once, so that the order stays."""
        if END and self._own_output is None:
            self._open()
        stream = sys.stdout
        if isinstance(stream, io.TextIOWrapper):
            if not stream.write_through:
                stream.reconfigure(encoding="utf-8", write_through=True)
            return stream.buffer
        return getattr(stream, "buffer", stream)

    def _open(self) -> None:
        """CGIplus: gives sys.stdout a large buffer, so that a short response is one write."""
        sys.stdout.flush()
        size = 4096 if self.keeps_records() else BUFFER_BYTES
        self._own_output = io.BufferedWriter(io.FileIO(1, "wb", closefd=False), size)
        self._first = sys.stdout  # kept: its end would close descriptor 1
        sys.stdout = io.TextIOWrapper(self._own_output, "utf-8", "surrogateescape", "\n", self.keeps_records(), True)

    def flush(self) -> None:
        if not self._application:
            sys.stdout.flush()

    def end(self) -> None:
        """CGIplus: ends a response."""
        output = self.output()
        if self.keeps_records():
            output.flush()
        output.write(END)
        output.flush()

    def keeps_records(self) -> bool:
        return is_record_socket(self.mailbox)

    def ask_for_faster_requests(self) -> None:
        """Asks for requests as one block, and by the socket if there is one."""
        self.callout(b"!CGIPLUS: struct" if self._socket is None else b"!CGIPLUS: struct socket")

    def callout(self, line: bytes) -> bool:
        """Writes a callout of one line. False if the server has none."""
        escape = os.environb.get(b"CGIPLUSESC") or os.environb.get(b"WWW_GATEWAY_ESC") or b""
        close = os.environb.get(b"CGIPLUSEOT") or os.environb.get(b"WWW_GATEWAY_EOT") or b""
        if not (escape and close and os.environ.get("CGIPLUSIN")):
            return False
        self.flush()
        if self.keeps_records():
            for record in (escape, line, close):
                os.write(self.mailbox, record)
        else:
            data = b"%s\n%s\n%s\n" % (escape, line, close)
            while data:
                data = data[os.write(self.mailbox, data) :]
        return True

    # ---- Input ----

    def line(self) -> Optional[bytes]:
        """The next line of CGIPLUSIN; None at end-of-file."""
        if self._application:
            return cast(Optional[bytes], self._application._line())
        while b"\n" not in self._input:
            if not self._more():
                return None
        line, _, self._input = self._input.partition(b"\n")
        return line

    def request(self) -> Optional[Dict[str, str]]:
        """CGIplus: the variables of the next request; None at end-of-file."""
        if self.asked_for_struct and self._socket is not None:
            self._from, self._input = self._socket, b""
        try:
            return self._request()
        finally:
            self._from = self._pipe

    def _request(self) -> Optional[Dict[str, str]]:
        while (line := self.line()) is not None:
            if line == b"!":
                return self._record_lines()
            if line[:2] == b"!!" and line[2:].isdigit():
                return self._block(int(line[2:]))
        return None

    def _record_lines(self) -> Dict[str, str]:
        variables = {}
        while line := self.line():
            name, _, value = os.fsdecode(line).partition("=")
            variables[name] = value
        return variables

    def _block(self, count: int) -> Dict[str, str]:
        while len(self._input) < count:
            if not self._more():
                raise EOFError("CGIPLUSIN ended within a request")
        block, self._input = self._input[:count], self._input[count:]
        variables, at = {}, 0
        while length := int.from_bytes(block[at : at + 2], "little"):
            name, _, value = os.fsdecode(block[at + 2 : at + 1 + length]).partition("=")
            variables[name] = value
            at += 2 + length
        return variables

    def _more(self) -> bool:
        data = os.read(self._from, READ_BYTES)
        if not data and self._from == self._socket:
            # The server has not heard of it: requests come by the pipe.
            os.close(self._socket)
            self._socket, self._from = None, self._pipe
            data = os.read(self._from, READ_BYTES)
        self._input += data
        return bool(data)


channel = Channel()
