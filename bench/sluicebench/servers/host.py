"""The environment of a server: its program, a free port, a user for its workers, open files, a socket.

Here: helpers that several servers need. Not here: the servers (base.py), their processes
(processes.py), the description of the machine in the summary (sluicebench/machine.py).
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

# Open files of each server: 4,250 idle connections, or 1,000 with a file or a script each, and some reserve. lighttpd keeps a third of
# them for connections.
OPEN_FILES = 16384

# Longest time for a program to print its version, seconds.
VERSION_SECONDS = 10.0

_ports_given: Set[int] = set()


def free_port() -> int:
    """A different port for each call, because the server that got the previous one may not listen yet."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if port not in _ports_given:
            _ports_given.add(port)
            return port


def listening_socket(path: Path, backlog: int) -> socket.socket:
    """A unix socket for a FastCGI program, which gets it as descriptor 0. Any user may connect, because the server's
    workers may run as another user than the program."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    path.chmod(0o666)
    listener.listen(backlog)
    return listener


def find_program(name: str) -> Optional[str]:
    """Finds a program; Debian installs servers in sbin, which is not in every user's PATH."""
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin")


def output_of(command: Sequence[str]) -> str:
    """The output of a version command, stdout and stderr; "" if it cannot be run."""
    try:
        done = subprocess.run(
            list(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=VERSION_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace")


def unprivileged_user() -> Optional[str]:
    """The user for worker processes if the benchmark runs as root: Debian's for web servers, or nobody; otherwise None."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next((name for name in ("www-data", "nobody") if name in known), "root")


def group_of(user: Optional[str]) -> Optional[int]:
    return pwd.getpwnam(user).pw_gid if user else None


def unprivileged_group(user: str) -> str:
    return grp.getgrgid(pwd.getpwnam(user).pw_gid).gr_name


def child_environment() -> Dict[str, str]:
    """Only PATH is inherited, so that runs do not depend on the caller's environment."""
    return {"PATH": os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin", "LANG": "C"}


def open_files() -> int:
    """OPEN_FILES, or the hard limit if it is lower."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)


def bound_open_files() -> None:
    """Sets the limit of open files for this process and its children. Also lowers it, because some programs close every
    possible descriptor before they start another program, which takes long with a limit of a million."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_files(), resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
