"""Events between a test and a script, by named pipes in the server's directory."""

import os
import select
import time

from .waits import DEADLINE


class Fifo:
    """A named pipe. The script writes lines to it (`echo here > FIFO`) and the test waits for them with `line()`; or the script
    reads one (`read x < FIFO`) and the test lets it go on with `release()`. Use one for one direction only.

    Both ends are open here, so that a script never waits in open(2)."""

    def __init__(self, path):
        self.path = path
        os.mkfifo(path, 0o666)
        os.chmod(path, 0o666)
        self._file = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._got = b""

    def line(self, deadline=DEADLINE):
        """The next line that a script has written. TimeoutError after the deadline."""
        end = time.monotonic() + deadline
        while b"\n" not in self._got:
            ready, _, _ = select.select([self._file], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise TimeoutError(f"no line in {self.path}, only {self._got!r}")
            self._got += os.read(self._file, 65536)
        line, _, self._got = self._got.partition(b"\n")
        return line.decode("utf-8", "replace")

    def release(self, text="go"):
        """Gives one waiting script a line."""
        os.write(self._file, f"{text}\n".encode())

    def close(self):
        if self._file is not None:
            os.close(self._file)
            self._file = None
