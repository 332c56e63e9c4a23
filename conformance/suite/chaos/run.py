"""A run of the chaos test: warm up, clients and faults, then the books."""

import asyncio
import glob
import os
import re
import signal
import subprocess
import time

import testing

from . import family, faults, hostile  # noqa: F401 (hostile registers faults)
from .clients import Chaos

MEMORY_TOLERANCE = 32 << 20
MEMORY_SECONDS_MIN = 60
WARM_SECONDS = 5
# All items only of some requests: the bytes of all connections would take most of the machine.
WATCHES = (("--items", "usual"), ("--items", "all", "--path", "/record-bin/*"))


class State:
    """What must be as before: memory and descriptors of the server's processes, and the files that processes leave."""

    def __init__(self, server):
        now = family.Family(server)
        self.own = now.own()
        self.memory = family.memory(self.own)
        self.descriptors = held(self.own)
        self.shared = {name for name in os.listdir("/dev/shm") if "sluice" in name}
        self.spool = spool_of(server)


# What a server process opens when it first needs it, and keeps: free cgroups, the lock of its private temporary directories, its list of children.
KEPT = re.compile(r"/sys/fs/cgroup/|.*/sluice-tmp\.|/proc/.*/children$")


def held(pids):
    """What processes have open for exchanges and scripts."""
    found = [kind_of(target) for pid in pids for target in family.descriptors(pid) if not KEPT.match(target)]
    # A thread of the launcher keeps five numbers, as duplicates of /dev/null. Threads that took the places of hanging starts stay, at most 64 of
    # them, because the scripts that a thread has started would end with it (PR_SET_PDEATHSIG).
    reserved = found.count("/dev/null")
    return found if reserved > 5 * (64 + 8) else [target for target in found if target != "/dev/null"]


def kind_of(target):
    """What a descriptor is, without its number."""
    return target.split(":[")[0] if ":[" in target else target


def spool_of(server):
    """Files and directories that are left in the spool, without the lock of a server's directory of private temporary directories."""
    left = []
    for path in glob.glob(server.path("spool", "**"), recursive=True):
        if os.path.relpath(path, server.path("spool")) != "." and not os.path.basename(path).startswith("sluice-tmp."):
            left.append(os.path.relpath(path, server.path("spool")))
    return left


async def run(server, columns, options):
    """Everything; the findings."""
    seconds = min(WARM_SECONDS, (options.seconds or 4 * WARM_SECONDS) / 4)
    warm = Chaos(server, columns, "warm", options.seed, options.clients)
    await asyncio.gather(over_after(warm, seconds), *(warm.client(index) for index in range(options.clients)))
    await asyncio.to_thread(settle, server)
    before = State(server)
    chaos = Chaos(server, columns, "chaos", options.seed, options.clients)
    world = faults.World(chaos, options.seed)
    world.is_verbose = options.verbose
    names = faults.available(world, options.fault)
    print(f"chaos with seed {options.seed}, {options.clients} clients, {len(names)} faults, in {server.directory}", flush=True)
    begun = chaos.begun = time.monotonic()
    clients = [asyncio.ensure_future(chaos.client(index)) for index in range(options.clients)]
    watchers = [asyncio.ensure_future(watch(chaos, words)) for words in WATCHES]
    await until_over(chaos, world, names, options)
    await asyncio.gather(*clients, *watchers)
    took = time.monotonic() - begun
    await faults.first_configuration(world)
    findings = warm.findings + chaos.findings
    findings += await asyncio.to_thread(check, server, chaos, before, took)
    report(chaos, world, took, options)
    if world.pids_group:
        findings += await asyncio.to_thread(leave_group, world)
    return findings


async def over_after(chaos, seconds):
    await asyncio.sleep(seconds)
    chaos.is_over = True


async def until_over(chaos, world, names, options):
    """The faults, until the time, the exchanges or the rounds are over. A fault that has begun is taken back first."""
    until = time.monotonic() + options.seconds if options.seconds else None
    running = asyncio.ensure_future(faults.rounds(world, names, options.rounds))
    shown = time.monotonic()
    while not running.done():
        await asyncio.wait([running], timeout=0.1)
        if until and time.monotonic() > until or options.exchanges and chaos.books.done >= options.exchanges:
            chaos.is_over = True
        if time.monotonic() > shown + 60:
            shown = time.monotonic()
            print(f"{chaos.books.done} exchanges, {sum(world.counts.values())} faults, {len(chaos.findings)} findings", flush=True)
    if options.exchanges and not options.rounds and not running.exception():
        await chaos.reached(options.exchanges, 3600)
    chaos.is_over = True
    running.result()


async def watch(chaos, filters):
    """A reader of WATCH, which begins again when its server has ended."""
    while not chaos.is_over:
        words = [testing.binary(), "watch", "--json", *filters, "--server", chaos.server.path("control.sock")]
        process = await asyncio.create_subprocess_exec(
            *words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, limit=1 << 24
        )
        try:
            while not chaos.is_over and (line := await asyncio.wait_for(process.stdout.read(1 << 16), 10)):
                chaos.books.outcome["bytes of WATCH"]["read"] += len(line)
        except asyncio.TimeoutError:
            pass
        finally:
            # Not `process.kill()`, which takes the status that asyncio waits for.
            if process.returncode is None:
                family.send(process.pid, signal.SIGKILL)
            await process.wait()


def settle(server, descriptors=None):
    """Waits until there is no script, and no more descriptors than before."""

    def is_idle():
        now = family.Family(server)
        return not now.others and (descriptors is None or len(held(now.own())) <= descriptors)

    return testing.wait_until(is_idle, deadline=90)


def check(server, chaos, before, took):
    """What is not as before, and what the access log does not say."""
    findings = []
    if not settle(server, len(before.descriptors)):
        now = family.Family(server)
        more = held(now.own())
        for kind in before.descriptors:
            if kind in more:
                more.remove(kind)
        findings.append(f"left: processes {now.others}, descriptors {more}")
    after = State(server)
    print(f"memory: {before.memory >> 10} KiB before, {after.memory >> 10} KiB after; ", end="")
    print(f"descriptors: {len(before.descriptors)}, {len(after.descriptors)}; processes: {len(before.own)}, {len(after.own)}")
    if took >= MEMORY_SECONDS_MIN and after.memory > before.memory + MEMORY_TOLERANCE:
        findings.append(f"memory: {(after.memory - before.memory) >> 10} KiB more than before")
    if after.shared - before.shared:
        findings.append(f"/dev/shm: {after.shared - before.shared}")
    if after.spool:
        findings.append(f"left in the spool: {after.spool[:5]}")
    testing.wait_until(lambda: not unlogged(server, chaos))
    wrong, summary = chaos.books.check(log_lines(server), chaos.windows)
    print("; ".join(f"{number} {what}" for what, number in summary.items()))
    return findings + wrong


def unlogged(server, chaos):
    """Whether exchanges that no fault excuses are not in the access log (yet): a thread of the server writes it."""
    _, summary = chaos.books.check(log_lines(server), chaos.windows)
    return summary["lost"] > 0


def log_lines(server):
    for path in sorted(glob.glob(server.path("logs", "access.log*"))):
        with open(path, errors="replace") as log:
            yield from log


def server_log(server):
    text = server.log()
    for path in sorted(glob.glob(server.path("logs", "server.log*"))):
        with open(path, errors="replace") as log:
            text += log.read()
    return text


def report(chaos, world, took, options):
    if not options.quiet:
        for kind, outcome in sorted(chaos.books.outcome.items()):
            print(f"  {kind:32} " + ", ".join(f"{what} {number}" for what, number in sorted(outcome.items(), key=str)))
    print("faults: " + ", ".join(f"{name} {number}" for name, number in sorted(world.counts.items())))
    print(f"{chaos.books.done} exchanges in {took:.0f} s, {sum(world.counts.values())} faults, seed {options.seed}", flush=True)


def leave_group(world):
    """Moves the server out of the cgroup of the test, and removes it."""
    faults.move_all(world, "/sys/fs/cgroup/pids")

    def is_removed():
        try:
            os.rmdir(world.pids_group)
        except OSError:
            faults.move_all(world, "/sys/fs/cgroup/pids")
        return not os.path.exists(world.pids_group)

    return [] if testing.wait_until(is_removed, 10) else [f"left: {world.pids_group}"]


def stop(server):
    """Ends the server; what it leaves behind."""
    findings = []
    own = family.Family(server).own()
    for name in os.listdir(server.temporary):
        if name.startswith("php"):
            os.unlink(os.path.join(server.temporary, name))  # PHP leaves some when it is killed
    try:
        server.end()
    except AssertionError as error:
        findings.append(str(error)[-3000:])
    left = [path for pid in own for path in glob.glob(f"/sys/fs/cgroup/**/sluice.{pid}.*", recursive=True)]
    if left:
        findings.append(f"cgroups left: {left[:5]}")
    sockets = [name for name in ("control.sock", "extra.sock") if os.path.exists(server.path(name))]
    if sockets:
        findings.append(f"sockets left: {sockets}")
    left = spool_of(server)
    if left:
        findings.append(f"left in the spool after the end: {left[:5]}")
    findings += [f"panic: {line}" for line in server.panics(server_log(server))[:3]]
    return findings
