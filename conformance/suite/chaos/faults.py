"""The faults. Each is a coroutine that brings the fault about, waits until some exchanges have happened with it, and takes it back.

A fault has `needs(world)`: why it cannot be here, as a text, or None. Which fault is next, on which process and for how many exchanges, follows
from the seed; on which exchange it falls depends on the machine."""

import asyncio
import os
import random
import resource
import signal
import time

from ..soak import server as soak_server
from . import family
from . import server as chaos_server
from .books import DEATH

FAULTS = {}
HOLD_SECONDS = 5.0
RECOVERY_SECONDS = 30.0


def fault(name, needs=lambda world: None):
    def register(run):
        FAULTS[name] = (run, needs)
        return run

    return register


class World:
    """What faults act on: the clients, the server, and the random numbers of the faults."""

    is_verbose = False

    def __init__(self, chaos, seed):
        self.chaos, self.server, self.windows = chaos, chaos.server, chaos.windows
        self.rng = random.Random(f"faults {seed}")
        self.counts = {}
        self.reloads = 0
        self.pids_group = None

    def look(self):
        return family.Family(self.server)

    async def hold(self, least=20, most=80):
        """Lets some exchanges happen while the fault is in force."""
        await self.chaos.reached(self.chaos.books.done + self.rng.randrange(least, most), HOLD_SECONDS)

    def open(self, name):
        self.windows.open(name, time.monotonic())

    def close(self, name):
        self.windows.close(name, time.monotonic())

    async def in_force(self, name, undo, least=20, most=80):
        """Holds a fault that has been brought about, and takes it back. Its effects may last a moment longer."""
        try:
            await self.hold(least, most)
        finally:
            undo()
        await self.serves(name)
        self.close(name)

    async def serves(self, after):
        """Waits until a new connection gets right responses from a file and from a script. A finding if not."""
        until = time.monotonic() + RECOVERY_SECONDS
        failure = None
        while time.monotonic() < until:
            failure = await asyncio.to_thread(self.try_requests)
            if failure is None:
                return
            await asyncio.sleep(0.02)
        self.chaos.find(f"after the fault \"{after}\" the server does not serve for {RECOVERY_SECONDS:.0f} s: {failure}")

    def try_requests(self):
        """What is wrong with the responses, or None."""
        try:
            got = self.server.get("/file.bin")
            if (got.status, got.body) != (200, soak_server.FILE):
                return f"a file: {got.status}, {len(got.body)} bytes"
            got = self.server.get("/value/out?5+abcd")
            if (got.status, got.body) != (200, b"abcd\n"):
                return f"a script: {got}"
        except (OSError, AssertionError) as error:
            return repr(error)
        return None

    async def command(self, *words):
        """Runs `sluice WORDS` for the server; its status and output."""
        ran = await asyncio.to_thread(self.server.binary, *words)
        return ran.returncode, ran.stdout.decode("utf-8", "replace")


# ---- Processes ----


@fault("script killed")
async def kill_script(world):
    for _ in range(world.rng.randrange(1, 4)):
        targets = world.look().targets
        if targets:
            family.send(world.rng.choice(targets).pid, world.rng.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGPIPE)))
        await world.hold(1, 10)


@fault("script stopped")
async def stop_script(world):
    targets = world.look().targets
    chosen = world.rng.sample(targets, min(len(targets), world.rng.randrange(1, 4)))
    for process in chosen:
        family.send(process.pid, signal.SIGSTOP)
    try:
        await world.hold()
    finally:
        for process in chosen:
            family.cont(process.pid)


@fault("all scripts killed")
async def kill_scripts(world):
    for process in world.look().scripts:
        family.send(process.pid, signal.SIGKILL)


@fault("script renewed")
async def renew(world):
    if world.chaos.columns:
        soak_server.renew_one(world.server, world.rng)


def is_supervised(world):
    return None if world.look().has("server") else "the server has no process of its own"


def has_launcher(world):
    return None if world.look().has("launcher") else "there is no launcher process"


@fault(DEATH, is_supervised)
async def kill_server(world):
    """SIGKILL, SIGABRT or SIGSEGV. Exchanges in progress end, and lines that were not written are lost; nothing else."""
    pid = world.look().server()
    world.open(DEATH)
    family.send(pid, world.rng.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGABRT)))
    await world.serves(DEATH)
    world.close(DEATH)


@fault("server stopped")
async def stop_server(world):
    pid = world.look().server()
    world.open("server stopped")
    family.send(pid, signal.SIGSTOP)
    try:
        # Not counted in exchanges: there are none. Clients and scripts go on until every buffer is full.
        await asyncio.sleep(world.rng.uniform(0.05, 0.5))
    finally:
        family.cont(pid)
    await world.serves("server stopped")
    world.close("server stopped")


@fault("supervisor stopped", is_supervised)
async def stop_supervisor(world):
    family.send(world.server.pid, signal.SIGSTOP)
    try:
        await world.hold()
    finally:
        family.cont(world.server.pid)


@fault("launcher killed", has_launcher)
async def kill_launcher(world):
    """Scripts that run may end with it; then their clients get 502 or a truncated response."""
    family.send(world.look().roles["launcher"][-1], world.rng.choice((signal.SIGKILL, signal.SIGABRT)))
    await world.serves("launcher killed")


@fault("launcher stopped", has_launcher)
async def stop_launcher(world):
    pid = world.look().roles["launcher"][-1]
    family.send(pid, signal.SIGSTOP)
    try:
        await world.hold()
    finally:
        family.cont(pid)
    await world.serves("launcher stopped")


# ---- Disks ----


def has_disks(world):
    return None if world.server.disks else "file systems cannot be mounted here (root is needed): see the fault \"file size\""


async def fill(world, name, disk):
    path = world.server.path(disk)
    world.open(name)
    # What is used is the size: every further byte is one too many.
    chaos_server.resize(path, max(chaos_server.used(path), 4096))
    await world.in_force(name, lambda: chaos_server.resize(path, chaos_server.DISK_BYTES))


@fault("log disk full", has_disks)
async def fill_logs(world):
    await fill(world, "log disk full", "logs")


@fault("spool disk full", has_disks)
async def fill_spool(world):
    await fill(world, "spool disk full", "spool")


@fault("file size")
async def limit_file_size(world):
    """A limit for files that the server writes (EFBIG), which an ordinary user can set, too: logs, spooled bodies and memory buffers. The buffer of a
    script process has the length that was allowed at its start, so those that have started meanwhile are killed."""
    before = {process.pid for process in world.look().scripts}

    def kill_new():
        for process in world.look().scripts:
            if process.pid not in before:
                family.send(process.pid, signal.SIGKILL)

    await limit_server(world, "file size", resource.RLIMIT_FSIZE, lambda pid: world.rng.choice((0, 4096)), kill_new)


# ---- What runs out ----


async def limit_server(world, name, which, soft, then=lambda: None):
    """A resource limit for the running server process, which is taken back; `then` is called after that."""
    pid = world.look().server()
    world.open(name)
    before = family.limit(pid, which, soft(pid))

    def undo():
        if before is not None:
            family.limit(pid, which, before)
        then()

    await world.in_force(name, undo)


@fault("descriptors")
async def limit_descriptors(world):
    await limit_server(world, "descriptors", resource.RLIMIT_NOFILE, lambda pid: len(family.descriptors(pid)) + world.rng.randrange(0, 8))


def can_limit_processes(world):
    if os.geteuid() != 0:
        return None
    if world.pids_group is None:
        world.pids_group = pids_group(world) or ""
    return None if world.pids_group else "no controller for processes (cgroup pids), and RLIMIT_NPROC does not hold for root"


def pids_group(world):
    """A cgroup of version 1 with the server and its processes in it, where this process may make one."""
    try:
        os.mkdir(chaos_server.PIDS_GROUP)
    except OSError:
        return None
    return chaos_server.PIDS_GROUP


def move_all(world, path):
    for pid in [*world.look().own(), *(process.pid for process in world.look().others)]:
        try:
            with open(f"{path}/cgroup.procs", "w") as file:
                file.write(str(pid))
        except OSError:
            pass  # it has ended


@fault("processes", can_limit_processes)
async def limit_processes(world):
    """No further process or thread, or only a few."""
    name, spare = "processes", world.rng.randrange(0, 3)
    if os.geteuid() != 0:
        return await limit_server(world, name, resource.RLIMIT_NPROC, lambda pid: 1)
    move_all(world, world.pids_group)
    with open(f"{world.pids_group}/pids.current") as file:
        current = int(file.read())
    world.open(name)
    write(f"{world.pids_group}/pids.max", str(current + spare))
    await world.in_force(name, lambda: write(f"{world.pids_group}/pids.max", "max"))


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


@fault("memory of a script")
async def limit_script_memory(world):
    targets = world.look().targets
    chosen = world.rng.sample(targets, min(len(targets), 3))
    for process in chosen:
        family.limit(process.pid, resource.RLIMIT_AS, family.address_space(process.pid))
    await world.hold()
    for process in chosen:
        family.limit(process.pid, resource.RLIMIT_AS, resource.RLIM_INFINITY)


@fault("memory of the server", is_supervised)
async def limit_server_memory(world):
    """An allocation that fails ends the server process; then it is restarted. So this counts as its death."""
    world.open(DEATH)
    spare = world.rng.choice((0, 1 << 20, 32 << 20))
    await limit_server(world, "memory of the server", resource.RLIMIT_AS, lambda pid: family.address_space(pid) + spare)
    world.close(DEATH)


# ---- Clients ----


@fault("clients reset")
async def reset_clients(world):
    world.open("clients reset")
    world.chaos.reset_all()
    await world.hold(5, 20)
    world.close("clients reset")


# ---- Commands ----


@fault("reload by signal")
async def reload_by_signal(world):
    next_configuration(world)
    world.server.signal(signal.SIGHUP)
    await world.hold(5, 40)


@fault("reload by command")
async def reload_by_command(world):
    next_configuration(world)
    status, output = await world.command("reload")
    if status != 0:
        world.chaos.find(f"sluice reload: status {status}: {output}")


def next_configuration(world):
    world.reloads += 1
    chaos_server.reload_variant(world.server, world.reloads)


async def first_configuration(world):
    """The addresses of the beginning."""
    world.reloads += world.reloads % 2
    chaos_server.reload_variant(world.server, world.reloads)
    status, output = await world.command("reload")
    if status != 0:
        world.chaos.find(f"sluice reload at the end: status {status}: {output}")


@fault("upgrade", is_supervised)
async def upgrade(world):
    status, output = await world.command("upgrade")
    if status != 0:
        world.chaos.find(f"sluice upgrade: status {status}: {output}")


@fault("retire")
async def retire(world):
    name = world.rng.choice(("value", "liar", "digest"))
    status, output = await world.command("retire", world.server.path("programs", name))
    if status != 0 and "no process" not in output and "no script" not in output:
        world.chaos.find(f"sluice retire: status {status}: {output}")


@fault("logs reopened")
async def reopen(world):
    status, output = await world.command("log", "reopen")
    if status != 0:
        world.chaos.find(f"sluice log reopen: status {status}: {output}")


# ---- Shared memory ----

HEAD, WAKE_AT, WRITER_WAITS, READER_SLEEPS = 64, 72, 80, 136
CORRUPTIONS = ((HEAD, (1 << 64) - 1, 8), (HEAD, 0, 8), (HEAD, 1 << 63, 8), (WAKE_AT, (1 << 64) - 1, 8), (WRITER_WAITS, 7, 4), (READER_SLEEPS, 0, 4))


@fault("ring corrupted")
async def corrupt(world):
    """Impossible numbers in the control page of scripts that run: through descriptor 4 of the process, as the script itself could."""
    for process in world.look().scripts:
        offset, number, size = world.rng.choice(CORRUPTIONS)
        try:
            if "memfd" not in os.readlink(f"/proc/{process.pid}/fd/4"):
                continue
            with open(f"/proc/{process.pid}/fd/4", "r+b", buffering=0) as ring:
                if os.pread(ring.fileno(), 8, 0) == b"SLUICER1":
                    os.pwrite(ring.fileno(), number.to_bytes(size, "little"), offset)
                    world.counts["control pages changed"] = world.counts.get("control pages changed", 0) + 1
        except OSError:
            pass  # it has ended, or has no descriptor 4
    await world.hold(1, 10)


# ---- The sequence ----


def available(world, words):
    """The names of the faults that can be here, chosen by words; prints why others cannot."""
    names = []
    for name, (_, needs) in FAULTS.items():
        if words and not any(word in name for word in words):
            continue
        reason = needs(world)
        if reason:
            print(f"skipped: {name}: {reason}", flush=True)
        else:
            names.append(name)
    return names


async def rounds(world, names, count):
    """All faults in a random order, again and again, until the clients are over or this many rounds."""
    number = 0
    while not world.chaos.is_over and (count is None or number < count):
        number += 1
        for name in world.rng.sample(names, len(names)):
            if world.chaos.is_over:
                return
            before, begun = world.chaos.books.done, time.monotonic()
            run, _ = FAULTS[name]
            await run(world)
            world.counts[name] = world.counts.get(name, 0) + 1
            await world.serves(name)
            if world.is_verbose:
                took, done = time.monotonic() - begun, world.chaos.books.done - before
                print(f"{begun:.1f} {name}: {took:.1f} s, {done} exchanges", flush=True)
            await world.chaos.reached(max(before, world.chaos.books.done) + world.rng.randrange(5, 60), HOLD_SECONDS)
