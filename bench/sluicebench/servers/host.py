"""What the machine offers to a server: its program, a free port, a user for its workers, open files, a socket.

Here: small facts and helpers that several servers need. Not here: the servers (base.py), their processes
(processes.py), what is told of the machine in the summary (sluicebench/machine.py).
"""

import grp
import os
import pwd
import resource
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Dict, Optional, Sequence, Set

# Open files of each server: 1,000 connections, each with a file or a script, and room to spare.
OPEN_FILES = 16384

# Longest time for a program to tell its version, seconds.
VERSION_SECONDS = 10.0

_ports_given: Set[int] = set()


def free_port() -> int:
    """Each time another one: the server that was given the last may not listen yet."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if port not in _ports_given:
            _ports_given.add(port)
            return port


def listening_socket(path: Path, backlog: int) -> socket.socket:
    """A unix socket for a FastCGI program, which finds it as its descriptor 0. Any user may connect to it: the server's
    workers may be another than the program's."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    path.chmod(0o666)
    listener.listen(backlog)
    return listener


def find_program(name: str) -> Optional[str]:
    """Debian keeps servers in sbin, which is not in everyone's PATH."""
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin")


def output_of(command: Sequence[str]) -> str:
    """What a program prints when asked for its version, on either output; "" when it cannot be run."""
    try:
        done = subprocess.run(
            list(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=VERSION_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace")


def unprivileged_user() -> Optional[str]:
    """The user for worker processes when the run is root's: Debian's for web servers, or nobody; else None."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next((name for name in ("www-data", "nobody") if name in known), "root")


def group_of(user: Optional[str]) -> Optional[int]:
    return pwd.getpwnam(user).pw_gid if user else None


def unprivileged_group(user: str) -> str:
    return grp.getgrgid(pwd.getpwnam(user).pw_gid).gr_name


def child_environment() -> Dict[str, str]:
    """Nothing of the caller's but PATH: what runs is then the same for everyone."""
    return {"PATH": os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin", "LANG": "C"}


def open_files() -> int:
    """OPEN_FILES, or fewer where fewer are allowed."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)


def bound_open_files() -> None:
    """For this process and all that it starts. Not more, where more is allowed: some programs close every descriptor
    that there could be before they start another, which takes its time with a million of them."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_files(), resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
