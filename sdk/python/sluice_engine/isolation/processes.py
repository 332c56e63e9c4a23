"""Child processes that still run when a script has ended are killed, as the server does for CGI, because what they write would become
part of another reply. A process that must go on starts a session of its own (setsid, start_new_session=True). If it keeps the mailbox
open, this process ends after the reply, so that the next request has another mailbox.

Processes whose parent has ended become children of this one, so that they are found: prctl(PR_SET_CHILD_SUBREAPER)."""

import _posixsubprocess
import ctypes
import os
import signal
import sys

PR_SET_CHILD_SUBREAPER = 36


class Processes:
    """`were_started` is set by every way in which Python code starts a process."""

    def __init__(self, isolation, channel):
        self._isolation = isolation
        self.were_started = False
        self._pid = os.getpid()
        self._session = os.getsid(0)
        self._mailbox = _link(f"/proc/self/fd/{channel.mailbox}")
        self._goes_on = False  # a process with a session of its own
        _adopt_orphans()
        os.register_at_fork(before=self._note, after_in_child=self._in_child)
        self._wrap(os, "system", "posix_spawn", "posix_spawnp", "popen")
        self._wrap(_posixsubprocess, "fork_exec")

    def _note(self):
        self.were_started = True

    def _in_child(self):
        self._isolation.is_child = True

    def _wrap(self, module, *names):
        for name in names:
            setattr(module, name, self._noting(getattr(module, name)))

    def _noting(self, function):
        def call(*arguments, **named):
            self.were_started = True
            return function(*arguments, **named)

        call.__name__ = call.__qualname__ = function.__name__
        return call

    def becomes_main(self):
        """In the child of --fresh=fork: this is the process that runs the script."""
        self._pid = os.getpid()
        self._isolation.is_child = False
        self.were_started = False

    def end(self):
        """Kills what is left of the processes that the script has started."""
        if not self.were_started:
            if self._goes_on:
                self._reap()
            return
        self.were_started = False
        self._end_multiprocessing()
        while self._reap():
            for pid in self._members():
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            if not self._wait_for_child():
                break
        for pid in self._members():  # children of children
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        others = [pid for pid in self._descendants() if _state(pid) != "Z"]
        self._goes_on = bool(others)
        if any(_holds(pid, self._mailbox) for pid in others):
            self._isolation.retire = True

    def _reap(self):
        """Takes the statuses of children that have ended; true if others of this session still run."""
        while True:
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    return any(_parent(pid) == self._pid for pid in self._members())
            except ChildProcessError:
                return False

    def _wait_for_child(self):
        try:
            os.waitpid(-1, 0)
            return True
        except ChildProcessError:
            return False

    def _members(self):
        """The other processes of this session that were started by this one; none if it is not the leader of the session."""
        spared = {self._pid}
        if self._session not in spared:
            spared |= {self._session, os.getppid()}
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) not in spared:
                try:
                    if os.getsid(int(name)) == self._session and (self._session == self._pid or _parent(int(name)) == self._pid):
                        found.append(int(name))
                except OSError:
                    pass
        return [pid for pid in found if _state(pid) != "Z"]

    def _descendants(self):
        """The processes that were started by this one, also by others in between."""
        children = {}
        for name in os.listdir("/proc"):
            if name.isdigit():
                children.setdefault(_parent(int(name)), []).append(int(name))
        found = children.get(self._pid, [])[:]
        for pid in found:
            found += children.get(pid, ())
        return found

    @staticmethod
    def _end_multiprocessing():
        """Waits for the processes of multiprocessing, as its function for the exit does."""
        multiprocessing = sys.modules.get("multiprocessing")
        if multiprocessing is not None:
            for child in multiprocessing.active_children():
                if child.daemon:
                    child.terminate()
                child.join()


def _adopt_orphans():
    try:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (AttributeError, OSError):
        pass


def _holds(pid, file):
    """Whether a process has this file open, as far as is known."""
    try:
        return any(_link(f"/proc/{pid}/fd/{fd}") == file for fd in os.listdir(f"/proc/{pid}/fd"))
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _link(path):
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _stat(pid):
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return [b"Z", b"0"]


def _state(pid):
    return _stat(pid)[0].decode()


def _parent(pid):
    return int(_stat(pid)[1])
