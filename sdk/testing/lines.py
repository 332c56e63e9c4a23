"""The lines of a stream, read by a thread, for tests that wait for one of them."""

import threading
import time

from .waits import DEADLINE


class Lines:
    """Everything that a pipe has given so far, by lines; complete when every writer has closed it."""

    def __init__(self, pipe):
        self._lines = []
        self._has_ended = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._read, args=(pipe,), daemon=True)
        self._thread.start()

    def _read(self, pipe):
        with pipe:
            for line in pipe:
                with self._changed:
                    self._lines.append(line.decode("utf-8", "replace").rstrip("\n"))
                    self._changed.notify_all()
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    def all(self):
        with self._changed:
            return list(self._lines)

    def text(self):
        return "".join(line + "\n" for line in self.all())

    def wait_for(self, count, condition, start=0):
        """The first `count` lines from index `start` that meet the condition. TimeoutError with all lines if they do not arrive."""
        end = time.monotonic() + DEADLINE
        found = []
        with self._changed:
            while True:
                while start < len(self._lines):
                    if condition(self._lines[start]):
                        found.append(self._lines[start])
                        if len(found) == count:
                            return found
                    start += 1
                if self._has_ended or not self._changed.wait(end - time.monotonic()):
                    why = "the stream has ended" if self._has_ended else "the deadline has passed"
                    raise TimeoutError(f"{len(found)} of {count} lines: {why}:\n" + "\n".join(self._lines))

    def wait_end(self):
        """Waits until every writer has closed the stream; false after the deadline."""
        self._thread.join(DEADLINE)
        return not self._thread.is_alive()
