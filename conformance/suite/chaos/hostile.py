"""Faults that somebody on the machine brings about: an owner of files, a client of a unix socket, a script. They make calls of the server wait for as
long as they like; other requests must be answered promptly meanwhile."""

import asyncio
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import testing

from . import family
from .books import DEATH
from .faults import fault, has_launcher, is_supervised, next_configuration
from ..soak import server as soak_server

sys.path.append(os.path.join(testing.CHECKOUT, "conformance", "scripts"))
import hostile as script  # noqa: E402

# Longer than a request takes beside the load of the test, shorter than what the faults make others wait.
PROMPT_SECONDS = 10
PROBES = 8
# A start that was stopped is ended after 5 s.
STOPPED_SECONDS = 7


async def is_prompt(world, name):
    """Requests on new connections, so that every worker gets some. A finding if one waits."""

    def probe():
        for _ in range(PROBES):
            begun = time.monotonic()
            try:
                got = world.server.get("/file.bin")
                if (got.status, got.body) != (200, soak_server.FILE):
                    return f"a file: {got.status}, {len(got.body)} bytes"
            except (OSError, AssertionError) as error:
                return repr(error)
            if time.monotonic() > begun + PROMPT_SECONDS:
                return f"a file took {time.monotonic() - begun:.1f} s"
        return None

    failure = await asyncio.to_thread(probe)
    if failure:
        world.chaos.find(f"during the fault \"{name}\": {failure}")


def begin(world, target):
    """A connection with a request whose response nobody reads yet."""
    connection = socket.create_connection(world.server.address)
    connection.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    return connection


async def until_it_begins(world, connection, name):
    """Waits for the head of a response."""
    connection.settimeout(PROMPT_SECONDS)
    try:
        await asyncio.to_thread(connection.recv, 1)
    except OSError as error:
        world.chaos.find(f"the fault \"{name}\" did not come about: {error!r}")


def end_hostile_scripts(world):
    for process in world.look().scripts:
        if "hostile" in process.command:
            family.send(process.pid, signal.SIGKILL)


# ---- Owners of files ----


@fault("lease")
async def hold_lease(world):
    """A write lease (fcntl(2)) on a file that is asked for: opening it fails until the owner gives it up."""
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    name = f"leased-{world.rng.getrandbits(32):x}.txt"
    path = world.server.path("htdocs", name)
    with open(path, "w") as file:
        file.write("leased")
    held = os.open(path, os.O_RDWR)
    try:
        fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        asked = [begin(world, f"/{name}") for _ in range(PROBES)]
        await is_prompt(world, "lease")
        for connection in asked:
            connection.settimeout(PROMPT_SECONDS)
            try:
                head = await asyncio.to_thread(connection.recv, 100)
                if b" 503 " not in head:
                    world.chaos.find(f"a file with a lease: {head[:40]!r}")
            except OSError as error:
                world.chaos.find(f"a file with a lease: {error!r}")
            connection.close()
        await world.hold(5, 40)
    finally:
        os.close(held)
        os.unlink(path)


def has_silent_files(world):
    if not os.path.exists("/dev/fuse"):
        return "this system has no /dev/fuse"
    if not world.server.disks:
        return "file systems cannot be mounted here (root is needed)"
    return is_supervised(world)


@fault("server hangs", has_silent_files)
async def hang_server(world):
    """A worker waits for a file system in user space that answers nothing, and SIGKILL has no effect on it."""
    place = world.server.path("htdocs", "silent")
    os.makedirs(place, exist_ok=True)
    program = os.path.join(testing.CHECKOUT, "crates/sluice-testing/src/silent_fuse.py")
    words = [sys.executable, program, place, "a.txt", "a", "b.txt", "b"]
    files = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        said = await asyncio.to_thread(files.stdout.readline)
        if said != b"mounted\n":
            world.chaos.find(f"no file system in user space: {said!r}")
            return
        files.stdin.write(b"silent\n")
        files.stdin.flush()
        await asyncio.to_thread(files.stdout.readline)
        pid = world.look().server()
        world.open(DEATH)
        asked = begin(world, "/silent/a.txt")
        await asyncio.to_thread(files.stdout.readline)
        family.send(pid, signal.SIGKILL)
        # While the old one hangs.
        await world.serves("server hangs")
        asked.close()
    finally:
        files.stdin.close()
        await asyncio.to_thread(files.wait)
        shutil.rmtree(place, ignore_errors=True)
    await world.serves(DEATH)
    world.close(DEATH)


# ---- Clients of a unix socket ----


@fault("lingering sockets")
async def send_lingering_sockets(world):
    """A client of a unix socket sends sockets along whose last close waits. The kernel may refuse that."""
    path = world.server.path("extra.sock")
    for _ in range(2):
        if os.path.exists(path):
            break
        next_configuration(world)
        await world.command("reload")
    kept = []
    for _ in range(PROBES):
        sender, peer = script.lingering()
        client = socket.socket(socket.AF_UNIX)
        client.connect(path)
        is_sent = script.send_along(client, b"GET /file.bin HTTP/1.1\r\nHost: localhost\r\n\r\n", sender)
        what = "lingering sockets sent" if is_sent else "lingering sockets refused by the kernel"
        world.counts[what] = world.counts.get(what, 0) + 1
        kept += [client, peer]
    await is_prompt(world, "lingering sockets")
    for one in kept:
        one.close()


# ---- Scripts ----


@fault("lingering socket of a script")
async def linger_of_script(world):
    """A script sends such a socket with a record of its reply."""
    asked = begin(world, "/hostile-record/?linger")
    await until_it_begins(world, asked, "lingering socket of a script")
    await is_prompt(world, "lingering socket of a script")
    end_hostile_scripts(world)
    asked.close()


@fault("lock of a pipe held")
async def hold_pipe(world):
    """A script holds the lock of its standard output: splice(2) from a socket without a byte."""
    asked = [begin(world, "/hostile/?splice") for _ in range(2)]
    for connection in asked:
        await until_it_begins(world, connection, "lock of a pipe held")
    await is_prompt(world, "lock of a pipe held")
    end_hostile_scripts(world)
    for connection in asked:
        connection.close()


@fault("starts stopped", has_launcher)
async def stop_starts(world):
    """SIGSTOP to processes between their clone and their exec, as another process of their user may send it."""
    stopped = await asyncio.to_thread(stop_some, world.look().roles["launcher"][-1])
    world.counts["processes stopped at their start"] = world.counts.get("processes stopped at their start", 0) + len(stopped)
    try:
        await is_prompt(world, "starts stopped")
        if stopped:
            await asyncio.sleep(STOPPED_SECONDS)
        await world.serves("starts stopped")
    finally:
        for pid in stopped:
            family.send(pid, signal.SIGCONT)


def stop_some(launcher, seconds=2.0, most=4):
    """Stops children of the launcher that have not executed their program yet: their numbers."""
    own = os.readlink(f"/proc/{launcher}/exe")
    until, stopped = time.monotonic() + seconds, []
    while time.monotonic() < until and len(stopped) < most:
        for pid in children(launcher):
            try:
                if pid not in stopped and os.readlink(f"/proc/{pid}/exe") == own:
                    os.kill(pid, signal.SIGSTOP)
                    stopped.append(pid)
            except OSError:
                pass  # it has ended
    return [pid for pid in stopped if is_at_start(pid, own)]


def is_at_start(pid, own):
    try:
        return os.readlink(f"/proc/{pid}/exe") == own
    except OSError:
        return False


def children(pid):
    found = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                found += [int(child) for child in file.read().split()]
    except OSError:
        pass
    return found
