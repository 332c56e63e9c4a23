"""Processor time per request: of a server with all that it has started, and of that its own part and the scripts'.

Here: two readings of the clocks, before and after a number of requests, and their difference. Not here: the requests and their
order (run.py), the rows (plan.py), the control group (servers/meter.py).

  total    the server's control group, which has every process. Without one, the clocks of the processes, and what was added to them
           for those that they have waited for (servers/processes.py).
  server   the server's own processes: neither programs of the site nor what starts them (fcgiwrap). By the clock of each process,
           without the ended processes that it has waited for.
  code     the part of it in user mode, without the kernel, as the kernel counts it: in units of 10 ms.
  scripts  the rest: programs, also between fork and exec, and fcgiwrap.

The load tool and this program belong to none of them. The kernel counts its work for a connection for the process that it interrupts,
which is the same for all servers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .results import NotMeasured, Sample, failed
from .servers import Server, processes
from .tables import Row, Table

#: A way whose programs run in the server's own processes, so that there are no parts.
INSIDE = ("file", "module")


@dataclass(frozen=True)
class Reading:
    total: float
    #: The server's own processes.
    own: dict[int, processes.Used]


def read(server: Server, way: str, with_own: bool = True) -> Reading:
    """Raises NotMeasured if the time of the scripts is counted nowhere."""
    if not server.meter and way in server.unawaited:
        raise NotMeasured("no process has the time of these scripts, and there is no control group")
    total = server.meter.seconds() if server.meter else server.processor_seconds()
    pids = server.pids() if with_own else []
    used = ((pid, processes.used_by(pid)) for pid in pids)
    return Reading(total, {pid: seconds for pid, seconds in used if seconds})


def difference(before: Reading, after: Reading, units: int, way: str, rate: float) -> Sample:
    """Microseconds per unit (a request, a MiB), with the parts in the details. `rate`: units per second, for the next measurement."""
    total = (after.total - before.total) * 1e6 / units
    if total <= 0:
        return failed("no processor time was counted")
    none = processes.Used(0.0, 0.0)
    pairs = [(before.own.get(pid, none), used) for pid, used in after.own.items()]
    details = {"rate": rate}
    if pairs:
        own = sum(later.all - earlier.all for earlier, later in pairs) * 1e6 / units
        details["code"] = sum(later.user - earlier.user for earlier, later in pairs) * 1e6 / units
        details["server"] = min(own, total)
        if way not in INSIDE:
            details["scripts"] = total - details["server"]
    return Sample(total, details=details)


def parts_of(table: Table, row: Row, sample: Sample) -> Iterator[tuple[str, Sample]]:
    """The samples of the rows that are a part of this one."""
    for part in (part for part in table.rows if part.of == row.key):
        if sample.value is None:
            yield part.key, failed(sample.failure)
        elif part.part in sample.details:
            yield part.key, Sample(sample.details[part.part])
