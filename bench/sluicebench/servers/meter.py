"""The processor time of a server with everything that it has started, by a control group (cgroup) of its own.

Here: finding the hierarchy, a group, its clock. Not here: the clocks of single processes (processes.py), processor time for each
request (sluicebench/processor.py).

A group also counts the processes that nobody has waited for: Apache's mod_cgid and fcgiwrap leave that to the kernel, which then adds the time
of a script to no process. The group must not change how the processes are scheduled: a hierarchy whose groups share out
processors (the controller `cpu`) is not used.
"""

import os
import re
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, NamedTuple, Optional

MOUNTS, OWN_GROUP = Path("/proc/self/mounts"), Path("/proc/self/cgroup")


class NoMeter(Exception):
    """Why there can be no group."""


class Place(NamedTuple):
    """The group that this process is in, and how the time of a group there is read."""

    directory: Path
    unified: bool


def place_of(mounts: str, own_group: str) -> Place:
    """Finds the group of this process from the texts of /proc/self/mounts and /proc/self/cgroup. Version 1 is preferred where both are
    mounted, because servers make groups of their own in version 2. Raises NoMeter."""
    unified: Optional[Place] = None
    for line in mounts.splitlines():
        _, mount, kind, options, *_ = line.split()
        controllers = set(options.split(","))
        if kind == "cgroup" and "cpuacct" in controllers and "cpu" not in controllers:
            return Place(_joined(mount, _group(own_group, "cpuacct")), unified=False)
        if kind == "cgroup2":
            unified = Place(_joined(mount, _group(own_group, "")), unified=True)
    if not unified:
        raise NoMeter("no hierarchy of control groups counts processor time without sharing it out")
    return unified


def _group(own_group: str, controller: str) -> str:
    """`2:cpuacct:/path`, or `0::/path` for version 2."""
    for line in own_group.splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return path
    raise NoMeter("this process is in no control group")


def _joined(mount: str, path: str) -> Path:
    return Path(mount) / path.lstrip("/")


class Meter:
    """A control group. `started()`: what is started meanwhile belongs to it."""

    def __init__(self, name: str, place: Optional[Place] = None) -> None:
        """Creates the group; raises NoMeter if that is not possible."""
        try:
            self.place = place or place_of(MOUNTS.read_text(), OWN_GROUP.read_text())
            if self.place.unified and "cpu" in (self.place.directory / "cgroup.subtree_control").read_text().split():
                raise NoMeter("the control groups here share out processors")
            self.directory = self.place.directory / f"sluice-bench-{os.getpid()}-{name}"
            self.directory.mkdir()
        except OSError as error:
            raise NoMeter(f"no control group can be made: {error.strerror}: {error.filename}") from None

    @contextmanager
    def started(self) -> Iterator[None]:
        """This process is in the group meanwhile, and its children inherit that."""
        self._move_to(self.directory)
        try:
            yield
        finally:
            self._move_to(self.place.directory)

    @staticmethod
    def _move_to(directory: Path) -> None:
        (directory / "cgroup.procs").write_text(str(os.getpid()))

    def seconds(self) -> float:
        """Processor time of all processes of the group so far."""
        if self.place.unified:
            return stat_seconds((self.directory / "cpu.stat").read_text())
        return int((self.directory / "cpuacct.usage").read_text()) / 1e9

    def remove(self) -> None:
        """Removes the group and those that a server has made in it. One that is still used is left."""
        for directory, _, _ in os.walk(self.directory, topdown=False):
            try:
                os.rmdir(directory)
            except OSError:
                pass


def stat_seconds(text: str) -> float:
    """`usage_usec 1234` of cpu.stat, in seconds."""
    found = re.search(r"^usage_usec (\d+)$", text, re.MULTILINE)
    return int(found[1]) / 1e6 if found else 0.0
