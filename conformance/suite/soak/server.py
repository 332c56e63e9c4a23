"""The server of the soak test: every column of the conformance table, and the C programs of the SDK in all mailboxes."""

import os
import random
import shutil
import signal

import testing

from .. import columns

CONFIGURATION = """
[log]
access = "access.log"

[limits]
memory_buffers = "256MiB"

[[site]]
root = "htdocs"

  [[site.route]]
  path = "/cgi-bin/*"
  script = { directory = "programs", mode = "cgi", max = 8, kill_grace = "500ms" }

  [[site.route]]
  path = "/cgiplus-bin/*"
  script = { directory = "programs", mode = "cgiplus", max = 4, idle = "2s", kill_grace = "500ms", client_grace = "1s" }

  [[site.route]]
  path = "/record-bin/*"
  script = { directory = "programs", mode = "cgiplus", mailbox = "record", max = 3, idle = "2s", kill_grace = "500ms" }

"""

# Without a library: reads each request from CGIPLUSIN, and sends the length and digest of its body.
DIGEST = """#!/usr/bin/env python3
import hashlib, os, sys
requests, body, reply = open(3, "rb"), open(0, "rb", 0), sys.stdout
while True:
    line = requests.readline()
    if not line:
        break
    if line != b"!\\n":
        continue
    variables = {}
    while (line := requests.readline().rstrip(b"\\n")):
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

FILE = random.Random(1).randbytes(300_000)
PROGRAMS = ("membufdemo", "cgiplustest")


def start(chosen):
    """A server for these columns."""
    configuration = '[server]\nsdk = "@SDK@"\n' if any(column.mode in ("rte", "fork") for column in chosen) else ""
    configuration += CONFIGURATION + "".join(column.soak_route() for column in chosen)
    files = columns.script_files() | {"htdocs/file.bin": FILE, "programs/digest": DIGEST, "open/gate": "go\n"}
    server = testing.Server(configuration, files)
    for program in PROGRAMS:
        shutil.copy(os.path.join(testing.CHECKOUT, "sdk/c/build", program), server.path("programs"))
    columns.compile_c(server.path("scripts/probe"))
    return server


def kill_one(server, rng):
    """Kills a random script process, or a child of an engine. A child that a script has started itself (`head`, `cat`) is left alone,
    because a script that does not check it would end its reply well."""
    processes = [process for process in server.processes() if process.state != "Z"]
    scripts = {process.pid for process in server.scripts()}
    engines = {process.pid for process in processes if process.pid in scripts and "engine" in process.command}
    chosen = [process for process in processes if process.pid in scripts or process.parent in engines]
    if not chosen:
        return False
    try:
        os.kill(rng.choice(chosen).pid, rng.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV)))
    except ProcessLookupError:
        return False
    return True


def renew_one(server, rng):
    """Replaces a random script by a copy, as an editor does: engines compile it again, or are replaced."""
    directory = rng.choice(("scripts", "scripts", "apps/python", "apps/perl", "apps/php"))
    names = [name for name in os.listdir(server.path(directory)) if not name.startswith("__")]
    path = server.path(directory, rng.choice(sorted(names)))
    shutil.copy2(path, server.path("copy"))
    os.utime(server.path("copy"))
    os.rename(server.path("copy"), path)
