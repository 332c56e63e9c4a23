"""Counts the rows of one server after the other by the program of bench/instructions.

Here: a fresh server for its rows, the counting program and what it prints. Not here: what is counted (rows.py), the table (table.py).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

from ..servers.base import Server, ServerFailed, Site
from ..servers.protocols import Protocol
from .rows import Row
from .servers import SERVERS, make_site

#: One thread works for one client, and the share of a second worker would depend on chance.
WORKERS = 1
COUNT_SECONDS = 300.0


#: The counter's exit status if a request that was stepped has had no reply.
NO_REPLY = 75


class NoReply(ServerFailed):
    """The server has not answered a request that was stepped."""


@dataclass(frozen=True)
class Figure:
    """Of one request."""

    instructions: float
    allocations: float
    copied: float
    profile: list[tuple[str, float]] = field(default_factory=list)


def go_first() -> None:
    """Lets this process and all that it starts run on one processor, before other programs where that is allowed (as root).

    Each step goes from the counting program to the server and back, which other processes delay by milliseconds. More time is more of what
    a server does once a second."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(os.sched_get_priority_min(os.SCHED_RR)))
    except PermissionError:
        pass


@contextmanager
def site(repository: Path, sluice: Path) -> Iterator[Site]:
    made = make_site(repository, sluice)
    try:
        yield made
    finally:
        shutil.rmtree(made.scratch, ignore_errors=True)


def count(site: Site, counter: Path, name: str, rows: Sequence[Row], profile: int = 0) -> Iterator[tuple[Row, Optional[Figure]]]:
    """The rows of one server, each with a fresh process, so that no row depends on those before it; None: it has no such route."""
    for row in rows:
        yield row, count_row(site, counter, name, row, profile)


def count_row(site: Site, counter: Path, name: str, row: Row, profile: int) -> Optional[Figure]:
    """Counts a row. If a request that is stepped has no reply, the failure is printed, and the row is counted once more with a fresh process.

    Two counts of RTE beside `make test-models` ended so, the others did not; the cause is not known. The failure says where the server's threads stood. Any
    other failure is one of the server."""
    try:
        return count_once(site, counter, name, row, profile)
    except NoReply as failure:
        print(f"{failure}\n{row.label}: counted again", file=sys.stderr)
        return count_once(site, counter, name, row, profile)


def count_once(site: Site, counter: Path, name: str, row: Row, profile: int) -> Optional[Figure]:
    kind = SERVERS[name]
    if kind.available() or not any(way in kind.ways for way in row.ways):
        return None
    server = kind(site, WORKERS, row.ways, (row.protocol,))
    routes = server.routes()
    way = next((way for way in row.ways if way in routes), None)
    if way is None or server.missing_binary() or row.protocol.key in server.missing_protocols():
        return None
    with server:
        url = server.address(routes[way] + row.name, row.protocol)
        return read(invoke(counter, server, way, row, url, profile))


def invoke(counter: Path, server: Server, way: str, row: Row, url: str, profile: int) -> str:
    address, _, path = url.partition("://")[2].partition("/")
    pids = [option for pid in server.counted_pids(way) for option in ("--pid", str(pid))]
    command = [
        str(counter), *pids, "--client", row.client, "--address", address, "--path", f"/{path}",
        "--in-flight", str(row.in_flight), "--requests", str(row.requests), "--warm-up", str(row.warm_up),
        "--stepped-first", str(row.stepped_first),
        "--certificate", str(server.site.certificate), "--profile", str(profile),
    ]  # fmt: skip
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COUNT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise ServerFailed(server.explain(f"{row.label}: not counted within {COUNT_SECONDS:.0f} s")) from None
    if done.returncode == NO_REPLY:
        raise NoReply(server.explain(f"{row.label}: {done.stderr.strip()}"))
    if done.returncode:
        raise ServerFailed(server.explain(f"{row.label}: {done.stderr.strip()}"))
    return done.stdout


def read(output: str) -> Figure:
    found = json.loads(output)
    return Figure(found["instructions"], found["allocations"], found["copied"], [tuple(each) for each in found["profile"]])
