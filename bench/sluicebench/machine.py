"""The description of the machine, which the figures are shown with.

Here: processor, cores, memory, kernel, tool versions, load, processor rating, Sluice's commit. Not
here: the versions of the servers (servers/)."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
import time
from pathlib import Path
from typing import Any, Optional

#: The fixed loop of the rating: so many SHA-256 of so many bytes on one core, repeated RATINGS times.
RATING_BYTES, RATING_TIMES, RATINGS = 64 * 1024, 400, 10


def describe(repository: Path, program: Path) -> dict[str, Any]:
    return {
        "date": time.strftime("%Y-%m-%d %H:%M %Z"),
        "processor": processor(read("/proc/cpuinfo")),
        "cores": len(os.sched_getaffinity(0)),
        "memory": memory(read("/proc/meminfo")),
        "kernel": f"{platform.system()} {platform.release()}",
        "system": system(read("/etc/os-release")),
        "virtual": "hypervisor" in read("/proc/cpuinfo"),
        "load": os.getloadavg()[0],
        "commit": commit(repository) if repository in program.parents else f"{program}, of another build",
        "version": version(program),
        "tools": tools(),
    }


def read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def processor(cpuinfo: str) -> str:
    found = re.search(r"^(?:model name|Model|cpu model)\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    return found[1].strip() if found else platform.machine()


def memory(meminfo: str) -> str:
    found = re.search(r"^MemTotal:\s+(\d+) kB", meminfo, re.MULTILINE)
    return f"{int(found[1]) / 1024 / 1024:.1f} GiB" if found else "unknown"


def system(os_release: str) -> str:
    found = re.search(r'^PRETTY_NAME="?([^"\n]+)', os_release, re.MULTILINE)
    return found[1] if found else "unknown"


def first_line(*command: str, cwd: Optional[Path] = None) -> str:
    """The first line that a program prints; "" if it is missing or fails."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=30,
            check=False,
            cwd=cwd,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.splitlines()[0].strip() if done.returncode == 0 and done.stdout.strip() else ""


def tools() -> dict[str, str]:
    lines = {
        "h2load": first_line("h2load", "--version").replace("h2load ", ""),
        "curl": " ".join(first_line("curl", "--version").split()[1:2]),
        "openssl": " ".join(first_line("openssl", "version").split()[1:2]),
        "strace": first_line("strace", "-V").rsplit(" ", 1)[-1],
        "Python": platform.python_version(),
        "C compiler": first_line("cc", "--version"),
    }
    return {name: line or "not installed" for name, line in lines.items()}


def version(program: Path) -> str:
    """The version of Sluice: `sluice 0.1.0` → `0.1.0`; "unknown" if it does not run."""
    return "".join(first_line(str(program), "--version").split()[1:2]) or "unknown"


def commit(repository: Path) -> str:
    short = first_line("git", "rev-parse", "--short=10", "HEAD", cwd=repository)
    changed = first_line("git", "status", "--porcelain", "--untracked-files=no", cwd=repository)
    return f"{short}{', with changes' if changed else ''}" if short else "unknown"


def rating() -> dict[str, float]:
    """MB/s of a fixed loop, which distinguishes slow machines from fast ones, and busy ones from idle ones."""
    block = bytes(RATING_BYTES)
    speeds = []
    for _ in range(RATINGS):
        begin = time.perf_counter()
        for _ in range(RATING_TIMES):
            hashlib.sha256(block).digest()
        speeds.append(RATING_BYTES * RATING_TIMES / 1e6 / (time.perf_counter() - begin))
    return {"average": sum(speeds) / len(speeds), "least": min(speeds), "most": max(speeds)}
