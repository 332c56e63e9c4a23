"""How long requests that nobody watches wait beside one that is watched: `make bench-watch`.

Here: a server with one worker, a client that asks for an empty file again and again, transfers of 150 MiB with each kind of watch and with none,
the distributions of the waits and their table. Not here: rates (run.py).

Client, server and transfers have real-time priorities where that is allowed (as root), so that other programs of the machine delay none of them.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, List, Optional

from .servers.base import ServerFailed, Site
from .servers.protocols import H1, H2_CLEAR, Protocol
from .servers.sluice import Sluice

REPOSITORY = Path(__file__).resolve().parents[2]
MEGABYTES = 150
LARGE, EMPTY, SINK = "large.bin", "0k.txt", "sink"
#: A script that reads a request's body.
SINK_PROGRAM = "#!/bin/sh\ncat > /dev/null\nprintf 'Content-Type: text/plain\\n\\ndone\\n'\n"
#: Real-time priorities: of the client that is measured, of the server, of the transfer and the watcher.
PROBE, SERVER, OTHERS = 60, 50, 40
#: The pause between two requests of the client, and the shortest time of a cell.
PAUSE_SECONDS, CELL_SECONDS = 0.001, 1.0
#: The pause between two transfers of a cell. Without it the kernel would keep a twentieth of each second for ordinary processes, 50 ms at once.
REST_SECONDS = 0.05
TRANSFER_SECONDS, REQUEST_SECONDS, READY_SECONDS = 60.0, 30.0, 10.0
ROUNDS = 5


@dataclass(frozen=True)
class Transfer:
    label: str
    path: str
    query: str = ""
    is_upload: bool = False


@dataclass(frozen=True)
class Watch:
    label: str
    #: Options of `sluice watch`; None: nobody watches.
    options: Optional[tuple[str, ...]]


TRANSFERS = (
    Transfer("file", f"/{LARGE}"),
    Transfer("script, mailbox", "/cgi-bin/membufdemo", f"?{MEGABYTES}+m"),
    Transfer("script, memory buffer", "/cgi-bin/membufdemo", f"?{MEGABYTES}+b"),
    Transfer("upload to a script", f"/cgi-bin/{SINK}", is_upload=True),
)
PROTOCOLS = (H1, H2_CLEAR)
NOBODY = Watch("none", None)
WATCHES = (
    Watch("`--items usual`", ("--items", "usual")),
    Watch("`--items octets`", ("--items", "octets")),
    Watch("`--items octets --octets-max 16M`", ("--items", "octets", "--octets-max", "16M")),
    Watch("`--items all`", ("--items", "all")),
    Watch("`--items all --octets-max 16M`", ("--items", "all", "--octets-max", "16M")),
    Watch("`--items all --status 5xx`", ("--items", "all", "--status", "5xx")),
    Watch("`--trigger bytes=…`", ("--items", "all", "--trigger", "bytes=text that is not there")),
)


@dataclass
class Cell:
    """Waits of the client in each round, and the times of the transfers, in milliseconds."""

    rounds: List[List[float]] = field(default_factory=list)
    transfers: List[float] = field(default_factory=list)


class WatchedSluice(Sluice):
    """With a control socket, for `sluice watch`."""

    ways = {"file": "/", "cgi": "/cgi-bin/"}

    @property
    def control(self) -> Path:
        return self.directory / "control.sock"

    def configuration(self) -> str:
        return super().configuration().replace("[server]\n", f'[server]\ncontrol = "{self.control}"\n', 1)

    def command(self) -> List[str]:
        return [*first(SERVER), *super().command()]


def first(priority: int) -> List[str]:
    """What runs a command with this real-time priority; nothing where that is not allowed."""
    return ["chrt", "-f", str(priority)] if may_go_first() else []


def may_go_first() -> bool:
    return os.geteuid() == 0 and shutil.which("chrt") is not None


@contextmanager
def site(repository: Path, sluice: Path) -> Iterator[Site]:
    """The content, removed at the end."""
    program = repository / "sdk" / "c" / "build" / "membufdemo"
    if not program.is_file():
        raise FileNotFoundError(f"{program} does not exist: `make sdk` builds it")
    scratch = Path(tempfile.mkdtemp(prefix="sluice-beside-watch-"))
    try:
        scratch.chmod(0o755)  # a server started by root runs as another user
        made = Site(scratch, scratch / "htdocs", scratch / "cgi-bin", repository / "bench" / "build", sluice)
        for directory in (made.htdocs, made.programs, made.records, made.vfc, made.fixed):
            directory.mkdir()
        (made.htdocs / EMPTY).write_bytes(b"")
        (made.htdocs / "64k.txt").write_bytes(b"x" * 65536)  # what Server.start() asks for
        (made.htdocs / LARGE).write_bytes(os.urandom(1 << 20) * MEGABYTES)
        shutil.copy2(program, made.programs / program.name)
        (made.programs / SINK).write_text(SINK_PROGRAM)
        (made.programs / SINK).chmod(0o755)
        yield made
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


# ---- one cell ----


class Client(threading.Thread):
    """Asks for the empty file over a connection that stays open, until `is_over`; `waits` has milliseconds."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.port, self.waits, self.failure = port, [], ""
        self.is_over = threading.Event()

    def run(self) -> None:
        if may_go_first():
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PROBE))  # of this thread
        try:
            with socket.create_connection(("127.0.0.1", self.port), REQUEST_SECONDS) as connection:
                while not self.is_over.is_set():
                    self.waits.append(self.wait_of_one(connection))
                    time.sleep(PAUSE_SECONDS)
        except OSError as error:
            self.failure = str(error)

    @staticmethod
    def wait_of_one(connection: socket.socket) -> float:
        begin = time.perf_counter()
        connection.sendall(f"GET /{EMPTY} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            more = connection.recv(65536)
            if not more:
                raise OSError("the server has closed the connection")
            head += more
        if not head.startswith(b"HTTP/1.1 200 "):
            raise OSError(f"the server has answered {head[:40]!r}")
        return 1000 * (time.perf_counter() - begin)


def transfer_command(server: WatchedSluice, transfer: Transfer, protocol: Protocol) -> List[str]:
    url = server.address(transfer.path + transfer.query, protocol)
    command = [*first(OTHERS), "curl", "-sS", "-f", "-o", "/dev/null"]
    command += ["--http2-prior-knowledge"] if protocol == H2_CLEAR else ["--http1.1"]
    if transfer.is_upload:
        command += ["-H", "Expect:", "-X", "POST", "-T", str(server.site.htdocs / LARGE)]
    return [*command, url]


@contextmanager
def watched(server: WatchedSluice, watch: Watch, path: str) -> Iterator[None]:
    """Somebody watches the requests with this path meanwhile."""
    if watch.options is None:
        yield
        return
    output = server.directory / "watch.txt"
    output.unlink(missing_ok=True)
    command = [str(server.site.sluice), "watch", "--server", str(server.control), "--path", path, "--output", str(output), *watch.options]
    watcher = subprocess.Popen([*first(OTHERS), *command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        end = time.monotonic() + READY_SECONDS
        while not (output.is_file() and output.stat().st_size):
            if watcher.poll() is not None or time.monotonic() > end:
                raise ServerFailed(f"sluice watch does not begin: {watcher.stderr.read().decode() if watcher.stderr else ''}")
            time.sleep(0.01)
        yield
        if watcher.poll() is not None:
            raise ServerFailed(f"{watch.label}: the watch has ended before its transfer")
    finally:
        watcher.send_signal(signal.SIGINT)
        try:
            watcher.communicate(timeout=READY_SECONDS)
        except subprocess.TimeoutExpired:
            watcher.kill()
            watcher.communicate()


def measure(server: WatchedSluice, transfer: Transfer, protocol: Protocol, watch: Watch, cell: Cell) -> None:
    """One round of a cell."""
    command = transfer_command(server, transfer, protocol)
    with watched(server, watch, transfer.path):
        client = Client(server.port)
        client.start()
        try:
            begin = time.monotonic()
            while time.monotonic() - begin < CELL_SECONDS:
                started = time.monotonic()
                done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TRANSFER_SECONDS, check=False)
                if done.returncode:
                    raise ServerFailed(server.explain(f"{transfer.label}: curl: {done.stderr.strip()}"))
                cell.transfers.append(1000 * (time.monotonic() - started))
                time.sleep(REST_SECONDS)
        finally:
            client.is_over.set()
            client.join()
    if client.failure:
        raise ServerFailed(server.explain(f"the empty file: {client.failure}"))
    cell.rounds.append(client.waits)
    waits = f"p99 {quantile(client.waits, 0.99):.2f} ms, longest {max(client.waits):.2f} ms"
    print(f"{transfer.label}, {protocol.label}, {watch.label}: {waits}", file=sys.stderr)


# ---- the table ----


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that this share of them does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def difference(cell: Cell, unwatched: Cell, share: float) -> float:
    """How much longer this share of the requests waits: the median of the rounds."""
    return statistics.median(
        quantile(watched, share) - quantile(alone, share) for watched, alone in zip(cell.rounds, unwatched.rounds)
    )


def table(cells: Dict[str, Dict[str, Cell]]) -> str:
    """`cells`: label of the transfer → label of the watch → cell."""
    lines = [
        "| transfer | watch | transfer takes, ms | requests | median, ms | p99, ms | longest, ms | p99, longer by | longest, longer by |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for label, of_watches in cells.items():
        unwatched = of_watches[NOBODY.label]
        for name, cell in of_watches.items():
            waits = [wait for each in cell.rounds for wait in each]
            longer = ("", "") if cell is unwatched else tuple(f"{difference(cell, unwatched, share):+.2f}" for share in (0.99, 1.0))
            figures = [f"{quantile(waits, share):.2f}" for share in (0.5, 0.99, 1.0)]
            taken = f"{statistics.median(cell.transfers):,.0f}"
            lines.append(f"| {' | '.join([label, name, taken, f'{len(waits):,}', *figures, *longer])} |")
    return "\n".join(lines)


def parse(arguments: Optional[Sequence[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="beside_watch", description=__doc__.partition("\n")[0])
    parser.add_argument("--sluice", type=Path, required=True, help="the server's binary")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--transfers", default="", help="only those with this text in their label")
    parser.add_argument("--watches", default="", help="only those with this text in their label")
    return parser.parse_args(arguments)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    options = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    watches = [NOBODY, *(watch for watch in WATCHES if options.watches in watch.label)]
    rows = [
        (f"{transfer.label}, {protocol.label}", transfer, protocol)
        for transfer in TRANSFERS for protocol in PROTOCOLS
    ]  # fmt: skip
    rows = [row for row in rows if options.transfers in row[0]]
    cells: Dict[str, Dict[str, Cell]] = {row[0]: {watch.label: Cell() for watch in watches} for row in rows}
    try:
        with site(REPOSITORY, options.sluice.absolute()) as made, WatchedSluice(made, 1, ("file", "cgi"), PROTOCOLS) as server:
            for number in range(options.rounds):
                for label, transfer, protocol in rows:
                    for watch in watches:
                        measure(server, transfer, protocol, watch, cells[label][watch.label])
                print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
    except (ServerFailed, OSError) as failure:
        print(f"beside_watch: {failure}", file=sys.stderr)
        return 1
    print(table(cells))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
