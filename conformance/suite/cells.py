"""A cell of the table: one behaviour in one column, with the requests that behaviours make."""

import itertools
import threading

from testing import DEADLINE, is_alive, wait_until

_numbers = itertools.count(1)
_lock = threading.Lock()


class Cell:
    def __init__(self, server, column):
        self.server, self.column = server, column
        self.mode, self.language = column.mode, column.language
        self.is_persistent = column.is_persistent
        with _lock:
            # A word that is in the log for this cell only.
            self.mark = f"mark-{next(_numbers)}-end"

    def path(self, action, route=""):
        return self.column.path(action, route)

    def get(self, action, headers=(), route=""):
        return self.server.get(self.path(action, route), headers)

    def request(self, method, action, headers=(), body=None, chunks=None):
        return self.server.request(method, self.path(action), headers, body, chunks)

    def connect(self):
        return self.server.connect()

    def document(self, action, headers=()):
        """The body of a complete response with status 200."""
        got = self.get(action, headers)
        assert got.status == 200 and got.is_complete, got
        return got.text

    def next_is_right(self):
        """Asserts that the next request has a right answer; returns the pid of its process."""
        return int(self.document("process"))

    def wait_gone(self, pid):
        assert wait_until(lambda: not is_alive(pid)), f"process {pid} is still there after {DEADLINE} s"


def equal(got, expected, about=""):
    """Asserts that two values are equal, and shows both, shortened."""
    if got != expected:
        raise AssertionError(f"{about}: {shortened(got)} instead of {shortened(expected)}")


def shortened(value):
    text = repr(value)
    return text if len(text) < 600 else f"{text[:400]} … {text[-150:]} ({len(text)} characters)"
