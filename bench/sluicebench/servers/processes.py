"""Processes as /proc shows them: who descends from whom, who is still there.

Here: reading /proc, and ending a family of processes so that nothing of it remains. Not here: what the processes are
(base.py and the servers), nor what they cost (sluicebench/cost.py).
"""

import os
import signal
import time
from pathlib import Path
from typing import Dict, Iterable, List, NamedTuple, Optional

# How often a process that is to end is looked at, seconds. Not a delay of what is measured: nothing is, meanwhile.
POLL_SECONDS = 0.01

# After so long without an end a killed process hangs in the kernel, and nobody can help, seconds.
KILL_SECONDS = 5.0


class Process(NamedTuple):
    """One line of /proc/PID/stat, as far as it is needed. A pid is used again; pid and start time together are not."""

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
    """`text` is /proc/PID/stat. Its second field, the program's name in brackets, may itself hold brackets."""
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    pid = int(head.split(" ", 1)[0])
    return Process(pid, int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]), fields[0])


def look_at(pid: int) -> Optional[Process]:
    try:
        return parse_stat(Path("/proc", str(pid), "stat").read_text(errors="replace"))
    except (OSError, ValueError, IndexError):
        return None


def all_processes() -> Dict[int, Process]:
    """Every process that has not ended, by pid."""
    seen = (look_at(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {process.pid: process for process in seen if process and not process.has_ended}


def descendants(roots: Iterable[int], table: Optional[Dict[int, Process]] = None) -> List[Process]:
    """The roots, all that descends from them, and all in a group or session that a root leads: an orphan has another
    parent, but keeps its session, also when the root has ended. Parents stand before their children."""
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


def executable(pid: int) -> Optional[str]:
    """The program's file, None when it has ended or is not ours to look at."""
    try:
        return os.readlink(f"/proc/{pid}/exe").replace(" (deleted)", "")
    except OSError:
        return None


def still_there(processes: Iterable[Process]) -> List[Process]:
    """Those of `processes` that run still, the same process and not another one of that pid."""
    now = ((process, look_at(process.pid)) for process in processes)
    return [then for then, here in now if here and here.started == then.started and not here.has_ended]


def send(signal_number: int, processes: Iterable[Process]) -> None:
    for process in still_there(processes):
        try:
            os.kill(process.pid, signal_number)
        except (ProcessLookupError, PermissionError):
            pass


def end_family(roots: List[int], grace_seconds: float) -> List[Process]:
    """SIGTERM to the roots, time to end by themselves, then SIGKILL to all that is left. What even that does not end is
    given back.

    The roots must be children of this process that it has not yet reaped: so their pids mean nobody else. Whoever is
    seen on the way belongs to the family for good: when its parent has ended it could no longer be found."""
    family: Dict[int, Process] = {}

    def look_again() -> List[Process]:
        members = [process.pid for process in still_there(family.values())]
        family.update((process.pid, process) for process in descendants([*roots, *members]))
        return still_there(family.values())

    def wait_until(deadline: float, kill: bool) -> List[Process]:
        while (left := look_again()) and time.monotonic() < deadline:
            if kill:  # each time: one that is killed may just have started another
                send(signal.SIGKILL, left)
            time.sleep(POLL_SECONDS)
        return left

    look_again()
    send(signal.SIGTERM, [family[pid] for pid in roots if pid in family])
    wait_until(time.monotonic() + grace_seconds, kill=False)
    return wait_until(time.monotonic() + KILL_SECONDS, kill=True)
