"""The committed table: its text, and what of it is read again.

Here: Markdown from figures; the bounds of the test, and whether a row has grown. Not here: counting (run.py).
"""

from __future__ import annotations

import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from .. import machine
from .rows import COLUMNS, ROWS, Row
from .run import Figure

#: By how much a row may grow.
BOUND = 0.02
#: The same if the compiler, the C library or the processor's instructions are others than those of the table: other versions of the same compiler
#: differ by some per cent, so the narrow bound would say nothing about the change that is tested.
BOUND_ELSEWHERE = 0.10

#: Instructions of processors that libraries look for when they run, and that are not masked (servers.py).
FLAGS = ("sse4_2", "avx2", "bmi2", "adx", "aes", "pclmulqdq")

FIGURES_HEADING = "## The release build, and its peers"
BOUNDS_HEADING = "## The bounds of `make test`"

HEAD = """\
# Instructions of a request

<!-- UPDATE=1 make instructions writes this page, and UPDATE=1 make test-instructions its last section. -->

Instructions that a server executes in user mode for one request of one client, counted one by one; [README.md](README.md) says how.
"""

#: Server → row → figure.
Figures = Mapping[str, Mapping[str, Optional[Figure]]]


@dataclass(frozen=True)
class Conditions:
    """What the figures depend on, beside the server."""

    rustc: str
    libc: str
    flags: str

    def __str__(self) -> str:
        return f"{self.rustc}; {self.libc}; {self.flags}"


def conditions() -> Conditions:
    rustc = machine.first_line("rustc", "--version") or "rustc unknown"
    cpuinfo = machine.read("/proc/cpuinfo")
    there = set((re.search(r"^flags\s*:\s*(.*)$", cpuinfo, re.MULTILINE) or ["", ""])[1].split())
    return Conditions(rustc, " ".join(platform.libc_ver()), " ".join(flag for flag in FLAGS if flag in there) or "none of them")


def number(value: Optional[float], digits: int = 0) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def lines_of(cells: Sequence[Sequence[str]]) -> list[str]:
    head, *rest = [f"| {' | '.join(line)} |" for line in cells]
    return [head, "|" + "|".join(["---"] + ["---:"] * (len(cells[0]) - 1)) + "|", *rest]


def figures_section(figures: Figures, versions: Mapping[str, str]) -> str:
    servers = [name for name in COLUMNS if name in figures]
    heads = [COLUMNS[name] for name in servers]
    instructions = [["request", *heads]]
    memory = [["request", *heads]]
    for row in ROWS:
        found = [figures[name].get(row.key) for name in servers]
        instructions.append([row.label, *(number(each and each.instructions) for each in found)])
        memory.append([row.label, *(f"{number(each.allocations, 1)}; {number(each.copied)}" if each else "–" for each in found)])
    known = "; ".join(versions[name] for name in servers if versions.get(name))
    return "\n".join(
        [
            FIGURES_HEADING, "", f"Counted with {conditions()}, on {machine.processor(machine.read('/proc/cpuinfo'))}: {known}.", "",
            "Instructions:", "", *lines_of(instructions), "",
            "Calls of the allocator; bytes that memcpy and memmove copy:", "", *lines_of(memory), "",
        ]
    )  # fmt: skip


def bounds_section(figures: Mapping[str, Optional[Figure]]) -> str:
    cells = [["request", "key", "instructions", "allocations", "bytes copied"]]
    for row in ROWS:
        each = figures.get(row.key)
        if each:
            cells.append([row.label, f"`{row.key}`", number(each.instructions), number(each.allocations, 1), number(each.copied)])
    lines = [BOUNDS_HEADING, "", f"Sluice as `make demo` builds it, with {conditions()}.", "", *lines_of(cells), ""]
    return "\n".join(lines)


def section(page: str, heading: str) -> str:
    """The text of a section with its heading, or ""."""
    found = re.search(rf"^{re.escape(heading)}$.*?(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    return found[0].strip() + "\n" if found else ""


def page_of(*sections: str) -> str:
    return "\n".join([HEAD, *(each for each in sections if each)])


def write_figures(path: Path, figures: Figures, versions: Mapping[str, str]) -> None:
    old = path.read_text() if path.is_file() else ""
    path.write_text(page_of(figures_section(figures, versions), section(old, BOUNDS_HEADING)))


def write_bounds(path: Path, figures: Mapping[str, Optional[Figure]]) -> None:
    old = path.read_text() if path.is_file() else ""
    path.write_text(page_of(section(old, FIGURES_HEADING), bounds_section(figures)))


@dataclass(frozen=True)
class Bounds:
    """What the page says."""

    conditions: str
    #: Key of a row → instructions.
    instructions: dict[str, float]

    def allowed_growth(self) -> float:
        return BOUND if self.conditions == str(conditions()) else BOUND_ELSEWHERE


def read_bounds(page: str) -> Bounds:
    text = section(page, BOUNDS_HEADING)
    made_with = re.search(r"`make demo` builds it, with (.*)\.$", text, re.MULTILINE)
    cells = re.findall(r"^\|[^|]*\| `([^`]+)` \| ([\d,]+) \|", text, re.MULTILINE)
    return Bounds(made_with[1] if made_with else "", {key: float(count.replace(",", "")) for key, count in cells})


def has_fallen(row: Row, figure: Optional[Figure], bounds: Bounds) -> bool:
    """Whether the page allows a row to grow back to more than it needs."""
    allowed = bounds.instructions.get(row.key)
    return figure is not None and allowed is not None and figure.instructions < allowed * (1 - bounds.allowed_growth())


def complaint(row: Row, figure: Optional[Figure], bounds: Bounds) -> str:
    """Why a row fails; "" if it does not."""
    allowed = bounds.instructions.get(row.key)
    if figure is None:
        return f"{row.label}: it could not be counted"
    if allowed is None:
        return f"{row.label}: the table has no such row"
    growth = figure.instructions / allowed - 1
    if growth > bounds.allowed_growth():
        return f"{row.label}: {number(figure.instructions)} instructions instead of {number(allowed)}, {100 * growth:+.1f} %"
    return ""
