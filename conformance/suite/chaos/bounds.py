"""Bounds and figures of memory, and requests while processes are recycled. `conformance/bounds` runs it."""

import asyncio
import os
import re
import subprocess
import time

import testing

from .. import columns
from ..soak import wire
from . import family
from .kinds import lines

BOUND = 200 << 20
CONFIGURATION = """
[log]
access = "access.log"

[server]
spool_directory = "@DIR@/spool"

[limits]
processes = 300

[[site]]
root = "htdocs"

  [[site.route]]
  path = "/cgi/*"
  script = { file = "value", mode = "cgi", max = 120, kill_grace = "500ms" }

  [[site.route]]
  path = "/plus/*"
  script = { file = "value", mode = "cgiplus", max = 120, kill_grace = "500ms", client_grace = "1s", environment = { PROBE_DIR = "@DIR@" } }

  [[site.route]]
  path = "/single/*"
  script = { file = "single", mode = "cgiplus", max = 1, queue = 2000, queue_timeout = "5m", kill_grace = "500ms", environment = { PROBE_DIR = "@DIR@" } }

  [[site.route]]
  path = "/recycled/*"
  script = { file = "recycled", mode = "cgiplus", max = 4, requests = 10, kill_grace = "500ms" }
"""
HUGE = 10 << 30
UPLOAD = 1 << 30
# A file of 1 GB, of which the beginning has content and the rest is a hole: more content than a slow client reads.
FILE, FILE_LINE, FILE_CONTENT = 1 << 30, "slow-file-0", 64 << 20
# What a slow client reads or sends at a time, and its pause: 80 kB a second.
PORTION, PAUSE = 8192, 0.1


def start():
    """A server with the script in C, under three names: pools of their own."""
    server = testing.Server(CONFIGURATION, {"spool/.keep": ""})
    for name in ("value", "single", "recycled"):
        columns.compile_c(server.path(name), "value.c")
    server.gate = server.fifo("gate")
    return server


def own_memory(server):
    return family.memory(family.Family(server).own())


class Peak:
    """The most memory that the server's own processes had together."""

    def __init__(self, server):
        self.server, self.before, self.most = server, own_memory(server), 0

    async def measure(self, seconds, is_ready):
        """Samples for so long, from the moment when all clients are at work."""
        deadline = time.monotonic() + testing.DEADLINE
        while not is_ready():
            if time.monotonic() > deadline:
                raise AssertionError("the clients are not at work")
            self.sample()
            await asyncio.sleep(0.05)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.sample()
            await asyncio.sleep(0.05)

    def sample(self):
        self.most = max(self.most, own_memory(self.server))

    def about(self, what):
        print(f"{what}: {self.most / 2**20:.1f} MiB at most, {self.before / 2**20:.1f} MiB before; bound {BOUND >> 20} MiB", flush=True)
        return [] if self.most < BOUND else [f"{what}: {self.most >> 20} MiB, more than {BOUND >> 20}"]


async def outputs(server, clients, seconds, path):
    """Slow clients of scripts that produce 10 GB each, as fast as they can."""
    peak, got = Peak(server), [0] * clients
    tasks = [asyncio.ensure_future(read_slowly(server, path, index, got)) for index in range(clients)]
    await guarded(tasks, peak.measure(seconds, lambda: all(got)))
    return peak.about(f"{clients} slow clients of a script of 10 GB, {path}")


async def files(server, clients, seconds):
    """Slow clients of one file of 1 GB."""
    path = server.path("htdocs/huge")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(lines(FILE_LINE, FILE_CONTENT))
        file.truncate(FILE)
    peak, got = Peak(server), [0] * clients
    read = [take_slowly(server, "/huge", FILE_LINE, got, index) for index in range(clients)]
    tasks = [asyncio.ensure_future(client) for client in read]
    await guarded(tasks, peak.measure(seconds, lambda: all(got)))
    return peak.about(f"{clients} slow clients of a file of 1 GB")


async def read_slowly(server, path, index, got):
    marker = f"slow-{index}-0"
    await take_slowly(server, f"{path}?{HUGE}+{marker}", marker, got, index)


async def take_slowly(server, target, marker, got, index):
    """Reads a response of lines of the marker slowly, and counts its bytes; it must not end."""
    reader, writer = await asyncio.open_connection(*server.address, limit=PORTION)
    try:
        writer.write(f"GET {target} HTTP/1.0\r\nHost: bounds\r\n\r\n".encode())
        head = await wire.read_head(reader)
        assert wire.status_of(head) == 200, head
        line = marker.encode() + b"\n"
        # From any position in a line on.
        expected = line * (PORTION // len(line) + 2)
        while part := await reader.read(PORTION):
            at = got[index] % len(line)
            assert part == expected[at : at + len(part)], f"wrong bytes for {marker}"
            got[index] += len(part)
            await asyncio.sleep(PAUSE)
        raise AssertionError(f"the response to {marker} has ended after {got[index]} bytes")
    finally:
        writer.transport.abort()


async def uploads(server, clients, seconds):
    """Slow uploads of 1 GB: half of them with a length, half chunked, which are stored in a file."""
    peak, sent = Peak(server), [0] * clients
    tasks = [asyncio.ensure_future(send_slowly(server, index, sent)) for index in range(clients)]
    await guarded(tasks, peak.measure(seconds, lambda: all(sent)))
    return peak.about(f"{clients} slow uploads of 1 GB")


async def send_slowly(server, index, sent):
    reader, writer = await asyncio.open_connection(*server.address)
    try:
        field = "Transfer-Encoding: chunked" if index % 2 else f"Content-Length: {UPLOAD}"
        writer.write(f"POST /cgi/sink HTTP/1.1\r\nHost: bounds\r\n{field}\r\n\r\n".encode())
        part = lines(f"slow-{index}-0", PORTION)
        ending = asyncio.ensure_future(reader.read(100))
        while sent[index] < UPLOAD:
            writer.write(b"%x\r\n%s\r\n" % (len(part), part) if index % 2 else part)
            await writer.drain()
            sent[index] += len(part)
            done, _ = await asyncio.wait([ending], timeout=PAUSE)
            assert not done, f"a response within the body: {ending.result()!r}"
    finally:
        writer.transport.abort()


async def guarded(tasks, measuring):
    """Measures while the tasks run; an error of one of them is an error of the measurement."""
    measure = asyncio.ensure_future(measuring)
    try:
        await asyncio.wait([measure, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in (measure, *tasks):
            if task.done():
                task.result()
        await measure
    finally:
        for task in (measure, *tasks):
            task.cancel()
        await asyncio.gather(measure, *tasks, return_exceptions=True)


async def queued(server, count):
    """Memory for each request that waits for a process, its connection included."""
    await one(server, "/plus/out?10+ready-0-0")
    first = asyncio.ensure_future(one(server, "/single/wait?queued-0-0"))
    await until(lambda: "single" in str(server.scripts()))
    before = own_memory(server)
    writers = []
    for number in range(count):
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(f"GET /single/out?10+queued-{number}-1 HTTP/1.1\r\nHost: bounds\r\n\r\n".encode())
        writers.append((number, reader, writer))
    await until(lambda: waiting(server) >= count)
    after = own_memory(server)
    server.gate.release("")
    await first
    failed = 0
    for number, reader, writer in writers:
        status, body, _ = await wire.response(reader)
        failed += (status, body) != (200, lines(f"queued-{number}-1", 10))
        writer.close()
    print(f"memory for each of {count} queued requests, with its connection: {(after - before) / count / 1024:.1f} KiB", flush=True)
    return [f"queued requests: {failed} of {count} failed"] if failed else []


def waiting(server):
    """The number of requests that wait, as `sluice status` says."""
    words = [testing.binary(), "status", "--json", "--server", str(server.pid)]
    environment = dict(os.environ, SLUICE_RUNTIME_DIR=server.path("run"))
    ran = subprocess.run(words, stdout=subprocess.PIPE, env=environment, timeout=testing.DEADLINE, check=True)
    return sum(int(number) for number in re.findall(rb'"waiting": ?(\d+)', ran.stdout))


async def one(server, target):
    reader, writer = await asyncio.open_connection(*server.address)
    writer.write(f"GET {target} HTTP/1.1\r\nHost: bounds\r\n\r\n".encode())
    status, body, _ = await wire.response(reader)
    writer.close()
    assert status == 200, (status, body)
    return body


async def until(condition):
    assert await asyncio.to_thread(testing.wait_until, condition), "the deadline has passed"


async def processes(server, count):
    """Memory of the server for each idle script process."""
    before = own_memory(server)
    await asyncio.gather(*(one(server, f"/plus/wait?process-{number}-0") for number in range(count)), release(server, count))
    idle = [process.pid for process in server.scripts() if "value" in process.command]
    after = own_memory(server)
    pss = sum(pss_of(pid) for pid in idle) / max(len(idle), 1)
    print(f"memory of the server for each of {len(idle)} idle script processes: {(after - before) / max(len(idle), 1) / 1024:.1f} KiB; ", end="")
    print(f"a process of the C library itself: {pss / 1024:.0f} KiB (PSS)", flush=True)
    return []


async def release(server, count):
    await until(lambda: len([process for process in server.scripts() if "value" in process.command]) >= count)
    for _ in range(count):
        server.gate.release("")


def pss_of(pid):
    with open(f"/proc/{pid}/smaps_rollup") as file:
        return int(re.search(r"^Pss:\s+(\d+)", file.read(), re.MULTILINE).group(1)) << 10


async def recycled(server, count):
    """Requests under load until so many processes have been replaced; none may be lost."""
    pids, asked, lost = set(), 0, []

    async def client(index):
        nonlocal asked
        reader, writer = await asyncio.open_connection(*server.address)
        number = 0
        while len(pids) < count:
            number += 1
            asked += 1
            marker = f"recycled-{index}-{number}"
            writer.write(f"GET /recycled/process?{marker} HTTP/1.1\r\nHost: bounds\r\n\r\n".encode())
            status, body, _ = await wire.response(reader)
            words = body.decode().split()
            if status != 200 or words[:1] != [marker]:
                lost.append(f"{marker}: {status} {body[:100]!r}")
            else:
                pids.add(words[1])
        writer.close()

    begun = time.monotonic()
    await asyncio.gather(*(client(index) for index in range(8)))
    took = time.monotonic() - begun
    print(f"{len(pids)} recycled processes under load: {asked} requests, {len(lost)} lost, {took:.0f} s", flush=True)
    return [f"lost while processes were recycled: {lost[:5]}"] if lost else []


async def settled(server, what):
    """Waits until the scripts whose clients have left are gone, too."""
    is_gone = await asyncio.to_thread(testing.wait_until, lambda: not server.processes())
    return [] if is_gone else [f"{what}: left: {server.processes()}"]
