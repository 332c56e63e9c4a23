"""The targets: the wanted ratio for each cell, and whether it was reached.

Here: the targets as data, and the verdict. Not here: how the ratio is computed (figures.py). A target applies to every row
that it names. Of SPEED_AIMS, the present ones, each row is shown with its verdict; of AIMS, the earlier ones, the worst row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Optional

from .engines import COLUMNS, IN_PROCESS, INTERFACES, fork_rows, rows
from .figures import Spread, ratio, spread_of
from .plan import LARGE_FILES, SERVER_COLUMNS, TABLES
from .results import Results, failure_of
from .tables import Table


#: The words of a verdict.
MET, MISSED, FAILED, NOT_MEASURED = "met", "missed", "failed", "not measured"
#: Met in each row that was measured, but others were not part of the run.
MET_SO_FAR = "met where measured"


@dataclass(frozen=True)
class Aim:
    text: str
    table: str
    rows: tuple[str, ...]
    sluice: str
    #: "": the figure itself is compared with the bound.
    peer: str
    bound: float
    at_most: bool = False
    #: Further peers: the best of all of them counts, in each row.
    or_peers: tuple[str, ...] = ()
    unit: str = ""

    def is_met(self, figure: float) -> bool:
        return figure <= self.bound if self.at_most else figure >= self.bound

    def reach(self, figure: float) -> float:
        """1 if the target is just met, more if it is exceeded."""
        if not self.at_most:
            return figure / self.bound
        return self.bound / figure if figure > 0 else float("inf")

    @property
    def wanted(self) -> str:
        return f"{'≤' if self.at_most else '≥'} {self.bound:g}{' ' if self.unit else ''}{self.unit}"


@dataclass(frozen=True)
class Verdict:
    aim: Aim
    #: Row → ratio, for the measured rows.
    ratios: dict[str, Spread]
    #: Row → the reason why it has no ratio; "" if it was not part of the run.
    without: dict[str, str]
    #: Row → the best peer, if there are several.
    best: dict[str, str] = field(default_factory=dict)

    @property
    def met(self) -> list[str]:
        return [row for row, figure in self.ratios.items() if self.aim.is_met(figure.median)]

    @property
    def missed(self) -> list[str]:
        return [row for row in self.ratios if row not in self.met]

    @property
    def worst(self) -> Optional[str]:
        pick = max if self.aim.at_most else min
        return pick(self.ratios, key=lambda row: self.ratios[row].median) if self.ratios else None

    @property
    def word(self) -> str:
        if self.missed:
            return MISSED
        if any(self.without.values()):
            return FAILED
        if not self.ratios:
            return NOT_MEASURED
        return MET_SO_FAR if self.without else MET

    def word_of(self, row: str) -> str:
        if row in self.ratios:
            return MET if self.aim.is_met(self.ratios[row].median) else MISSED
        return FAILED if self.without.get(row) else NOT_MEASURED


PEER_FILES = tuple(column.key for column in SERVER_COLUMNS if column.against)
PEER_NAMES = {column.key: column.label for column in SERVER_COLUMNS}

PROTOCOL_TABLES = {
    "files-tls": "files over TLS",
    "files-h2": "files over HTTP/2",
    "transfer-tls": "transfer over TLS",
}


def script_aims() -> Iterator[Aim]:
    row = ("1000-64k",)
    yield Aim("memory buffer / Apache module, record by record", "bandwidth", row, "sluice-buffer", "apache-records", 1.3)
    yield Aim("memory buffer / Apache module, best blocks", "bandwidth", row, "sluice-buffer", "apache-module", 1.3)
    yield Aim("memory buffer / bare limit", "bandwidth", ("1000-64k",), "sluice-buffer", "limit", 0.9)
    yield Aim("mailbox / Apache CGI", "bandwidth", ("1000-64k",), "sluice-mailbox", "apache-cgi", 2.0)
    yield Aim("mailbox / lighttpd CGI", "bandwidth", ("1000-64k",), "sluice-mailbox", "lighttpd-cgi", 1.3)
    rows = ("0k-c1", "0k-c10")
    for peer, name in (
        ("apache-cgi", "Apache CGI"),
        ("lighttpd-cgi", "lighttpd CGI"),
        ("nginx-fcgiwrap", "nginx+fcgiwrap"),
    ):
        yield Aim(f"CGI 0 kB at 1, 10 / {name}", "scripts", rows, "sluice-cgi", peer, 1.3)
    yield Aim("CGI 0 kB at 1, 10 / bare limit", "scripts", rows, "sluice-cgi", "limit", 0.85)
    for row, size, module, fastcgi in (("0k-c10", "0 kB", 2.0, 3.0), ("64k-c10", "64 kB", 1.8, 4.0)):
        yield Aim(f"CGIplus {size} at 10 / Apache module", "scripts", (row,), "sluice-cgiplus", "apache-module", module)
        yield Aim(
            f"CGIplus {size} at 10 / nginx→FastCGI", "scripts", (row,), "sluice-cgiplus", "nginx-fastcgi", fastcgi
        )
    yield Aim(
        "CGIplus 0, 64 kB at 1 / Apache module", "scripts", ("0k-c1", "64k-c1"), "sluice-cgiplus", "apache-module", 0.9
    )


def file_aims() -> Iterator[Aim]:
    rows = tuple(f"{size}-c{c}-{kind}" for kind in ("kept", "close") for size in ("0k", "64k") for c in (10, 64))
    for peer in PEER_FILES:
        yield Aim(f"files 0 k, 64 k at 10, 64 / {PEER_NAMES[peer]}", "files", rows, "sluice", peer, 1.15)
    rows = tuple(f"{name.rsplit('.', 1)[0]}-c{c}" for name in LARGE_FILES for c in (1, 10))
    for peer in PEER_FILES:
        yield Aim(f"transfer, all sizes / {PEER_NAMES[peer]}", "transfer", rows, "sluice", peer, 1.1)
    rows = tuple(f"0k-c{c}-kept" for c in (1, 10, 64))
    yield Aim("files 0 k / Sluice, no cache", "files", rows, "sluice", "sluice-uncached", 2.0)
    text = "system calls, a file of 64k / nginx"
    yield Aim(text, "cost", ("calls-large",), "sluice", "nginx", 1.0, at_most=True)
    yield Aim("memory of an idle connection / nginx", "cost", ("idle",), "sluice", "nginx", 1.5, at_most=True)


def protocol_aims() -> Iterator[Aim]:
    """The targets for every row of the tables over TLS and HTTP/2."""
    for table in (table for table in TABLES if table.key in PROTOCOL_TABLES):
        rows = tuple(row.key for row in table.rows)
        for peer, bound in (("apache", 1.3), ("nginx", 1.3), ("h2o", 1.0)):
            text = f"{PROTOCOL_TABLES[table.key]}, all rows / {PEER_NAMES[peer]}"
            yield Aim(text, table.key, rows, "sluice", peer, bound)


def engine_aims() -> Iterator[Aim]:
    for language, name, bound in (("python", "Python", 50), ("perl", "Perl", 40), ("php", "PHP", 100)):
        table, head, every = f"engines-{language}", ("0k-c10",), tuple(row.key for row in rows(language, ""))
        yield Aim(f"{name}: RTE / CGI, 0 kB at 10", table, head, "rte", "cgi", bound)
        for inside, what, least in ((False, "process of its own", 1.3), (True, "in-process", 0.9)):
            for ours in dict.fromkeys(INTERFACES[language]):
                peers = [c.key for c in COLUMNS[language] if c.server != "sluice" and c.against == ours]
                peers = [key for key in peers if (key in IN_PROCESS) == inside]
                for where, keys in (("0 kB at 10", head), ("all rows", every)) if peers else ():
                    label = "" if ours == "rte" else f" {ours.upper()}"
                    text = f"{name}{label}: RTE / best {what}, {where}"
                    yield Aim(text, table, keys, ours, peers[0], least, or_peers=tuple(peers[1:]))
    for language, name in (("python", "Python"), ("perl", "Perl"), ("php", "PHP")):
        keys = tuple(row.key for row in fork_rows())
        yield Aim(f"{name}: fork mode / CGI, heavy imports", "engines-fork", keys, f"{language}-fork", f"{language}-cgi", 5)
    for language, name in (("python", "Python"), ("perl", "Perl"), ("php", "PHP")):
        ours, mailbox = f"{language}-buffer", f"{language}-mailbox"
        yield Aim(f"{name}: memory buffer / mailbox, 1 GiB", "engines-buffer", ("1024-64k",), ours, mailbox, 2)


def speed_aims() -> Iterator[Aim]:
    """Script I/O that is faster than a module inside Apache, and files that cost little more than their library."""
    yield Aim(
        "server's own code of a CGIplus request, 0 kB", "processor", ("kept-0k-code",), "sluice", "", 8.0, at_most=True, unit="µs"
    )
    for rows, kilobytes, peer, name, bound in (
        (("0k-c10",), 0, "apache-module", "Apache module", 1.5), (("0k-c10",), 0, "nginx-fastcgi", "nginx→FastCGI", 1.5),
        (("0k-c1",), 0, "apache-module", "Apache module", 1.05), (("0k-c1",), 0, "nginx-fastcgi", "nginx→FastCGI", 1.0),
        (("64k-c10", "64k-c64"), 64, "apache-module", "Apache module", 1.05),
    ):  # fmt: skip
        yield Aim(f"CGIplus {kilobytes} kB / {name}", "scripts", rows, "sluice-cgiplus", peer, bound)
    for peer, name, bound in (("lighttpd-cgi", "lighttpd CGI", 1.4), ("limit", "bare limit", 0.8)):
        yield Aim(f"CGI 0 kB / {name}", "scripts", ("0k-c10",), "sluice-cgi", peer, bound)
    row = ("1000-64k",)
    yield Aim("mailbox / Apache module, equal records", "bandwidth", row, "sluice-mailbox", "apache-records", 1.0)
    yield Aim("memory buffer / Apache module, best blocks", "bandwidth", row, "sluice-buffer", "apache-module", 1.3)
    yield Aim("memory buffer / bare limit", "bandwidth", row, "sluice-buffer", "limit", 1.0)
    yield Aim("memory buffer over TLS / Apache module", "bandwidth-tls", row, "sluice-buffer", "apache-module", 1.5)
    first, *others = PEER_FILES
    rows = ("0k-c10-kept", "0k-c64-kept")
    yield Aim("files 0 kB / best peer", "files", rows, "sluice", first, 1.0, or_peers=tuple(others))
    rows = tuple(row.key for row in table_of("files").rows if not row.keep_alive)
    yield Aim("files without keep-alive / nginx", "files", rows, "sluice", "nginx", 1.0)
    for peer, name, bound in (("nginx", "nginx", 0.85), ("hyper", "hyper alone", 1.13)):
        yield Aim(f"processor time of a cached file / {name}", "processor", ("file-0k",), "sluice", peer, bound, at_most=True)
    rows = tuple(row.key for row in table_of("transfer").rows)
    yield Aim("transfer / best peer", "transfer", rows, "sluice", first, 1.0, or_peers=tuple(others))
    rows = tuple(row.key for row in table_of("files-tls").rows if row.keep_alive and row.key[:2] != "16")
    yield Aim("files over TLS / h2o", "files-tls", rows, "sluice", "h2o", 1.0)
    rows = ("0k-c10-m32", "64k-c10-m32")
    yield Aim("HTTP/2, 32 requests in flight / hyper alone", "files-h2", rows, "sluice", "hyper", 0.9)


def table_of(key: str) -> Table:
    return next(table for table in TABLES if table.key == key)


SPEED_AIMS: tuple[Aim, ...] = tuple(speed_aims())
AIMS: tuple[Aim, ...] = (*script_aims(), *file_aims(), *protocol_aims(), *engine_aims())


def judge(results: Results, wanted: tuple[Aim, ...] = AIMS) -> list[Verdict]:
    """Returns a verdict for each target whose table was part of the run."""
    return [verdict_on(aim, results) for aim in wanted if results.has_table(aim.table)]


def verdict_on(aim: Aim, results: Results) -> Verdict:
    ratios, without, best = {}, {}, {}
    for row in aim.rows:
        ours = results.cell(aim.table, row, aim.sluice)
        peers = {key: results.cell(aim.table, row, key) for key in (aim.peer, *aim.or_peers) if key}
        figures = {key: ratio(ours, cell) for key, cell in peers.items()} if peers else {"": spread_of(ours)}
        found = {key: figure for key, figure in figures.items() if figure}
        if found:
            pick = max if aim.at_most else min
            key = pick(found, key=lambda key: found[key].median)
            ratios[row] = found[key]
            if aim.or_peers:
                best[row] = key
        else:
            without[row] = next((text for text in map(failure_of, (ours, *peers.values())) if text), "")
    return Verdict(aim, ratios, without, best)
