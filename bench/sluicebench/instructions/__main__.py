"""The command: `make instructions` and `make test-instructions`.

    cd bench && python3 -m sluicebench.instructions --sluice PATH --counter PATH                 # a table, beside the peers
    cd bench && python3 -m sluicebench.instructions --sluice PATH --counter PATH --check         # Sluice against the committed table
    cd bench && python3 -m sluicebench.instructions --sluice PATH --counter PATH --profile file-0    # where the instructions are

Here: arguments and output. Not here: counting (run.py), the page (table.py).
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

from ..servers.base import ServerFailed, Site
from . import run, table
from .rows import COLUMNS, ROWS, Row
from .run import Figure
from .servers import SERVERS

REPOSITORY = Path(__file__).resolve().parents[3]
PAGE = REPOSITORY / "bench" / "instructions" / "table.md"
#: Functions that a profile names.
PROFILE_LINES = 40
#: How often a row that has grown is counted again before it fails.
COUNTED_AGAIN = 2


def main(arguments: Optional[Sequence[str]] = None) -> int:
    options = parse(arguments)
    if platform.machine() != "x86_64":
        print("Instructions are counted on x86-64 only: skipped on this machine.")
        return 0
    # What was started is then stopped, as after Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    run.go_first()
    with run.site(REPOSITORY, options.sluice.absolute()) as site:
        try:
            if options.profile:
                return profile(site, options)
            if options.check:
                return check(site, options, PAGE)
            return compare(site, options, PAGE)
        except (ServerFailed, OSError) as failure:
            print(f"instructions: {failure}", file=sys.stderr)
            return 1


def parse(arguments: Optional[Sequence[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="instructions", description=__doc__.partition("\n")[0])
    parser.add_argument("--sluice", type=Path, required=True, help="the server's binary")
    parser.add_argument("--counter", type=Path, required=True, help="the program of bench/instructions")
    parser.add_argument("--check", action="store_true", help="compare Sluice with the committed table")
    parser.add_argument("--profile", choices=[row.key for row in ROWS], help="name the functions with the most instructions of a row")
    parser.add_argument("--servers", type=lambda text: text.split(","), default=list(COLUMNS), help=",".join(COLUMNS))
    parser.add_argument("--rows", type=lambda text: text.split(","), help=",".join(row.key for row in ROWS))
    options = parser.parse_args(arguments)
    options.is_update = os.environ.get("UPDATE") == "1"
    unknown = [name for name in options.servers if name not in COLUMNS]
    unknown += [key for key in options.rows or [] if key not in {row.key for row in ROWS}]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}")
    options.rows = [row for row in ROWS if not options.rows or row.key in options.rows]
    return options


def note(server: str, row: Row, figure: Optional[Figure]) -> None:
    print(f"{COLUMNS[server]:<12} {row.label:<44} {table.number(figure and figure.instructions):>12}", file=sys.stderr)


def counted(site: Site, options: argparse.Namespace, server: str) -> dict[str, Optional[Figure]]:
    figures = {}
    for row, figure in run.count(site, options.counter.absolute(), server, options.rows):
        figures[row.key] = figure
        note(server, row, figure)
    return figures


def compare(site: Site, options: argparse.Namespace, page: Path) -> int:
    """Prints the table, or writes it."""
    figures = {server: counted(site, options, server) for server in options.servers}
    versions = {server: SERVERS[server](site, run.WORKERS).version for server in options.servers}
    print(table.figures_section(figures, versions))
    if options.is_update:
        table.write_figures(page, figures, versions)
        print(f"Written: {page}")
    return 0


def check(site: Site, options: argparse.Namespace, page: Path) -> int:
    """Compares Sluice with the page; with UPDATE=1 the page is written instead."""
    figures = counted(site, options, "sluice")
    if options.is_update:
        table.write_bounds(page, figures)
        print(f"Written: {page}")
        return 0
    bounds = table.read_bounds(page.read_text())
    growth = 100 * bounds.allowed_growth()
    if bounds.conditions != str(table.conditions()):
        print(f"{page.name} was made with {bounds.conditions}. Here: {table.conditions()}. So a row may grow by {growth:.0f} %.")
    for _ in range(COUNTED_AGAIN):
        grown = [row for row in options.rows if table.complaint(row, figures[row.key], bounds)]
        for row in grown:
            figures[row.key] = smaller(figures[row.key], run.count_row(site, options.counter.absolute(), "sluice", row, 0))
            note("sluice", row, figures[row.key])
    complaints = [complaint for row in options.rows if (complaint := table.complaint(row, figures[row.key], bounds))]
    for row in options.rows:
        if table.has_fallen(row, figures[row.key], bounds):
            print(f"{row.label}: fewer than in {page.name}. UPDATE=1 make test-instructions keeps it so.")
    for complaint in complaints:
        print(f"instructions: {complaint} (at most {growth:.0f} %)", file=sys.stderr)
    if complaints:
        print("`make instructions PROFILE=ROW` shows where they are. If it is worth them: UPDATE=1 make test-instructions.", file=sys.stderr)
    return 1 if complaints else 0


def smaller(one: Optional[Figure], other: Optional[Figure]) -> Optional[Figure]:
    """The one with fewer instructions: what disturbs a count adds to it."""
    return min((figure for figure in (one, other) if figure), key=lambda figure: figure.instructions, default=None)


def profile(site: Site, options: argparse.Namespace) -> int:
    """Prints the functions of a row."""
    row = next(row for row in ROWS if row.key == options.profile)
    for server in options.servers[:1]:
        figure = run.count_row(site, options.counter.absolute(), server, row, PROFILE_LINES)
        if figure is None:
            raise ServerFailed(f"{COLUMNS[server]} has no {row.label}")
        print(f"{COLUMNS[server]}, {row.label}: {table.number(figure.instructions)} instructions, of which each function itself has")
        for name, count in figure.profile:
            print(f"{count:>10,.0f}  {100 * count / figure.instructions:>5.1f} %  {name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
