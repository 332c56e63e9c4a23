"""Processes in /proc: their descendants, and whether they still run.

Here: reading /proc, and stopping a process with all its descendants. Not here: the servers' processes (base.py and the
servers), their costs (sluicebench/cost.py).
"""

import os
import signal
import time
from pathlib import Path
from typing import Dict, Iterable, List, NamedTuple, Optional

# Interval between checks of a stopping process, seconds. It delays no measurement.
POLL_SECONDS = 0.01

# The clock of another process, as clock_getcpuclockid(3) makes it: ~pid << 3 | CPUCLOCK_SCHED.
PROCESS_CLOCK = 2

# A killed process that has not exited after this time hangs in the kernel, seconds.
KILL_SECONDS = 5.0


class Process(NamedTuple):
    """The needed fields of /proc/PID/stat. A pid may be reused; pid and start time together are unique."""

    pid: int
    parent: int
    group: int
    session: int
    started: int
    state: str

    @property
    def has_ended(self) -> bool:
        return self.state in "ZX"


def parse_stat(text: str) -> Process:
    """Parses /proc/PID/stat. Its second field, the program name in brackets, may itself contain brackets."""
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    pid = int(head.split(" ", 1)[0])
    return Process(pid, int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]), fields[0])


def look_at(pid: int) -> Optional[Process]:
    try:
        return parse_stat(Path("/proc", str(pid), "stat").read_text(errors="replace"))
    except (OSError, ValueError, IndexError):
        return None


def all_processes(with_ended: bool = False) -> Dict[int, Process]:
    """Every process that has not exited, by pid; `with_ended`: also those that have, until their parents have waited for them."""
    seen = (look_at(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {process.pid: process for process in seen if process and (with_ended or not process.has_ended)}


def descendants(roots: Iterable[int], table: Optional[Dict[int, Process]] = None) -> List[Process]:
    """The roots, their descendants, and all processes in a group or session led by a root: an orphan gets another
    parent but keeps its session, even if the root has exited. Parents precede their children."""
    table = all_processes() if table is None else table
    root_pids = set(roots)
    children: Dict[int, List[int]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process.pid)
    orphans = {p.pid for p in table.values() if p.session in root_pids or p.group in root_pids}
    found: Dict[int, Process] = {}
    waiting = sorted(root_pids & table.keys()) + sorted(orphans - root_pids)
    while waiting:
        pid = waiting.pop(0)
        if pid not in found:
            found[pid] = table[pid]
            waiting.extend(sorted(children.get(pid, [])))
    return list(found.values())


def processor_seconds(roots: Iterable[int]) -> float:
    """Processor time of the roots and all their descendants: of those that run, by their clocks; of those that have ended, as the
    kernel has added it to the process that waited for them, in units of 10 ms."""
    total = 0.0
    # Also those that have ended and that nobody has waited for yet.
    for process in descendants(roots, all_processes(with_ended=True)):
        try:
            total += time.clock_gettime(~process.pid << 3 | PROCESS_CLOCK)
            fields = Path("/proc", str(process.pid), "stat").read_text(errors="replace").rpartition(")")[2].split()
            total += (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")
        except (OSError, IndexError):
            continue  # it has just ended
    return total


class Used(NamedTuple):
    """Processor time of one process, without its children, seconds."""

    all: float
    user: float  # in units of 10 ms


def used_by(pid: int) -> Optional[Used]:
    """None if the process has ended."""
    try:
        fields = Path("/proc", str(pid), "stat").read_text(errors="replace").rpartition(")")[2].split()
        return Used(time.clock_gettime(~pid << 3 | PROCESS_CLOCK), int(fields[11]) / os.sysconf("SC_CLK_TCK"))
    except (OSError, IndexError):
        return None


def executable(pid: int) -> Optional[str]:
    """The program's file; None if the process has exited or is not accessible."""
    try:
        return os.readlink(f"/proc/{pid}/exe").replace(" (deleted)", "")
    except OSError:
        return None


def still_there(processes: Iterable[Process]) -> List[Process]:
    """The `processes` that still run; another process with the same pid does not count."""
    now = ((process, look_at(process.pid)) for process in processes)
    return [then for then, here in now if here and here.started == then.started and not here.has_ended]


def send(signal_number: int, processes: Iterable[Process]) -> None:
    for process in still_there(processes):
        try:
            os.kill(process.pid, signal_number)
        except (ProcessLookupError, PermissionError):
            pass


def end_family(roots: List[int], grace_seconds: float) -> List[Process]:
    """Sends SIGTERM to the roots, waits, then sends SIGKILL to the remaining processes. Returns those that still run.

    The roots must be unreaped children of this process, so that their pids cannot be reused. Every descendant that is
    seen is remembered, because it could no longer be found after its parent has exited."""
    family: Dict[int, Process] = {}

    def look_again() -> List[Process]:
        members = [process.pid for process in still_there(family.values())]
        family.update((process.pid, process) for process in descendants([*roots, *members]))
        return still_there(family.values())

    def wait_until(deadline: float, kill: bool) -> List[Process]:
        while (left := look_again()) and time.monotonic() < deadline:
            if kill:  # each time, because a killed process may just have started another one
                send(signal.SIGKILL, left)
            time.sleep(POLL_SECONDS)
        return left

    look_again()
    send(signal.SIGTERM, [family[pid] for pid in roots if pid in family])
    wait_until(time.monotonic() + grace_seconds, kill=False)
    return wait_until(time.monotonic() + KILL_SECONDS, kill=True)
