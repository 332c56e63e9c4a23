"""Descriptor 0 of a script: the body of the request, then end-of-file, as in CGI.

The server's pipe does not end with a request: after the body comes the next one. So that a script, and every program that it starts,
may read to end-of-file, descriptor 0 is a pipe of its own for each request with a body, and /dev/null for the others. A body that is
there already and fits into a pipe is written at once. Otherwise a thread passes it on.

The server's pipe is at its end within a body if the client has left. What a script reads must not end then, because a part of a body would look
like all of it. So reads of sys.stdin and of the library raise ConnectionResetError, and others wait until the server ends the process."""

import _thread
import array
import errno
import fcntl
import io
import os
import select
import signal
import termios

_close, _dup2 = os.close, os.dup2  # isolation/descriptors.py replaces those of the module os

PIPE_BYTES = 65536
PIPE_BYTES_WANTED = 1 << 20  # for large bodies
F_SETPIPE_SZ, F_GETPIPE_SZ = 1031, 1032


class ClientHasLeft(ConnectionResetError):
    """A read within a body of which no more comes. A script that does not catch it ends, without a line in the log: nobody waits for its reply."""

    def __init__(self):
        super().__init__(errno.ECONNRESET, "the client has left within its request body")


class Input(io.FileIO):
    """Descriptor 0 below sys.stdin: a read fails if the rest of the body does not come."""

    def __init__(self):
        super().__init__(0, "rb", closefd=False)

    def readinto(self, buffer):
        await_body()
        return super().readinto(buffer)

    def readall(self):
        parts = []
        while part := self.read(PIPE_BYTES):
            parts.append(part)
        return b"".join(parts)

    def read(self, size=-1):
        if size is None or size < 0:
            return self.readall()
        await_body()
        return super().read(size)


def await_body():
    """Waits until descriptor 0 has bytes or is at its end, if a thread passes on the body of this request. ConnectionResetError if the client
    has left, and no more of it comes."""
    if Pump.current is not None:
        Pump.current.wait()


class Body:
    """The body of one request, on descriptor 0 until `end`."""

    def __init__(self, channel, length):
        self._channel = channel
        self._pump = None
        data = self._what_is_there(length) if length <= PIPE_BYTES else b""
        reader, writer = os.pipe()
        if len(data) == length and fcntl.fcntl(writer, F_GETPIPE_SZ) >= length:
            os.write(writer, data)
            _close(writer)
        else:
            self._pump = Pump.current = Pump(channel.body, writer, data, length - len(data))
        _dup2(reader, 0)
        _close(reader)

    def _what_is_there(self, length):
        """The bytes of the body that have arrived."""
        data = b""
        waiting = array.array("i", [0])
        while len(data) < length:
            fcntl.ioctl(self._channel.body, termios.FIONREAD, waiting)
            if waiting[0] == 0:
                break
            data += os.read(self._channel.body, min(waiting[0], length - len(data)))
        return data

    def end(self):
        """Ends it: what the script has not read is left to the server."""
        _dup2(self._channel.null, 0)
        if self._pump:
            Pump.current = None
            self._pump.stop()


class Pump:
    """A thread that passes `left` bytes from `source` to the pipe `writer`. Not a threading.Thread, because the script should not
    find it among its own."""

    current = None  # that of the request

    def __init__(self, source, writer, data, left):
        self._source, self._writer, self._data, self._left = source, writer, data, left
        self._stop_reader, self._stop_writer = os.pipe()
        self._cut_reader, self._cut_writer = os.pipe()  # its end says that no more of the body comes
        self._is_cut = False
        os.set_blocking(writer, False)
        try:
            fcntl.fcntl(writer, F_SETPIPE_SZ, PIPE_BYTES_WANTED)
        except OSError:
            pass  # the user has too many large pipes
        self._readable = select.poll()
        for fd in (0, self._cut_reader):
            self._readable.register(fd, select.POLLIN)
        self._has_ended = _thread.allocate_lock()
        self._has_ended.acquire()
        _thread.start_new_thread(self._run, ())

    def stop(self):
        """Ends the thread, so that it takes nothing of the next body."""
        os.write(self._stop_writer, b"x")
        self._has_ended.acquire()
        for fd in (self._stop_reader, self._stop_writer, self._cut_reader):
            _close(fd)
        if self._is_cut:
            _close(self._writer)

    def wait(self):
        """Waits until the script may read. ConnectionResetError if there is nothing left to read, and no more comes."""
        ready = self._readable.poll()
        if all(fd == self._cut_reader for fd, _ in ready) and self._is_cut:
            raise ClientHasLeft

    def _run(self):
        # A script may have given SIGPIPE its default action, which would end the process here.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._is_cut = not self._pass_on()
        except OSError:
            pass  # EPIPE: the script has closed descriptor 0
        finally:
            if not self._is_cut:
                _close(self._writer)
            _close(self._cut_writer)
            self._has_ended.release()

    def _pass_on(self):
        """False if the client has left within the body."""
        readable, writable = select.poll(), select.poll()
        for poll in (readable, writable):
            poll.register(self._stop_reader, select.POLLIN)
        readable.register(self._source, select.POLLIN)
        writable.register(self._writer, select.POLLOUT)
        while self._data or self._left:
            ready = (writable if self._data else readable).poll()
            if any(fd == self._stop_reader for fd, _ in ready):
                return True
            if not self._data:
                if not self._move():
                    return False
            else:
                self._data = self._data[_write(self._writer, self._data) :]
        return True

    def _move(self):
        """Takes what has arrived; false at the end of the pipe."""
        if hasattr(os, "splice"):
            try:
                count = os.splice(self._source, self._writer, self._left, flags=os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK)
                self._left -= count
                return count > 0
            except BlockingIOError:
                pass  # the pipe is full: as without splice, which waits for room
        self._data = os.read(self._source, min(self._left, PIPE_BYTES))
        self._left -= len(self._data)
        return bool(self._data)


def _write(fd, data):
    try:
        return os.write(fd, data)
    except BlockingIOError:
        return 0
