"""What a server costs: memory and system calls.

Here: reading /proc and strace for one server that was just started and runs alone. Not here: names and units of
the rows (plan.py), the order of the servers (run.py), processor time (processor.py).

  memory          PSS from smaps_rollup, summed over the server's own processes: shared pages are divided among the
                  processes that share them, so no other server of the same program may run meanwhile. For a script
                  process: Private_Dirty, because the PSS of a program depends on the number of its processes.
  system calls    `strace -c -f` on the server, its helpers and its scripts, including processes that start meanwhile;
                  the sum of their calls divided by the number of sequential requests. strace slows the processes
                  down, so only counts are used.
"""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Callable

from .load import Invocation, checked, h2load_command, invoke
from .results import NotMeasured, Sample, failed
from .servers import Server
from .tables import KEPT_WAYS, Row

#: Many, because the memory of a server changes by some hundred KiB of its own accord.
IDLE_CONNECTIONS = 4000
#: Connections opened before these, and kept open: what a server allocates once is then not counted for each connection,
#: and memory that it has already freed is not reused for them.
FIRST_CONNECTIONS = 250
#: Requests before the memory of a script process is read, by 10 clients.
FIRST_REQUESTS = 5000
#: Requests under strace, sequential.
TRACED_REQUESTS = {"file": 500, "large": 500, "cgi": 100, "kept": 500}
ATTACH_SECONDS, DETACH_SECONDS, REQUEST_SECONDS = 10.0, 5.0, 30.0
#: A server may free memory of idle connections with a delay: it is measured when it has been stable, within so many KiB, for
#: so many checks, one second apart; at the latest after this time.
STEADY_LOOKS, STEADY_KIB, SETTLE_SECONDS_LEAST, SETTLE_SECONDS_MOST = 4, 32, 3, 15

#: Receives raw output: its subject, the invocation.
Keep = Callable[[str, Invocation], None]
KeepRun = Callable[[Invocation], None]


def measure(server: Server, ways: dict[str, str], keep: Keep) -> Iterator[tuple[str, Sample]]:
    """Yields row and sample; `ways` are the server's routes that may be measured. Rows without a way are omitted."""
    paths = addresses(server, ways)
    yield "rest", attempt(lambda: Sample(pss_kib(server.pids()) / 1024))
    if "idle" in paths:
        yield "idle", attempt(partial(idle_connections, server, paths["idle"]))
    if "kept" in paths:
        run_h2load(paths["kept"], Row("start", "", concurrency=10), 0, FIRST_REQUESTS)
        if server.script_pids():
            yield "script", attempt(lambda: Sample(dirty_kib(server.script_pids())))
    for kind in (kind for kind in TRACED_REQUESTS if kind in paths):
        yield f"calls-{kind}", attempt(partial(calls, server, kind, paths[kind], partial(keep, f"calls-{kind}")))


def addresses(server: Server, ways: dict[str, str]) -> dict[str, str]:
    found = {}
    if "file" in ways:
        found["idle"], found["file"] = ways["file"] + "0k.txt", server.address(ways["file"] + "16k.txt")
        found["large"] = server.address(ways["file"] + "64k.txt")
    if "cgi" in ways:
        found["cgi"] = server.address(ways["cgi"] + "cgiplustest?0")
    kept = next((way for way in KEPT_WAYS if way in ways), None)
    if kept:
        found["kept"] = server.address(ways[kept] + "cgiplustest?0")
    return found


def attempt(figure: Callable[[], Sample]) -> Sample:
    try:
        return figure()
    except (NotMeasured, OSError) as error:
        return failed(str(error))


# ---- memory ----


def rollup_kib(text: str, field: str) -> int:
    """Parses a line of smaps_rollup: `Pss:   1234 kB`."""
    found = re.search(rf"^{field}:\s+(\d+) kB", text, re.MULTILINE)
    if not found:
        raise NotMeasured(f"smaps_rollup has no {field}")
    return int(found[1])


def memory_kib(pids: Iterable[int], field: str) -> list[int]:
    return [rollup_kib(Path("/proc", str(pid), "smaps_rollup").read_text(), field) for pid in pids]


def pss_kib(pids: Iterable[int]) -> float:
    return sum(memory_kib(pids, "Pss"))


def dirty_kib(pids: Iterable[int]) -> float:
    each = memory_kib(pids, "Private_Dirty")
    return sum(each) / len(each)


def ask(port: int, path: str) -> socket.socket:
    """Opens a connection, has one request answered, and keeps it open."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=REQUEST_SECONDS)
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    reply = b""
    while b"\r\n\r\n" not in reply:  # an empty file: nothing follows the head
        more = connection.recv(65536)
        if not more:
            break
        reply += more
    if not reply.startswith(b"HTTP/1.1 200"):
        raise NotMeasured(f"{path}: {reply[:40]!r}")
    return connection


def is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1, socket.MSG_PEEK) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def settled_pss_kib(server: Server) -> float:
    time.sleep(SETTLE_SECONDS_LEAST)
    looks = [pss_kib(server.pids())]
    while not is_steady(looks) and len(looks) < SETTLE_SECONDS_MOST - SETTLE_SECONDS_LEAST:
        time.sleep(1)
        looks.append(pss_kib(server.pids()))
    return looks[-1]


def is_steady(looks: list[float]) -> bool:
    last = looks[-STEADY_LOOKS:]
    return len(last) == STEADY_LOOKS and max(last) - min(last) <= STEADY_KIB


def idle_connections(server: Server, path: str) -> Sample:
    """Measures KiB per idle connection."""
    with ExitStack() as stack:
        for _ in range(FIRST_CONNECTIONS):
            stack.enter_context(ask(server.port, path))
        before = settled_pss_kib(server)
        connections = [stack.enter_context(ask(server.port, path)) for _ in range(IDLE_CONNECTIONS)]
        after = settled_pss_kib(server)
        still_open = sum(map(is_open, connections))
    if still_open != IDLE_CONNECTIONS:
        raise NotMeasured(f"only {still_open} of {IDLE_CONNECTIONS} idle connections stayed")
    return Sample((after - before) / IDLE_CONNECTIONS)


# ---- system calls ----


def run_h2load(url: str, row: Row, seconds: float, count: int = 0) -> Invocation:
    return invoke(h2load_command(url, row, seconds, count), REQUEST_SECONDS)


def parse_strace(text: str) -> dict[str, int]:
    """Parses calls by name from strace's table: `% time  seconds  usecs/call  calls  [errors]  syscall`."""
    found = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) in (5, 6) and re.fullmatch(r"[\d.]+", fields[0]) and fields[-1] != "total":
            found[fields[-1]] = int(fields[3])
    return found


def calls(server: Server, kind: str, url: str, keep: KeepRun) -> Sample:
    """Measures system calls per request; by name in the details."""
    pids = server.pids()
    if kind not in ("file", "large"):
        pids += server.helper_pids()
    if kind == "kept":
        pids += server.script_pids()
    requests = TRACED_REQUESTS[kind]
    each = {name: count / requests for name, count in traced_calls(pids, url, requests, server.directory, keep).items()}
    # Rarer calls are waits that were in progress when strace attached, timers and the like.
    return Sample(sum(each.values()), details={name: value for name, value in sorted(each.items()) if value >= 0.1})


def traced_calls(pids: list[int], url: str, requests: int, directory: Path, keep: KeepRun) -> dict[str, int]:
    """Counts calls by name. strace is stopped only when the server is idle again: otherwise it would wait for a process in
    vfork(2), which waits for its child, which waits for strace."""
    row = Row("calls", "")
    table, messages = directory / "strace.txt", directory / "strace.err"
    run_h2load(url, row, 0, 20)  # calls that are made only once
    command = ["strace", "-c", "-f", "-o", str(table), *(f"--attach={pid}" for pid in pids)]
    with open(messages, "wb") as errors:
        strace = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)
    try:
        wait_until_attached(strace, messages, len(pids))
        run = run_h2load(url, row, 0, requests)
        strace.send_signal(signal.SIGINT)
        strace.wait(DETACH_SECONDS)
    except subprocess.TimeoutExpired:
        raise NotMeasured("strace did not exit") from None
    finally:
        if strace.poll() is None:
            strace.kill()  # the kernel detaches all traced processes
            strace.wait()
    keep(run)
    keep(Invocation(("strace", "-c", "-f", f"({len(pids)} processes)"), table.read_text(), strace.returncode))
    checked(run, row)
    counted = parse_strace(table.read_text())
    if not counted:
        raise NotMeasured("strace counted nothing")
    return counted


def wait_until_attached(strace: subprocess.Popen, messages: Path, processes: int) -> None:
    deadline = time.monotonic() + ATTACH_SECONDS
    while True:
        said = messages.read_text()
        if len(re.findall(r"^strace: Process \d+ attached", said, re.MULTILINE)) >= processes:
            return
        if strace.poll() is not None or time.monotonic() > deadline:
            raise NotMeasured(f"strace cannot attach: {said.strip().splitlines()[0] if said.strip() else 'no answer'}")
        time.sleep(0.02)
