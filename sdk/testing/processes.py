"""The process table: which processes belong to a server under test.

A script's children may leave its process group or session, and outlive it with another parent. They are found by the server's
temporary directory, whose name is unique: in their environment, working directory or command line.
"""

import os

from .waits import wait_until


class Process:
    """A process other than the server: a script process or one of its descendants."""

    def __init__(self, pid, parent, state, command):
        self.pid, self.parent, self.state, self.command = pid, parent, state, command

    @property
    def role(self):
        """What it does for the server, if it is one of the server's own processes: "server" (`sluice: server`), "launcher" and the like; None for scripts."""
        return self.command.partition(" ")[0] == "sluice:" and self.command.partition(" ")[2].split(" ")[0] or None

    def __repr__(self):
        return f"{self.pid} (parent {self.parent}, {self.state}) {self.command}"


def processes_of(server, directory):
    """Every process of a server except the server itself: its descendants (zombies too), and those marked by its directory."""
    mark = os.fsencode(directory)
    found, own = [], {server}
    pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
    table = {pid: stat for pid in pids if (stat := _stat(pid))}
    changed = True
    while changed:
        children = {pid for pid, (_, parent, _) in table.items() if parent in own} - own
        changed = bool(children)
        own |= children
    for pid, (state, parent, name) in table.items():
        if pid in (server, os.getpid()):
            continue
        if pid in own or (parent == 1 or parent not in table or _ancestor_is_init(pid, table)) and _is_marked(pid, mark):
            command = _read(pid, "cmdline").replace(b"\0", b" ").strip().decode("utf-8", "replace")
            found.append(Process(pid, parent, state, command or f"({name})"))
    return found


def is_alive(pid):
    """Whether a process exists and is no zombie."""
    stat = _stat(pid)
    return stat is not None and stat[0] not in "ZX"


def wait_gone(pid):
    """Waits until a process has ended; AssertionError after the deadline."""
    assert wait_until(lambda: not is_alive(pid)), f"process {pid} is still there: {_read(pid, 'cmdline')}"


def _ancestor_is_init(pid, table):
    """Whether no ancestor is this process: the test and the programs that it has started itself are not the server's."""
    while pid in table:
        if pid == os.getpid():
            return False
        pid = table[pid][1]
    return True


def _is_marked(pid, mark):
    try:
        if os.fsencode(os.readlink(f"/proc/{pid}/cwd")).startswith(mark):
            return True
    except OSError:
        pass
    return mark in _read(pid, "environ") or mark in _read(pid, "cmdline")


def _stat(pid):
    """State, parent and name of a process (proc_pid_stat(5)); the name is in parentheses and may contain anything."""
    text = _read(pid, "stat").decode("utf-8", "replace")
    if ")" not in text:
        return None
    head, _, rest = text.rpartition(")")
    state, parent = rest.split()[:2]
    return state, int(parent), head.partition("(")[2]


def _read(pid, name):
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""
