"""The memory buffer: bulk output through memory that is shared with the server.

The ring needs atomic operations, so its functions are those of libsluice (sdk/c/include/sluice_ring.h), called by ctypes. Without the
library, the plain buffer is filled with pwrite(2), one half while the server sends the other."""

from __future__ import annotations

import ctypes
import errno
import os
from typing import Any, List, Optional, Tuple

from .callouts import CalloutError, answer, callout, send
from .channel import channel
from .request import Data, State
from .responses import respond

ERRORS = {400: errno.EINVAL, 403: errno.EACCES, 410: errno.EPIPE, 413: errno.EFBIG, 503: errno.ENOMEM}
NAMES = ("libsluice.so", "libsluice.so.1")


def _error(code: int, text: str) -> OSError:
    number = ERRORS.get(code)
    return OSError(number, os.strerror(number) + f" ({code} {text})") if number else CalloutError(f"{code} {text}")


def _library() -> Optional[Any]:
    """libsluice with the functions of the ring; None if it is not there."""
    here = os.path.dirname(os.path.abspath(__file__))
    beside = [os.path.normpath(os.path.join(here, "../../c", directory, NAMES[0])) for directory in ("build", ".")]
    named = os.environ.get("SLUICE_LIBRARY")
    for name in [named] if named is not None else [*(path for path in beside if os.path.exists(path)), *NAMES]:
        try:
            library = ctypes.CDLL(name, use_errno=True) if name else None
            if library is None or not hasattr(library, "sluice_ring_attach"):
                continue
        except OSError:
            continue
        library.sluice_ring_attach.argtypes = [ctypes.c_int, ctypes.c_uint64]
        library.sluice_ring_attach.restype = ctypes.c_void_p
        library.sluice_ring_write.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
        library.sluice_ring_close.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64)]
        return library
    return None


class Ring:
    """A buffer through libsluice."""

    library: Any = None

    def __init__(self, memory: int, capacity: int):
        self.capacity = capacity
        self._ring = self.library.sluice_ring_attach(memory, capacity)
        if not self._ring:
            raise self._error()
        self._write = self.library.sluice_ring_write

    @staticmethod
    def _error() -> OSError:
        number = ctypes.get_errno()
        return OSError(number, os.strerror(number))

    def write(self, data: bytes) -> None:
        if self._write(self._ring, data, len(data)):
            raise self._error()

    def close(self) -> int:
        """Releases it: the bytes that were written."""
        total = ctypes.c_uint64()
        ring, self._ring = self._ring, None
        if ring and self.library.sluice_ring_close(ring, ctypes.byref(total)):
            raise self._error()
        return total.value


class Plain:
    """A buffer in two halves, by BUFFER-WRITE."""

    def __init__(self, memory: int, capacity: int):
        self.capacity = capacity
        self._memory = memory
        self._half = capacity // 2
        self._side = self._filled = self._total = 0
        self._pending: List[int] = []  # sides that the server sends

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            if self._filled == 0 and self._side in self._pending:
                self._wait()
            part = view[: self._half - self._filled]
            done = os.pwrite(self._memory, part, self._side * self._half + self._filled)
            self._filled += done
            self._total += done
            view = view[done:]
            if self._filled == self._half:
                self._send()

    def _send(self) -> None:
        if self._filled:
            send(f"BUFFER-WRITE: {self._filled} {self._side * self._half}")
            self._pending.append(self._side)
            self._side, self._filled = 1 - self._side, 0

    def _wait(self) -> None:
        self._pending.pop(0)
        code, text = answer()
        if code != 200:
            raise _error(code, text)

    def close(self) -> int:
        self._send()
        while self._pending:
            self._wait()
        return self._total


class Open:
    """The buffer of this request."""

    buffer: Any = None
    is_sought = False
    is_flushed = False


def buffer_begin(bytes: int = 0) -> int:
    """Asks for a buffer of at least `bytes` bytes (0: the server chooses), before the head is written. Returns its size. OSError with
    EACCES (the route allows none), EFBIG (above the limit), ENOMEM; CalloutError if the server has no buffers: write the output then."""
    if Open.buffer is not None:
        raise OSError(errno.EALREADY, "there is a buffer")
    if not Open.is_sought:
        Open.is_sought = True
        Ring.library = _library()
    size = f"{-(-bytes // 1024)}k" if bytes else "1M"
    code, text = callout(f"BUFFER-BEGIN: {size} ring" if Ring.library else f"BUFFER-BEGIN: {size}")
    if code != 200:
        raise _error(code, text)
    name, capacity = _parse(text)
    is_number = name.startswith("/dev/fd/")
    memory = int(name[8:]) if is_number else os.open(name, os.O_RDWR)
    Open.buffer = (Ring if Ring.library else Plain)(memory, capacity)
    Open.is_flushed = False
    return capacity


def _parse(text: str) -> Tuple[str, int]:
    words = text.split()
    if len(words) < 2 or not words[1].isdigit():
        raise CalloutError(f"no answer to BUFFER-BEGIN: {text!r}")
    return words[0], int(words[1])


def buffer_write(data: Data) -> None:
    """Sends a part of the body through the buffer; waits for room. BrokenPipeError if the client has left. The head is written before
    the first one."""
    buffer = Open.buffer
    if buffer is None:
        raise OSError(errno.ENOTCONN, "there is no buffer")
    if not Open.is_flushed:
        respond()
        channel.flush()
        Open.is_flushed = True
    if type(data) is not bytes:
        data = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else bytes(data)
    buffer.write(data)


def buffer_end() -> None:
    """Waits until the server has sent everything, and releases the buffer. More output may follow by `write`."""
    buffer, Open.buffer = Open.buffer, None
    if buffer is None:
        raise OSError(errno.ENOTCONN, "there is no buffer")
    total = buffer.close()
    code, text = callout("BUFFER-END:")
    if code != 200:
        raise _error(code, text)
    if not text.isdigit() or int(text) != total:
        raise OSError(errno.EIO, f"the server has sent {text} of {total} bytes")


def _end() -> None:
    """At the end of the response."""
    if Open.buffer is not None:
        buffer_end()


def _forget() -> None:
    buffer, Open.buffer = Open.buffer, None
    if isinstance(buffer, Ring):
        try:
            buffer.close()
        except OSError:
            pass


State.before_ends.insert(0, _end)
State.ends.append(_forget)
