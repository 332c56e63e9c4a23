"""The stage: content, servers and limit programs, set up before the run and removed after it, even after a failure.

Here: the temporary directory and its contents; which servers can run, and why others cannot. Not here: starting a server
(servers/), measuring it (run.py)."""

from __future__ import annotations

import os
import random
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Optional

from .plan import LARGE_FILES, LINES_BYTES, SMALL_FILES
from .results import NotMeasured
from .servers import ALL_SERVERS, Server, ServerFailed, Site, applications, verify
from .servers.base import FIXED_BYTES, LINES_FILE
from .servers.base import PROGRAMS as PROGRAMS_OF_WAY
from .servers.host import bound_open_files
from .servers.meter import Meter, NoMeter
from .servers.protocols import H1, Protocol, make_certificate
from .tables import Column, Row, Table

PROGRAMS = ("cgiplustest", "membufdemo")

#: What DCL writes into the control area of a VFC record: a newline before it, a carriage return behind it.
CONTROL_AREA = b"\x01\x8d"


def make_site(repository: Path, sluice: Path) -> Site:
    for name in PROGRAMS:
        if not program_file(repository, name).is_file():
            raise FileNotFoundError(f"{program_file(repository, name)} does not exist: `make sdk` builds it")
    scratch = Path(tempfile.mkdtemp(prefix="sluice-bench-"))
    try:
        return fill_site(repository, sluice, scratch)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise


def program_file(repository: Path, name: str) -> Path:
    return repository / "sdk" / "c" / "build" / name


def fill_site(repository: Path, sluice: Path, scratch: Path) -> Site:
    scratch.chmod(0o755)  # servers started by root run as another user
    htdocs, programs = scratch / "htdocs", scratch / "cgi-bin"
    htdocs.mkdir()
    programs.mkdir()
    for name, size in SMALL_FILES.items():
        (htdocs / name).write_text("".join(chr(33 + at % 90) for at in range(size)))
    for name, size in LARGE_FILES.items():
        (htdocs / name).write_bytes(os.urandom(size))
    for name in PROGRAMS:
        shutil.copy2(program_file(repository, name), programs / name)
    site = Site(scratch, htdocs, programs, repository / "bench" / "build", sluice)
    for directory in (site.records, site.vfc, site.fixed):
        directory.mkdir()
    lines = text_lines(LINES_BYTES)
    (htdocs / LINES_FILE).write_bytes(b"".join(line + b"\n" for line in lines))
    (site.records / LINES_FILE).write_bytes(variable_records(lines))
    (site.vfc / LINES_FILE).write_bytes(variable_records(CONTROL_AREA + line for line in lines))
    (site.fixed / LINES_FILE).write_bytes(fixed_records(lines))
    applications.fill(repository / "bench" / "engines", site)
    return replace(site, no_certificate=make_certificate(site.certificate, site.key))


def text_lines(size: int) -> list[bytes]:
    """Returns lines of 0 to 100 letters, the same in every run, together slightly more than `size` bytes."""
    chance, lines = random.Random(size), []
    while size > 0:
        lines.append(b"x" * chance.randint(0, 100))
        size -= len(lines[-1]) + 1
    return lines


def variable_records(lines: Iterable[bytes]) -> bytes:
    """Encodes records as VMS does: each after its length, odd ones followed by a padding byte."""
    return b"".join(struct.pack("<H", len(line)) + line + b"\0" * (len(line) % 2) for line in lines)


def fixed_records(lines: Iterable[bytes]) -> bytes:
    """Their text in records of one length, the last of which is padded with spaces."""
    text = b"".join(line + b"\n" for line in lines)
    return text + b" " * (-len(text) % FIXED_BYTES)


class Stage:
    """A context manager: on exit every process is stopped and the directory removed."""

    def __init__(self, site: Site, workers: int, keep_directory: bool = False) -> None:
        self.site = site
        self.workers = workers
        self.keep_directory = keep_directory
        #: A server, "server way" or "server protocol" → why it is omitted.
        self.skipped: dict[str, str] = {}
        self.versions: dict[str, str] = {}
        #: Whether the servers get control groups, and why they have none.
        self.is_metered, self.no_meter = False, ""
        self._running: dict[tuple[str, int], Server] = {}
        self._send_limit: Optional[subprocess.Popen[bytes]] = None
        self._send_port = 0

    def __enter__(self) -> Stage:
        bound_open_files()  # the load tools have as many connections open
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop_all()
        finally:
            if self.keep_directory:
                print(f"kept: {self.site.scratch}")
            else:
                shutil.rmtree(self.site.scratch, ignore_errors=True)

    # ---- set-up ----

    def set_up(self, tables: Sequence[Table]) -> None:
        """Starts what the tables need, and verifies its answers. What cannot run is recorded in `skipped`."""
        self.is_metered = any(table.measure == "processor" for table in tables)
        wanted: dict[tuple[str, int], list[tuple[str, Protocol]]] = {}
        for column, row in ((c, r) for t in tables for r in t.rows for c in t.columns_of(r)):
            uses = wanted.setdefault((column.server, row.workers or self.workers), [])
            uses.extend((way, row.protocol) for way in row.ways or (column.way,))
        for (name, workers), uses in sorted(wanted.items(), key=lambda item: item[0]):
            if name in ALL_SERVERS:
                self._start(name, workers, {way for way, _ in uses}, {protocol for _, protocol in uses})
        for (name, way), reason in verify(list(self._running.values()), "64k.txt").items():
            self.skipped[f"{name} {way}"] = reason
        if any(table.measure == "applications" for table in tables):
            for (name, what), reason in applications.verify_applications(list(self._running.values())).items():
                self.skipped[f"{name} {what}"] = reason
        limits = {column.way for table in tables for column in table.columns if column.is_limit}
        for way in limits:
            if not (self.site.build / f"{way}_limit").is_file():
                self.skipped[f"limit {way}"] = f"bench/build/{way}_limit is not built"
        if "send" in limits and "limit send" not in self.skipped:
            self._start_send_limit()

    def _start(self, name: str, workers: int, ways: Iterable[str], protocols: Iterable[Protocol]) -> None:
        try:
            self._running[name, workers] = self.fresh(name, workers, ways, protocols)
        except (NotMeasured, ServerFailed, OSError) as reason:
            self.skipped[name] = str(reason)

    def fresh(
        self,
        name: str,
        workers: Optional[int] = None,
        ways: Iterable[str] = PROGRAMS_OF_WAY,
        protocols: Iterable[Protocol] = (H1,),
    ) -> Server:
        """A freshly started server; the caller stops it."""
        kind = ALL_SERVERS[name]
        server = kind(self.site, workers or self.workers, tuple(ways), tuple(protocols))
        missing = kind.available() or server.missing_binary()
        if missing:
            raise NotMeasured(missing)
        server.meter = self._meter(f"{name}-{server.port}")
        server.start()
        self.versions[name] = server.version
        self.skipped.update({f"{name} {way}": reason for way, reason in server.missing().items() if way in ways})
        wanted = {protocol.key for protocol in protocols}
        missing_protocols = {key: reason for key, reason in server.missing_protocols().items() if key in wanted}
        self.skipped.update({f"{name} {key}": reason for key, reason in missing_protocols.items()})
        return server

    def _meter(self, name: str) -> Optional[Meter]:
        if not self.is_metered or self.no_meter:
            return None
        try:
            return Meter(name)
        except NoMeter as reason:
            self.no_meter = str(reason)
            return None

    def _start_send_limit(self) -> None:
        command = [str(self.site.build / "send_limit")]
        self._send_limit = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self._send_limit.stdout
        word, _, port = self._send_limit.stdout.readline().decode().partition(" ")
        if word == "listening":
            self._send_port = int(port)
        else:
            self.skipped["limit send"] = "send_limit did not start"

    # ---- what there is ----

    def lacks(self, column: Column, row: Row) -> Optional[str]:
        """The reason why a cell cannot be measured; None if it can."""
        way = self.way(column, row)
        name = f"{column.server} {way}"
        keys = (column.server, name, f"{column.server} {row.protocol.key}", f"{name} {row.kind}")
        reasons = (self.skipped.get(key) for key in keys)
        reason = next((reason for reason in reasons if reason), None)
        if reason or column.is_limit:
            return reason
        server = self._running.get((column.server, row.workers or self.workers))
        return None if server and way in server.routes() else f"{name} is not there"

    def way(self, column: Column, row: Row) -> str:
        """The way of running of a cell: the first of the row that the server has, or the column's."""
        if not row.ways:
            return column.way
        server = self._running.get((column.server, row.workers or self.workers))
        ways = self.ways(server) if server else {}
        return next((way for way in row.ways if way in ways), row.ways[0])

    def server(self, name: str, workers: Optional[int]) -> Server:
        return self._running[name, workers or self.workers]

    def ways(self, server: Server) -> dict[str, str]:
        """The routes of a server that passed verification."""
        return {way: prefix for way, prefix in server.routes().items() if f"{server.name} {way}" not in self.skipped}

    def address(self, column: Column, path: str, row: Row) -> str:
        if column.way == "send":
            return f"http://127.0.0.1:{self._send_port}/{path}"
        server = self.server(column.server, row.workers)
        return server.address(server.routes()[self.way(column, row)] + path, row.protocol)

    def shorten_logs(self) -> None:
        """Truncates the access logs, which would otherwise fill the disk and disturb the measurements by writeback."""
        for server in self._running.values():
            server.empty_access_log()

    # ---- the end ----

    def stop_servers(self) -> None:
        """Stops every server, even if stopping an earlier one fails."""
        complaints = []
        while self._running:
            try:
                self._running.popitem()[1].stop()
            except (ServerFailed, OSError) as complaint:
                complaints.append(str(complaint))
        if complaints:
            raise ServerFailed("; ".join(complaints))

    def stop_all(self) -> None:
        try:
            self.stop_servers()
        finally:
            if self._send_limit:
                self._send_limit.kill()
                self._send_limit.communicate()
                self._send_limit = None
