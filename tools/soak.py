#!/usr/bin/env python3
"""Soak test: all kinds of requests at once for some minutes, while scripts are killed at random; then the result is checked.

Requests for files, CGI, CGIplus, uploads, chunked uploads, both kinds of bulk output, clients that disconnect, incomplete
requests; meanwhile random script processes of the server are killed. At the end every request whose head was sent must be in
the access log exactly once, complete responses must have been correct to the byte, and the server must have no script
process, as many descriptors as before, and as much memory as before.

usage: tools/soak.py [--sluice target/release/sluice] [--seconds 180] [--clients 40]
Standard library only; traffic on the loopback interface only; exit status 1 if a check fails.
"""

import argparse
import asyncio
import collections
import hashlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

CONFIGURATION = """
[[listen]]
address = "127.0.0.1:0"

[log]
access = "access.log"

[[site]]
root = "htdocs"

  [[site.route]]
  path = "/cgi-bin/*"
  script = { directory = "cgi-bin", mode = "cgi", max = 16, kill_grace = "500ms" }

  [[site.route]]
  path = "/cgiplus-bin/*"
  script = { directory = "cgi-bin", mode = "cgiplus", max = 6, idle = "2s", kill_grace = "500ms", client_grace = "1s" }

  [[site.route]]
  path = "/record-bin/*"
  script = { directory = "cgi-bin", mode = "cgiplus", mailbox = "record", max = 3, idle = "2s", kill_grace = "500ms" }
"""

ECHO = """#!/bin/sh
# Sends the request body back, as CGI.
echo "Content-Type: application/octet-stream"
echo
exec cat
"""

# Without a library: reads each request from CGIPLUSIN, and sends the length and digest of its body.
DIGEST = """#!/usr/bin/env python3
import hashlib, os, sys
orders, body, reply = open(3, "rb"), open(0, "rb", 0), sys.stdout
while True:
    line = orders.readline()
    if not line:
        break
    if line != b"!\\n":
        continue
    variables = {}
    while (line := orders.readline().rstrip(b"\\n")):
        name, _, value = line.partition(b"=")
        variables[name] = value
    left, digest = int(variables.get(b"CONTENT_LENGTH") or 0), hashlib.sha256()
    while left:
        chunk = body.read(min(left, 65536))
        if not chunk:
            sys.exit(1)
        left -= len(chunk)
        digest.update(chunk)
    print("Content-Type: text/plain\\n")
    print(digest.hexdigest(), flush=True)
    # A write of its own: in a record mailbox the sentinel is a record.
    print(os.environ["CGIPLUSEOF"], end="", flush=True)
"""


class Server:
    """The server under test, in a directory of its own."""

    def __init__(self, binary):
        self.directory = tempfile.mkdtemp(prefix="sluice-soak-")
        for name in ("htdocs", "cgi-bin"):
            os.mkdir(self.path(name))
        with open(self.path("htdocs/file.bin"), "wb") as file:
            file.write(random.Random(1).randbytes(300_000))
        for name, text in (("echo", ECHO), ("digest", DIGEST)):
            with open(self.path("cgi-bin", name), "w") as file:
                file.write(text)
            os.chmod(self.path("cgi-bin", name), 0o755)
        for program in ("membufdemo", "cgiplustest"):
            shutil.copy(os.path.join(HERE, "sdk/c/build", program), self.path("cgi-bin"))
        with open(self.path("sluice.toml"), "w") as file:
            file.write(CONFIGURATION)
        self.errors = open(self.path("stderr.log"), "w+b")
        self.process = subprocess.Popen([binary, "run", "--allow-root", "-c", self.path("sluice.toml")], stderr=self.errors)
        self.port = self.wait_for_port()

    def path(self, *names):
        return os.path.join(self.directory, *names)

    def wait_for_port(self):
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with open(self.path("stderr.log")) as log:
                found = re.search(r"http://127\.0\.0\.1:(\d+)/", log.read())
            if found:
                return int(found.group(1))
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        sys.exit("the server did not start:\n" + open(self.path("stderr.log")).read())

    def scripts(self):
        """Pids of the server's children; all of them are script processes."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat") as stat:
                    state, parent = stat.read().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if int(parent) == self.process.pid:
                found.append((int(pid), state))
        return found

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def memory(self):
        """Resident memory of the server without mapped files, KiB."""
        with open(f"/proc/{self.process.pid}/status") as status:
            fields = dict(line.split(":", 1) for line in status)
        return sum(int(fields[name].split()[0]) for name in ("RssAnon", "RssShmem"))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


class Soak:
    """The clients, and the records of their requests."""

    def __init__(self, server, name):
        self.server = server
        self.name = name
        self.sent = {}  # marker -> kind, for every request whose head was sent completely
        self.count = 0
        self.outcome = collections.Counter()
        self.wrong = []
        self.killed = 0
        self.bodies = [random.Random(seed).randbytes(size) for seed, size in enumerate((1, 1000, 70_000, 2_000_000))]
        self.digests = {body: (hashlib.sha256(body).hexdigest() + "\n").encode() for body in self.bodies}
        self.bulk = b"".join(bytes([n]) * 65536 for n in range(48))
        with open(server.path("htdocs/file.bin"), "rb") as file:
            self.file = file.read()

    def kinds(self):
        body = random.choice(self.bodies)
        whole = lambda expected: lambda got: got == expected
        size = random.choice((0, 100, 16384, 65536, 200_000))
        return [
            ("file", "GET", "/file.bin?", None, whole(self.file)),
            ("cgi", "GET", f"/cgi-bin/cgiplustest?{size}+", None, lambda got: len(got) == size),
            ("cgiplus", "GET", f"/cgiplus-bin/cgiplustest?{size}+", None, lambda got: len(got) == size),
            ("echo", "POST", "/cgi-bin/echo?", body, whole(body)),
            ("digest", "POST", "/cgiplus-bin/digest?", body, whole(self.digests[body])),
            ("record", "POST", "/record-bin/digest?", body, whole(self.digests[body])),
            ("mailbox", "GET", "/cgi-bin/membufdemo?3+m+65536+1+", None, whole(self.bulk)),
            ("buffer", "GET", "/cgi-bin/membufdemo?3+b+65536+1+", None, whole(self.bulk)),
            ("buffer+", "GET", "/cgiplus-bin/membufdemo?3+b+65536+1+", None, whole(self.bulk)),
        ]

    async def client(self, until):
        reader = writer = None
        while time.monotonic() < until:
            try:
                if writer is None or random.random() < 0.1:
                    if writer:
                        writer.close()
                    reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
                if not await self.exchange(reader, writer):
                    writer.close()
                    writer = None
            except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError, ValueError) as error:
                self.outcome[type(error).__name__] += 1
                if writer:
                    writer.close()
                writer = None
        if writer:
            writer.close()

    async def exchange(self, reader, writer):
        """One request; false when the connection cannot be used again."""
        kind, method, target, body, is_right = random.choice(self.kinds())
        self.count += 1
        marker = f"{self.name}-{self.count}-{random.getrandbits(48):x}"
        head = f"{method} {target}{marker} HTTP/1.1\r\nHost: soak\r\n"
        is_chunked = body is not None and random.random() < 0.4
        if is_chunked:
            head += "Transfer-Encoding: chunked\r\n"
        elif body is not None:
            head += f"Content-Length: {len(body)}\r\n"
        mood = random.random()
        if mood < 0.02:
            writer.write(head.encode()[: random.randrange(1, len(head))])
            await writer.drain()
            self.outcome["half a head"] += 1
            return False
        writer.write(head.encode() + b"\r\n")
        self.sent[marker] = kind
        if mood < 0.05 and body is not None:
            # At least a part of the body: a head that is followed directly by a close may be discarded unread.
            writer.write((b"1\r\n" if is_chunked else b"") + body[:1])
            await writer.drain()
            self.outcome["half a body"] += 1
            await asyncio.wait_for(reader.read(1), 5) if random.random() < 0.2 else None
            return False
        if body is not None:
            self.write_body(writer, body, is_chunked)
        if 0.05 < mood < 0.09:
            await asyncio.wait_for(reader.read(random.randrange(1, 50_000)), 30)
            self.outcome["left in the middle"] += 1
            return False
        sending = asyncio.ensure_future(writer.drain())
        try:
            status, got = await asyncio.wait_for(self.response(reader), 60)
        finally:
            sending.cancel()
        if status == 200 and not is_right(got):
            self.wrong.append(f"{kind} {marker}: {len(got)} bytes of a complete response are wrong")
        self.outcome[f"{kind} {status}"] += 1
        return status == 200

    @staticmethod
    def write_body(writer, body, is_chunked):
        if not is_chunked:
            writer.write(body)
            return
        for at in range(0, len(body), 50_000):
            chunk = body[at : at + 50_000]
            writer.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        writer.write(b"0\r\n\r\n")

    @staticmethod
    async def response(reader):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        status = int(head.split()[1])
        length = re.search(r"\r\ncontent-length: (\d+)", head)
        if length:
            return status, await reader.readexactly(int(length.group(1)))
        if "transfer-encoding: chunked" not in head:
            raise ValueError("a response without length")
        got = []
        while size := int(await reader.readline(), 16):
            got.append(await reader.readexactly(size))
            await reader.readexactly(2)
        await reader.readexactly(2)
        return status, b"".join(got)

    async def kill_at_random(self, until):
        while time.monotonic() < until:
            await asyncio.sleep(random.uniform(0.02, 0.3))
            scripts = [pid for pid, state in self.server.scripts() if state != "Z"]
            if scripts:
                try:
                    os.kill(random.choice(scripts), random.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV)))
                    self.killed += 1
                except ProcessLookupError:
                    pass

    async def run(self, seconds, clients):
        until = time.monotonic() + seconds
        tasks = [self.client(until) for _ in range(clients)]
        await asyncio.gather(self.kill_at_random(until), *tasks)


def settle(server, baseline, seconds):
    """Waits until the server is idle: no script processes, and as many descriptors as before."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not server.scripts() and server.descriptors() <= baseline:
            return True
        time.sleep(0.1)
    return False


def balance(server, soak, before, findings):
    memory_before, descriptors_before = before
    if not settle(server, descriptors_before, 90):
        findings.append(f"left: {len(server.scripts())} script processes, {server.descriptors()} descriptors, {descriptors_before} before")
    memory = server.memory()
    print(f"memory: {memory_before} KiB before, {memory} KiB after; descriptors: {descriptors_before}, {server.descriptors()}")
    if memory > memory_before + 32 * 1024:
        findings.append(f"memory: {memory - memory_before} KiB more than before")
    if server.stop() != 0:
        findings.append(f"the server ended with status {server.process.returncode}")
    logged = collections.Counter()
    with open(server.path("access.log")) as log:
        for line in log:
            found = re.search(r"soak-[0-9]+-[0-9a-f]+", line)
            if found:
                logged[found.group()] += 1
    missing = [f"{marker} ({kind})" for marker, kind in soak.sent.items() if logged[marker] == 0]
    twice = [marker for marker, count in logged.items() if count > 1]
    print(f"logged: {len(logged)} of {len(soak.sent)} exchanges, {len(twice)} more than once")
    if missing:
        findings.append(f"not logged: {len(missing)}, such as {', '.join(missing[:5])}")
    if twice:
        findings.append(f"logged more than once: {', '.join(twice[:5])}")
    findings.extend(soak.wrong[:20])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sluice", default=os.path.join(HERE, "target/release/sluice"))
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--clients", type=int, default=40)
    options = parser.parse_args()
    server = Server(options.sluice)
    findings = []
    try:
        # Memory that the allocator keeps is not a leak: the first seconds warm it up.
        asyncio.run(Soak(server, "warm").run(min(10, options.seconds / 4), options.clients))
        settle(server, 0, 6)
        before = server.memory(), server.descriptors()
        soak = Soak(server, "soak")
        print(f"soaking for {options.seconds:.0f} s with {options.clients} clients, in {server.directory}", flush=True)
        asyncio.run(soak.run(options.seconds, options.clients))
        for name, count in sorted(soak.outcome.items()):
            print(f"  {count:8} {name}")
        print(f"  {soak.killed:8} script processes killed")
        balance(server, soak, before, findings)
    finally:
        if server.process.poll() is None:
            server.process.kill()
    for finding in findings:
        print("NOT BALANCED:", finding)
    if not findings:
        shutil.rmtree(server.directory)
        print("all books balance")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
