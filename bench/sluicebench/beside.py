"""The summary of several passes: the same run with different numbers of processors, side by side.

Here: its Markdown, medians only. Not here: the summary of one pass (report.py), with ranges, all figures and charts."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

from . import passes
from .figures import Spread, ratio, spread_of
from .plan import TABLES
from .report import (
    FAILED, HOW_TO_READ, NOTHING, intro_rows, markdown, notes, number_text, other_targets, picture, ratio_text, targets,
)  # fmt: skip
from .results import Cell, Results, failure_of
from .tables import Column, Table

#: The passes, by number of processors.
Passes = dict[int, Results]


def write(found: Passes, directory: Path) -> Path:
    path = directory / "summary.md"
    path.write_text(summary(found, {file.stem for file in directory.glob("*.svg")}), encoding="utf-8")
    return path


def summary(found: Passes, pictures: set[str]) -> str:
    counts = list(map(str, found))
    parts = [f"# Sluice beside its peers, with {' and with '.join(counts)} processors", intro(found), HOW_TO_READ, what(found)]
    labelled = {passes.name_of(count): results for count, results in found.items()}
    parts += ["## Targets", *targets(labelled), picture("aims", "targets", pictures), "## Other targets", *other_targets(labelled)]
    for table in TABLES:
        if any(results.has_table(table.key) for results in found.values()):
            parts += [f"## {table.title}", table.what, *(side_by_side(table, ours, found) for ours in table.sluice_columns())]
    for count, results in found.items():
        remarks = notes(results)[:-1]
        parts += [f"# Notes, {passes.name_of(count)}", *remarks] if remarks else []
    return "\n\n".join(part for part in parts if part) + "\n"


def intro(found: Passes) -> str:
    by_pass = {count: dict(intro_rows(results)) for count, results in found.items()}
    names = list(dict.fromkeys(name for rows in by_pass.values() for name in rows))
    lines = [[name, *(rows.get(name, "") for rows in by_pass.values())] for name in names]
    return markdown(["machine and run", *map(passes.name_of, found)], [line for line in lines if any(line[1:])])


def what(found: Passes) -> str:
    links = (f"[{passes.name_of(count)}]({count}{passes.ENDING}/summary.md)" for count in found)
    return (
        "Each number of processors is a run of its own, one after the other: servers and load tools together have as many processors,\n"
        "and each server as many workers. Below are the medians; the number of processors stands after the colon. Ranges, all figures and\n"
        f"charts: {', '.join(links)}."
    )


def side_by_side(table: Table, ours: Column, found: Passes) -> str:
    """Sluice's figures and their ratios to each peer, each in all passes."""
    rivals = [c for c in table.rivals(ours.key) if any(is_measured(results, table, c) for results in found.values())]
    unit = f", {table.unit}" if table.unit else ""
    head = ["", *(f"{ours.label}{unit}: {count}" for count in found)]
    head += [f"/ {rival.label}: {count}" for rival in rivals for count in found]
    lines = []
    for row in table.rows:
        mine = [results.cell(table.key, row.key, ours.key) for results in found.values()]
        if any(mine):
            line = [row.label, *(figure_text(cell, spread_of(cell), row.unit) for cell in mine)]
            for rival in rivals:
                theirs = [results.cell(table.key, row.key, rival.key) for results in found.values()]
                line += [ratio_cell(*pair) for pair in zip(mine, theirs)]
            lines.append(line)
    return markdown(head, lines) if lines else ""


def is_measured(results: Results, table: Table, column: Column) -> bool:
    return any(results.cell(table.key, row.key, column.key) for row in table.rows)


def figure_text(cell: Cell, figure: Optional[Spread], unit: str) -> str:
    if failure_of(cell):
        return FAILED
    return f"{number_text(figure.median)}{' ' if unit else ''}{unit}" if figure else NOTHING


def ratio_cell(mine: Cell, theirs: Cell) -> str:
    if failure_of(mine) or failure_of(theirs):
        return FAILED
    figure = ratio(mine, theirs)
    return ratio_text(figure.median) if figure else NOTHING
