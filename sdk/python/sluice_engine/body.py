"""Descriptor 0 of a script: the body of the request, then end-of-file, as in CGI.

The server's pipe does not end with a request: after the body comes the next one. So that a script, and every program that it starts,
may read to end-of-file, descriptor 0 is a pipe of its own for each request with a body, and /dev/null for the others. A body that is
there already and fits into a pipe is written at once. Otherwise a thread passes it on."""

import _thread
import array
import fcntl
import os
import select
import signal
import termios

_close, _dup2 = os.close, os.dup2  # isolation/descriptors.py replaces those of the module os

PIPE_BYTES = 65536
PIPE_BYTES_WANTED = 1 << 20  # for large bodies
F_SETPIPE_SZ, F_GETPIPE_SZ = 1031, 1032


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
            self._pump = Pump(channel.body, writer, data, length - len(data))
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
            self._pump.stop()


class Pump:
    """A thread that passes `left` bytes from `source` to the pipe `writer`. Not a threading.Thread, because the script should not
    find it among its own."""

    def __init__(self, source, writer, data, left):
        self._source, self._writer, self._data, self._left = source, writer, data, left
        self._stop_reader, self._stop_writer = os.pipe()
        os.set_blocking(writer, False)
        try:
            fcntl.fcntl(writer, F_SETPIPE_SZ, PIPE_BYTES_WANTED)
        except OSError:
            pass  # the user has too many large pipes
        self._has_ended = _thread.allocate_lock()
        self._has_ended.acquire()
        _thread.start_new_thread(self._run, ())

    def stop(self):
        """Ends the thread, so that it takes nothing of the next body."""
        os.write(self._stop_writer, b"x")
        self._has_ended.acquire()
        _close(self._stop_reader)
        _close(self._stop_writer)

    def _run(self):
        # A script may have given SIGPIPE its default action, which would end the process here.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._pass_on()
        except OSError:
            pass  # EPIPE: the script has closed descriptor 0
        finally:
            _close(self._writer)
            self._has_ended.release()

    def _pass_on(self):
        readable, writable = select.poll(), select.poll()
        for poll in (readable, writable):
            poll.register(self._stop_reader, select.POLLIN)
        readable.register(self._source, select.POLLIN)
        writable.register(self._writer, select.POLLOUT)
        while self._data or self._left:
            ready = (writable if self._data else readable).poll()
            if any(fd == self._stop_reader for fd, _ in ready):
                return
            if not self._data:
                if not self._move():
                    return
            else:
                self._data = self._data[_write(self._writer, self._data) :]

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
