"""The processes of a server by their roles: supervisor, server, launcher, scripts."""

import os
import resource
import signal


def _read(pid, name):
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""


class Family:
    """The process table at a moment. `roles`: name → pids in order; `scripts`: processes that the server has started; `others`: all but its own."""

    def __init__(self, server):
        self.supervisor = server.pid
        self.roles = {"supervisor": [server.pid]}
        family = server.family()
        for process in family:
            if process.role:
                self.roles.setdefault(process.role, []).append(process.pid)
        own = set(self.own())
        self.others = [process for process in family if not process.role]
        living = [process for process in self.others if process.state != "Z"]
        self.scripts = [process for process in living if process.parent in own]
        engines = {process.pid for process in self.scripts if "engine" in process.command}
        # A child that a script has started itself (`head`, `cat`) is left alone: a script that does not check it would end its reply well.
        self.targets = [process for process in living if process.parent in own or process.parent in engines]

    def server(self):
        """The server process: the newest; the supervisor itself if it serves."""
        return self.roles.get("server", [self.supervisor])[-1]

    def has(self, role):
        return bool(self.roles.get(role))

    def own(self):
        """The pids of the server's own processes."""
        return [pid for pids in self.roles.values() for pid in pids]


def send(pid, number):
    """Sends a signal; false if the process is gone."""
    try:
        os.kill(pid, number)
        return True
    except ProcessLookupError:
        return False


def limit(pid, which, soft):
    """Sets the soft limit of a running process; the former one, or None if it is gone."""
    try:
        before = resource.prlimit(pid, which)
        wanted = soft if before[1] == resource.RLIM_INFINITY else min(soft, before[1])
        resource.prlimit(pid, which, (before[1] if soft == resource.RLIM_INFINITY else wanted, before[1]))
        return before[0]
    except ProcessLookupError:
        return None


def memory(pids):
    """Resident memory without mapped files, in bytes."""
    total = 0
    for pid in pids:
        for line in _read(pid, "status").splitlines():
            if line.startswith((b"RssAnon:", b"RssShmem:")):
                total += int(line.split()[1]) << 10
    return total


def address_space(pid):
    return int((_read(pid, "statm").split() or [b"0"])[0]) * os.sysconf("SC_PAGE_SIZE")


def descriptors(pid):
    """What a process has open."""
    found = []
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                found.append(os.readlink(f"/proc/{pid}/fd/{name}"))
            except OSError:
                pass
    except OSError:
        pass
    return sorted(found)


def cont(pid):
    send(pid, signal.SIGCONT)
