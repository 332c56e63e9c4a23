"""The workloads: the tables, as data, and the time that they take.

Here: tables, rows, columns; the address of each cell; the time estimate. Not here: how a cell is measured (load.py,
cost.py), the order (run.py), the target ratios (aims.py).

A new peer is a column in the tables that it supports; a new dimension, such as the protocol, is a field of Row, one more
loop where rows are created, and its option in load.py."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Optional

from .engines import ENGINE_TABLES, QUICK_ROUNDS, QUICK_ROWS, SECONDS_MOST, SLOW_PAGE_RATE, UPLOAD_RATE
from .servers.base import LINES_FILE
from .servers.hyper import SIZES as HYPER_SIZES
from .servers.protocols import H1, H1_TLS, H2_CLEAR, H2_TLS, TLS_CIPHER, TLS_GROUP, Protocol
from .tables import KEPT_WAYS, KIB, MIB, Column, Row, Table

#: Files under the root, by name: bytes. The sizes of the large files are those of the original tables.
SMALL_FILES = {"0k.txt": 0, "16k.txt": 16 * KIB, "64k.txt": 64 * KIB}
LARGE_FILES = {"2MB.bin": 2_110_976, "5.69MB.bin": 5_976_576, "7MB.bin": 7_604_224, "100MB.bin": 100_000_000}

#: Bytes of the text file that also exists as VMS records (servers/base.py has its name).
LINES_BYTES = 5_976_576

CONCURRENCIES = (1, 10, 64)

#: The group of the tables that WASD has published, beside those above.
WASD = "wasd"

#: Clients that connect for the first time, all at once: fewer than the smallest accept backlog of the servers, 511.
NEW_CLIENTS = 400

#: HTTP/2: clients, and concurrent requests of each. The first three are as over HTTP/1.1; the last is the main use of HTTP/2.
STREAMS = ((1, 1), (10, 1), (64, 1), (10, 32))

#: Duration of a measurement in addition to its window: starting and stopping the tool, seconds.
TOOL_SECONDS = 0.03
#: Until the processes of an application are idle after a measurement, seconds.
SETTLE_SECONDS = 0.06
#: Reading the clocks of the processes twice, and until they are idle, seconds.
READING_SECONDS = 0.15
#: Starting and checking the servers, ratings of the processor, charts; seconds.
BEFORE_AND_AFTER_SECONDS = 30.0
#: All costs of one server: start, connections until they are stable, strace.
COST_SECONDS = 15.0


# ---- the columns ----

BANDWIDTH_COLUMNS = (
    Column("sluice-buffer", "Sluice memory buffer", "sluice", "cgi", channel="b", beside=("sluice-mailbox",)),
    Column("apache-module", "Apache module", "apache", "module", "sluice-buffer", channel="b"),
    Column("limit", "bare limit", "limit", "send", "sluice-buffer"),
    Column("sluice-mailbox", "Sluice mailbox", "sluice", "cgi"),
    Column("apache-cgi", "Apache CGI", "apache", "cgi", "sluice-mailbox"),
    Column("lighttpd-cgi", "lighttpd CGI", "lighttpd", "cgi", "sluice-mailbox"),
    Column("apache-records", "Apache module, records", "apache", "module", "sluice-mailbox"),
)

TLS_BANDWIDTH_COLUMNS = tuple(c for c in BANDWIDTH_COLUMNS if c.key not in ("limit", "apache-records"))

SCRIPT_COLUMNS = (
    Column("sluice-cgi", "Sluice CGI", "sluice", "cgi"),
    Column("apache-cgi", "Apache CGI", "apache", "cgi", "sluice-cgi"),
    Column("lighttpd-cgi", "lighttpd CGI", "lighttpd", "cgi", "sluice-cgi"),
    Column("nginx-fcgiwrap", "nginx+fcgiwrap", "nginx", "cgi", "sluice-cgi"),
    Column("limit", "bare limit", "limit", "spawn", "sluice-cgi"),
    Column("sluice-cgiplus", "Sluice CGIplus", "sluice", "cgiplus", beside=("sluice-cgi",)),
    Column("apache-module", "Apache module", "apache", "module", "sluice-cgiplus"),
    Column("nginx-fastcgi", "nginx→FastCGI", "nginx", "fastcgi", "sluice-cgiplus"),
    Column("lighttpd-fastcgi", "lighttpd→FastCGI", "lighttpd", "fastcgi", "sluice-cgiplus"),
    Column("caddy-fastcgi", "Caddy→FastCGI", "caddy", "fastcgi", "sluice-cgiplus"),
)

SERVER_COLUMNS = (
    Column("sluice", "Sluice", "sluice", "file"),
    Column("apache", "Apache", "apache", "file", "sluice"),
    Column("nginx", "nginx", "nginx", "file", "sluice"),
    Column("lighttpd", "lighttpd", "lighttpd", "file", "sluice"),
    Column("h2o", "h2o", "h2o", "file", "sluice"),
    Column("caddy", "Caddy", "caddy", "file", "sluice"),
)

#: The limit of Sluice's libraries, beside which its own code is seen.
HYPER_COLUMN = Column("hyper", "hyper alone", "hyper", "file", "sluice")
PROCESSOR_COLUMNS = H2_COLUMNS = (*SERVER_COLUMNS, HYPER_COLUMN)

FILE_COLUMNS = (*SERVER_COLUMNS, Column("sluice-uncached", "Sluice, no cache", "sluice-uncached", "file", "sluice"))

FORMAT_COLUMNS = (
    Column("stream", "stream-LF", "sluice", "file"),
    Column("stream-uncached", "stream-LF, no cache", "sluice-uncached", "file", "stream"),
    Column("variable", "variable records", "sluice", "variable", "stream"),
    Column("converted", "variable, converted in the cache", "sluice", "converted", "stream"),
)

#: Columns of the tables that WASD has published and other servers have no part in.
CACHE_COLUMNS = tuple(column for column in FILE_COLUMNS if column.server in ("sluice", "sluice-uncached"))

LOOKUP_COLUMNS = (
    Column("off", "lookup off", "sluice", "file"),
    Column("on", "lookup on", "sluice-lookup", "file", "off"),
)

RECORD_COLUMNS = (
    Column("stream", "stream-LF", "sluice", "file"),
    Column("variable", "VARIABLE", "sluice", "variable", "stream"),
    Column("vfc", "VFC", "sluice", "vfc", "stream"),
    Column("fixed", "FIXED", "sluice", "fixed", "stream"),
)

SCALE_COLUMNS = tuple(column for column in SERVER_COLUMNS if column.key in ("sluice", "nginx"))


# ---- the tables ----


def bandwidth_row(protocol: Protocol = H1) -> Row:
    return Row("1000-64k", "records of 64k", record="64k", protocol=protocol)


def record_rows() -> Iterable[Row]:
    for record in ("4k", "16k", "64k", "256k", "1M"):
        # Sluice limits records of the mailbox to 64 KiB (WWW_GATEWAY_MRS), and membufdemo observes the limit.
        without = ("sluice-mailbox",) if record in ("256k", "1M") else ()
        yield Row(record, f"records of {record}", record=record, without=without)


def ring_rows() -> Iterable[Row]:
    for ring in (1, 2, 4, 8, 16):
        yield Row(f"{ring}M", f"buffer of {ring} MiB", record="64k", ring=str(ring))


def script_rows() -> Iterable[Row]:
    for kilobytes in (0, 16, 64):
        for concurrency in CONCURRENCIES:
            without = ("limit",) if kilobytes else ()
            label = f"{kilobytes} kB, c {concurrency}"
            yield Row(f"{kilobytes}k-c{concurrency}", label, concurrency, bytes=kilobytes * KIB, without=without)


def file_rows() -> Iterable[Row]:
    for keep_alive in (True, False):
        for name, size in SMALL_FILES.items():
            for concurrency in CONCURRENCIES:
                stem = name.split(".", maxsplit=1)[0]
                key = f"{stem}-c{concurrency}-{'kept' if keep_alive else 'close'}"
                label = f"{stem}, c {concurrency}{'' if keep_alive else ', no keep-alive'}"
                # The effect of the cache is visible only with keep-alive, without the cost of connecting.
                without = () if keep_alive else ("sluice-uncached",)
                yield Row(key, label, concurrency, keep_alive, file=name, bytes=size, without=without)


def tls_file_rows() -> Iterable[Row]:
    for name, size in SMALL_FILES.items():
        for concurrency in CONCURRENCIES:
            stem = name.split(".", maxsplit=1)[0]
            label = f"{stem}, c {concurrency}"
            yield Row(f"{stem}-c{concurrency}", label, concurrency, file=name, bytes=size, protocol=H1_TLS)
    close = Row("0k-c10-close", "0k, c 10, no keep-alive", 10, keep_alive=False, file="0k.txt", protocol=H1_TLS)
    yield close
    label = f"0k, {NEW_CLIENTS} new clients"
    yield replace(close, key="0k-new", label=label, concurrency=NEW_CLIENTS, requests=NEW_CLIENTS)


def h2_file_rows() -> Iterable[Row]:
    for name, size in SMALL_FILES.items():
        for concurrency, streams in STREAMS:
            yield h2_file_row(name, size, concurrency, streams, H2_TLS)
    for name in ("0k.txt", "64k.txt"):
        for concurrency, streams in ((10, 1), (10, 32)):
            yield h2_file_row(name, SMALL_FILES[name], concurrency, streams, H2_CLEAR)


def h2_file_row(name: str, size: int, concurrency: int, streams: int, protocol: Protocol) -> Row:
    stem = name.split(".", maxsplit=1)[0]
    key = f"{stem}-c{concurrency}-m{streams}{'' if protocol.tls else '-clear'}"
    label = f"{stem}, c {concurrency}, m {streams}{'' if protocol.tls else ', cleartext'}"
    # It is of interest where the socket costs little; and it has no file of 16 kB.
    without = () if streams > 1 and name in HYPER_SIZES else (HYPER_COLUMN.key,)
    return Row(key, label, concurrency, file=name, bytes=size, protocol=protocol, streams=streams, without=without)


def transfer_rows() -> Iterable[Row]:
    for name in LARGE_FILES:
        for concurrency in (1, 10):
            without = ("sluice-uncached",) if name == "100MB.bin" else ()  # it is too large for the cache
            yield replace(transfer_row(name, concurrency), without=without)


def tls_transfer_rows() -> Iterable[Row]:
    for protocol, suffix in ((H1_TLS, "HTTP/1.1"), (H2_TLS, "HTTP/2")):
        for name in ("2MB.bin", "5.69MB.bin", "100MB.bin"):
            for concurrency in (1, 10):
                row = transfer_row(name, concurrency)
                key = f"{row.key}-{protocol.key.split('-', maxsplit=1)[0]}"
                yield replace(row, key=key, label=f"{row.label}, {suffix}", protocol=protocol)


def transfer_row(name: str, concurrency: int) -> Row:
    stem = name.rsplit(".", 1)[0]
    label = f"{stem.replace('MB', ' MB')}, c {concurrency}"
    size = LARGE_FILES[name]
    # Several requests for each client; otherwise the first ones dominate, which run while other clients still connect.
    seconds = 0.8 if (name, concurrency) == ("100MB.bin", 10) else 0.0
    return Row(f"{stem}-c{concurrency}", label, concurrency, file=name, bytes=size, seconds=seconds)


def format_rows() -> Iterable[Row]:
    for concurrency in (1, 10):
        yield Row(f"lines-c{concurrency}", f"6 MB of lines, c {concurrency}", concurrency, file=LINES_FILE, bytes=LINES_BYTES)


def cache_rows() -> Iterable[Row]:
    for row in file_rows():
        if not row.keep_alive:
            yield replace(row, without=())


def closing_script_rows() -> Iterable[Row]:
    for kilobytes in (0, 16):
        for concurrency in (1, 10):
            label = f"{kilobytes} kB, c {concurrency}, no keep-alive"
            yield Row(f"{kilobytes}k-c{concurrency}-close", label, concurrency, keep_alive=False, bytes=kilobytes * KIB)


def lookup_rows() -> Iterable[Row]:
    for concurrency in (1, 10):
        label = f"file of 0k, c {concurrency}, no keep-alive"
        yield Row(f"0k-c{concurrency}", label, concurrency, keep_alive=False, file="0k.txt")
    for concurrency in (1, 10):
        label = f"CGIplus, 0 kB, c {concurrency}, no keep-alive"
        yield Row(f"kept-c{concurrency}", label, concurrency, keep_alive=False, ways=("cgiplus",))


def scale_rows() -> Iterable[Row]:
    for name in ("0k.txt", "16k.txt"):
        for workers in (1, 2, 4):
            for connections in (10, 100, 1000):
                stem = name.split(".", maxsplit=1)[0]
                label = f"{stem}, {workers} worker{'s' if workers > 1 else ''}, c {connections:,}"
                yield Row(
                    f"{stem}-w{workers}-c{connections}",
                    label,
                    connections,
                    file=name,
                    bytes=SMALL_FILES[name],
                    workers=workers,
                )


def cost_rows() -> Iterable[Row]:
    yield Row("rest", "memory at rest", unit="MiB")
    yield Row("idle", "memory of an idle connection", unit="KiB")
    yield Row("script", "memory of an idle persistent script process", unit="KiB")
    files = (("file", "a file of 16k"), ("large", "a file of 64k"))
    for key, label in (*files, ("cgi", "CGI, 0 kB"), ("kept", "a persistent program, 0 kB")):
        yield Row(f"calls-{key}", f"system calls, {label}", unit="per request")


#: Clients of the table of processor time: enough to keep the processors busy.
PROCESSOR_CLIENTS = 10

#: Name of a part (processor.py) → its label.
PARTS = {"server": "server", "code": "server, user mode", "scripts": "scripts"}


def processor_rows() -> Iterable[Row]:
    for name in ("0k.txt", "64k.txt"):
        yield from with_parts(processor_file_row(name), "code" if name == "0k.txt" else "")
    yield replace(processor_file_row("0k.txt", suffix="-close", words=", no keep-alive"), keep_alive=False)
    for name in ("0k.txt", "64k.txt"):
        yield processor_file_row(name, H1_TLS, "-tls", ", TLS")
    for name, streams in (("0k.txt", 1), ("0k.txt", 32), ("64k.txt", 1)):
        row = processor_file_row(name, H2_TLS, f"-h2-m{streams}", f", HTTP/2, m {streams}")
        yield replace(row, streams=streams)
    for key, what, ways, without in (
        ("cgi", "CGI", ("cgi",), ("h2o", "caddy", "hyper")),
        ("kept", "persistent program", KEPT_WAYS, ("h2o", "hyper")),
    ):
        for kilobytes in (0, 64):
            row = Row(
                f"{key}-{kilobytes}k", f"{what}, {kilobytes} kB", PROCESSOR_CLIENTS, bytes=kilobytes * KIB, ways=ways, without=without
            )
            yield from with_parts(row, "server", *(["code"] if key == "kept" else []), "scripts")
    for key, what, ways, channel, without in (
        ("mailbox", "CGI, mailbox", ("cgi",), "m", ("h2o", "caddy", "hyper")),
        ("records", "persistent program, records", ("cgiplus", "module"), "m", ("nginx", "lighttpd", "h2o", "caddy", "hyper")),
        ("buffer", "memory buffer, or best blocks", ("module", "cgi"), "b", ("nginx", "lighttpd", "h2o", "caddy", "hyper")),
    ):
        row = Row(key, what, record="64k", channel=channel, ways=ways, without=without, unit="µs per MiB")
        yield from with_parts(row, "server", "scripts")


def processor_file_row(name: str, protocol: Protocol = H1, suffix: str = "", words: str = "") -> Row:
    stem = name.split(".", maxsplit=1)[0]
    return Row(
        f"file-{stem}{suffix}", f"file of {stem}{words}", PROCESSOR_CLIENTS, file=name, bytes=SMALL_FILES[name], protocol=protocol
    )


def with_parts(row: Row, *parts: str) -> Iterable[Row]:
    yield row
    for part in filter(None, parts):
        yield replace(row, key=f"{row.key}-{part}", label=f"{row.label}: {PARTS[part]}", part=part, of=row.key)


#: The text above every table over TLS; load.py verifies it.
ALL_OVER_TLS = f"""\
TLS 1.3 with {TLS_CIPHER}, {TLS_GROUP} and the same certificate (P-256) for all servers, over HTTP/1.1 or
HTTP/2 as stated: a cell with any other protocol, version or cipher counts as failed."""

TABLES: tuple[Table, ...] = (
    Table(
        "bandwidth", "Script bandwidth",
        "One transfer of 1000 MiB of generated data by curl, more if that takes less than half a second.\n"
        "`membufdemo` as CGI; the same generator as an Apache module, in the most efficient block size and record by\n"
        "record; and a program that only fills a block and sends it (bare limit).",
        "bulk", "MiB/s", (bandwidth_row(),), BANDWIDTH_COLUMNS, rounds=7, seconds=0.5, megabytes=1000,
    ),
    Table(
        "bandwidth-tls", "Script bandwidth over TLS",
        f"The same over HTTP/1.1 with TLS. The client decrypts with one core, which limits all servers.\n{ALL_OVER_TLS}",
        "bulk", "MiB/s", (bandwidth_row(H1_TLS),), TLS_BANDWIDTH_COLUMNS,
        rounds=5, seconds=0.5, megabytes=1000,
    ),
    Table(
        "records", "Script bandwidth by record size",
        "The same for other sizes of a record, that is, of one write. The mailbox of Sluice accepts records of up to\n"
        "64 KiB by default. For the memory buffer, the Apache module with its own block size, and the bare limit, the\n"
        "size changes only the content.",
        "bulk", "MiB/s", tuple(record_rows()), BANDWIDTH_COLUMNS, rounds=3, seconds=0.3, megabytes=500,
    ),
    Table(
        "rings", "Script bandwidth by size of the memory buffer", "Other sizes of the memory buffer, records of 64k.",
        "bulk", "MiB/s", tuple(ring_rows()), tuple(c for c in BANDWIDTH_COLUMNS if c.key in ("sluice-buffer", "limit")),
        rounds=3, seconds=0.3, megabytes=500,
    ),
    Table(
        "scripts", "Scripts",
        "`cgiplustest` with a reply of 0, 16 and 64 kB, c concurrent clients, keep-alive. First a process for each\n"
        "request, then a persistent program. The bare limit only starts the program and waits for its exit.",
        "requests", "requests/s", tuple(script_rows()), SCRIPT_COLUMNS, rounds=5, seconds=0.35,
    ),
    Table(
        "files", "Files",
        "Small files, HTTP/1.1 in cleartext, c concurrent clients. Sluice with its file cache, which is the default, and without.",
        "requests", "requests/s", tuple(file_rows()), FILE_COLUMNS, rounds=5, seconds=0.3,
    ),
    Table(
        "files-tls", "Files over TLS",
        "Small files, HTTP/1.1 over TLS, c concurrent clients. Without keep-alive each connection resumes the session of the\n"
        f"previous one (with a ticket), like a returning browser; the {NEW_CLIENTS} new clients connect all at once, without a\n"
        f"session, and send one request each.\n{ALL_OVER_TLS}",
        "requests", "requests/s", tuple(tls_file_rows()), SERVER_COLUMNS, rounds=5, seconds=0.3,
    ),
    Table(
        "files-h2", "Files over HTTP/2",
        "Small files, HTTP/2 over TLS and, where stated, in cleartext with prior knowledge; c concurrent clients, each with m\n"
        "concurrent requests. With several of them also the limit of Sluice's libraries, which answers without files, routes or log\n"
        f"(hyper alone).\n{ALL_OVER_TLS}",
        "requests", "requests/s", tuple(h2_file_rows()), H2_COLUMNS, rounds=5, seconds=0.3,
    ),
    Table(
        "transfer", "Transfer", "Large files, c concurrent clients.",
        "bytes", "MiB/s", tuple(transfer_rows()), FILE_COLUMNS, rounds=5, seconds=0.35,
    ),
    Table(
        "transfer-tls", "Transfer over TLS",
        f"Large files over TLS, HTTP/1.1 and HTTP/2, c concurrent clients, each with one request at a time.\n{ALL_OVER_TLS}",
        "bytes", "MiB/s", tuple(tls_transfer_rows()), SERVER_COLUMNS, rounds=5, seconds=0.35,
    ),
    Table(
        "formats", "Record formats",
        "A text file as stream-LF, and as VMS records of variable length that are converted to lines, for each request or\n"
        "once for the cache. All by Sluice: the ratios show how much faster stream-LF is.",
        "bytes", "MiB/s", tuple(format_rows()), FORMAT_COLUMNS, rounds=5, seconds=0.4,
    ),
    Table(
        "processor", "Processor time",
        f"Less is better: below 1, Sluice takes less. Microseconds of processor time per request, of the server with its helpers and\n"
        f"scripts, without the load tool; {PROCESSOR_CLIENTS} clients. Steadier than rates, because the load tool takes no part of it. \"server\" is\n"
        "the part of the server's own processes, \"user mode\" their part without the kernel (counted in steps of 10 ms), \"scripts\" the\n"
        "rest: programs, and what starts them. CGI is a process for each request (nginx: by fcgiwrap); a persistent program is CGIplus\n"
        "(Sluice), a module (Apache), FastCGI (lighttpd, nginx, Caddy). `membufdemo` in records of 64k, by one client: to the mailbox of\n"
        "CGI, record by record (CGIplus; the module), and to the memory buffer, beside the module's best blocks. \"hyper alone\" is the limit\n"
        f"of Sluice's libraries: it answers without files, routes or log. TLS 1.3 with {TLS_CIPHER}.",
        "processor", "µs per request", tuple(processor_rows()), PROCESSOR_COLUMNS, rounds=5, seconds=0.5, less_is_better=True,
        megabytes=500,
    ),
    Table(
        "cost", "Cost of a server, a connection, a request",
        "Less is better. Memory is the PSS of the server's own processes; for idle connections, the increase by 4,000\n"
        "connections that have had one reply each, in addition to 250 earlier ones, when it is stable; for a script process, its\n"
        "private memory. System calls are those of server, helpers and scripts. A persistent program is CGIplus (Sluice), a module\n"
        "(Apache), FastCGI (lighttpd, nginx, Caddy).",
        "cost", "", tuple(cost_rows()), SERVER_COLUMNS, rounds=3, seconds=0.7, less_is_better=True,
    ),
    Table(
        "scale", "Scale", "Files, keep-alive, with 1, 2 and 4 workers and up to 1,000 connections.",
        "requests", "requests/s", tuple(scale_rows()), SCALE_COLUMNS, rounds=3, seconds=0.4,
    ),
    Table(
        "cache", "File cache, a connection for each request",
        "Small files, HTTP/1.1 in cleartext, c concurrent clients without keep-alive: Sluice with its file cache and without, as WASD's\n"
        "table of 1998.",
        "requests", "requests/s", tuple(cache_rows()), CACHE_COLUMNS, rounds=5, seconds=0.3, group=WASD,
    ),
    Table(
        "scripts-close", "Scripts, a connection for each request",
        "`cgiplustest` without keep-alive, as WASD's table of 1998. First a process for each request, then a persistent program.",
        "requests", "requests/s", tuple(closing_script_rows()), tuple(c for c in SCRIPT_COLUMNS if not c.is_limit), rounds=5,
        seconds=0.35, group=WASD,
    ),
    Table(
        "lookup", "Names of clients",
        "Reverse DNS off and on (`dns_lookup`), without keep-alive. Only a script waits for a name, and the one of this machine is\n"
        "known (`/etc/hosts`) or cached after the first request.",
        "requests", "requests/s", tuple(lookup_rows()), LOOKUP_COLUMNS, rounds=5, seconds=0.3, group=WASD,
    ),
    Table(
        "record-formats", "VMS record formats",
        "The text file as stream-LF, and as VMS records that are sent as lines (VARIABLE, VFC) or unchanged (FIXED, 80 bytes). Those that\n"
        "are converted are converted for each request.",
        "bytes", "MiB/s", tuple(format_rows()), RECORD_COLUMNS, rounds=5, seconds=0.4, group=WASD,
    ),
    *ENGINE_TABLES,
)  # fmt: skip

#: The names for --tables: a table, or a group of tables.
TABLE_KEYS = (*(table.key for table in TABLES), *dict.fromkeys(table.group for table in TABLES if table.group))

#: The tables and rows of --quick.
QUICK = {
    "bandwidth": ("1000-64k",), "scripts": ("0k-c10",), "files": ("0k-c10-kept",),
    "files-tls": ("0k-c10",), "files-h2": ("0k-c10-m1",),
    "processor": ("file-0k", "file-0k-code", "kept-0k", "kept-0k-server", "kept-0k-code", "kept-0k-scripts"), **QUICK_ROWS,
}  # fmt: skip


#: Servers that are always measured, whichever peers are chosen.
ALWAYS = {"sluice", "sluice-uncached", "sluice-lookup", "hyper", "limit"}


# ---- choosing tables, and estimating their time ----


def choose(
    keys: Iterable[str] = (), quick: bool = False, rounds: Optional[int] = None, servers: Iterable[str] = ()
) -> list[Table]:
    """Chooses tables: without `keys` all without a group (or those of --quick); without `servers` all servers; Sluice and the
    limits always."""
    wanted, peers = set(keys), set(servers)
    chosen = []
    for table in TABLES:
        named = table.key in wanted or table.group in wanted
        if not (named or (not wanted and not table.group)) or (quick and table.key not in QUICK):
            continue
        rows = tuple(row for row in table.rows if not quick or row.key in QUICK[table.key])
        columns = tuple(c for c in table.columns if not peers or c.server in peers | ALWAYS)
        usual = min(table.rounds, QUICK_ROUNDS) if quick and table.group else table.rounds
        chosen.append(replace(table, rows=rows, columns=columns, rounds=rounds or usual))
    return chosen


def sample_seconds(table: Table, row: Row, column: Optional[Column] = None) -> float:
    """The approximate duration of one measurement."""
    if table.measure == "cost":
        return COST_SECONDS / len(table.rows)
    if table.measure == "applications":
        seconds, warm_up = window(table, row, assumed_rate(row, column))
        # And a request for each client before.
        rate = assumed_rate(row, column)
        first = 0.0 if column and column.rate else TOOL_SECONDS + (row.concurrency / rate if rate else 0.0)
        return first + seconds + warm_up + TOOL_SECONDS + SETTLE_SECONDS
    if table.measure == "processor":
        return 0.0 if row.of else table.seconds * (1.4 if row.record else 1.0) + TOOL_SECONDS + READING_SECONDS
    warm_up = row.warm_up_seconds if row.keep_alive and table.measure in ("requests", "bytes") else 0.0
    # A transfer takes at least `seconds`, on average much longer.
    return table.seconds_of(row) * (1.4 if table.measure == "bulk" else 1.0) + warm_up + TOOL_SECONDS


def assumed_rate(row: Row, column: Optional[Column]) -> float:
    """Requests per second of a slow cell; 0 if it is not slow."""
    if column and column.rate:
        return SLOW_PAGE_RATE if row.kind == "page" else column.rate
    return UPLOAD_RATE if row.kind == "upload" else 0.0


def window(table: Table, row: Row, rate: Optional[float]) -> tuple[float, float]:
    """Seconds of the measurement, and of its warm-up: longer for a slow column, so that each client has about two replies in the
    one and one in the other."""
    one_each = row.concurrency / rate if rate else 0.0
    return (
        min(max(table.seconds_of(row), 2 * one_each), SECONDS_MOST),
        min(max(row.warm_up_seconds, one_each), SECONDS_MOST / 2),
    )


def estimate_seconds(tables: Iterable[Table]) -> float:
    """The duration with all peers: the warm-up of each route, and all rounds."""
    total = BEFORE_AND_AFTER_SECONDS
    for table in tables:
        for row in table.rows:
            for column in table.columns_of(row):
                total += table.rounds * sample_seconds(table, row, column) + warm_up_cost(table, row, column)
    return total


def warm_up_cost(table: Table, row: Row, column: Column) -> float:
    """The warm-up of one route, seconds."""
    if row.of:
        return 0.0
    rate = assumed_rate(row, column)
    return WARM_UP_COST[table.measure] + (row.concurrency / rate if rate else 0.0)


WARM_UP_COST = {"requests": 0.2, "bytes": 0.2, "bulk": 0.3, "applications": 0.2, "processor": 0.3, "cost": 0.0}
