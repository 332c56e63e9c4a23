"""Descriptors: those of the protocol (0 to 4) are put back, and those that a script has left open are closed.

Whether there are more than before is one fstat(2) of /proc/self/fd, whose size is their number since Linux 6.2; before that they are
listed. Descriptors that belong to objects of imported modules (a connection in a global of a module, for example) stay with them."""

import errno
import gc
import os
import stat
import sys

HAVE_GC = 1 << 14  # Py_TPFLAGS_HAVE_GC
KEPT_MAX = 200  # descriptors that modules keep; beyond, something leaks, and the process is renewed


class Descriptors:
    """The descriptors that are open between requests."""

    def __init__(self, isolation, channel):
        self._isolation = isolation
        self._channel = channel
        self.are_dirty = False  # a call for one of 0 to 4 was seen
        self._directory = os.open("/proc/self/fd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        moved = channel._private(self._directory, and_close=True)
        self._directory = moved
        channel.private.add(moved)
        self._first_count = len(self._list())
        self._known = self._list()
        self._is_counted = os.fstat(moved).st_size == len(self._known)
        self._count = len(self._known)
        self._note_calls()

    def _list(self):
        return {int(name) for name in os.listdir(self._directory)} - {_listing_descriptor(self._directory)}

    def adopt(self):
        """Takes the descriptors that are open now for those of the engine."""
        self._known = self._list()
        self._count = len(self._known)

    def restore(self):
        if self.are_dirty:
            self.are_dirty = False
            self._channel.repair()
        count = os.fstat(self._directory).st_size if self._is_counted else len(self._list())
        if count != self._count:
            self._settle()

    def _settle(self):
        """Closes what was left open and belongs to nobody."""
        if not {0, 1, 2, 3} <= self._list():
            self._channel.repair()
        if self._list() - self._known:
            gc.collect()  # objects in cycles still hold theirs
            left = self._list() - self._known
            if left:
                for fd in left - self._owned(left):
                    try:
                        _close(fd)
                    except OSError:
                        pass
        self.adopt()
        if self._count > self._first_count + KEPT_MAX:
            self._isolation.retire = True

    def _owned(self, left):
        """Those of the descriptors that an object outside of the script holds."""
        owned, has_database = set(), _has_hidden_databases()
        for thing in gc.get_objects():
            kind = type(thing)
            if kind.__name__ == "Connection" and kind.__module__ == "sqlite3" or kind.__module__ in ("_gdbm", "_dbm"):
                has_database = True
            elif hasattr(kind, "fileno") and not isinstance(thing, type):
                try:
                    owned.add(thing.fileno())
                except Exception:  # noqa: BLE001 closed, or not meant to be called
                    pass
        has_extensions = any(_is_extension(module) for module in list(sys.modules.values()))
        for fd in left - owned:
            mode = _mode(fd)
            # A file of a database, or a connection of a library in C: its number must not be given to another file.
            is_of_database = has_database and stat.S_ISREG(mode) and _is_database(fd)
            is_of_library = has_extensions and (stat.S_ISSOCK(mode) or stat.S_IFMT(mode) == 0)
            if is_of_database or is_of_library:
                owned.add(fd)
        return owned

    def _note_calls(self):
        """Notes calls that replace 0 to 4, and keeps the engine's own descriptors from the loops of scripts that close everything."""
        private, isolation = self._channel.private, self._isolation

        def close(fd):
            if not isolation.is_child and isinstance(fd, int):
                if 0 <= fd <= 4:
                    self.are_dirty = True
                elif fd in private:
                    raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            _close(fd)

        def dup2(fd, fd2, inheritable=True):
            if not isolation.is_child and isinstance(fd2, int):
                if 0 <= fd2 <= 4:
                    self.are_dirty = True
                elif fd2 in private:
                    raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            return _dup2(fd, fd2, inheritable)

        def closerange(fd_low, fd_high, /):
            if isolation.is_child:
                return _closerange(fd_low, fd_high)
            self.are_dirty = True
            low = fd_low
            for fd in sorted(fd for fd in private if fd_low <= fd < fd_high):
                _closerange(low, fd)
                low = fd + 1
            return _closerange(low, fd_high)

        os.close, os.dup2, os.closerange = close, dup2, closerange


_close, _dup2, _closerange = os.close, os.dup2, os.closerange


def _listing_descriptor(directory):
    """os.listdir(fd) lists by a duplicate, which is in its own list: the lowest free number."""
    fd = os.dup(directory)
    _close(fd)
    return fd


def _has_hidden_databases():
    """Whether there may be connections of sqlite3 that the garbage collector does not list (before Python 3.11)."""
    module = sys.modules.get("_sqlite3")
    return module is not None and not module.Connection.__flags__ & HAVE_GC


def _is_database(fd):
    """Whether a regular file is a database of SQLite or dbm, or belongs to one."""
    try:
        name = os.readlink(f"/proc/self/fd/{fd}")
        start = os.pread(fd, 16, 0)
    except OSError:
        return False
    is_named_so = name.endswith(("-wal", "-shm", "-journal", ".dir", ".pag", ".db"))
    return is_named_so or start in (b"", b"SQLite format 3\0") or "dbm" in sys.modules


def _mode(fd):
    try:
        return os.fstat(fd).st_mode
    except OSError:
        return stat.S_IFREG


def _is_extension(module):
    file = getattr(module, "__file__", None) or ""
    return isinstance(file, str) and file.endswith(".so") and "lib-dynload" not in file
