"""The results: samples by table, row, column and round, and the file that contains them.

Here: the data, reading and writing results.json. Not here: the workloads (plan.py), medians and ratios (figures.py),
presentation (report.py, charts.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Optional


class NotMeasured(Exception):
    """The reason why there is no figure, in words."""


@dataclass(frozen=True)
class Sample:
    """One measurement: a value, or the reason why there is none. `details` are additional values, such as the clients' shares."""

    value: Optional[float]
    failure: str = ""
    details: dict[str, float] = field(default_factory=dict)


def failed(reason: str) -> Sample:
    return Sample(None, reason or "failed without a reason")


#: The samples of one cell, by round.
Cell = dict[int, Sample]


@dataclass
class Results:
    machine: dict[str, Any] = field(default_factory=dict)
    #: What was omitted, and why: a server, a way of running, a table.
    skipped: dict[str, str] = field(default_factory=dict)
    #: Remarks for the reader: an interruption, a machine that was not idle.
    remarks: list[str] = field(default_factory=list)
    #: "table/row/column" → round → sample.
    cells: dict[str, Cell] = field(default_factory=dict)
    quick: bool = False

    def add(self, table: str, row: str, column: str, round_number: int, sample: Sample) -> None:
        self.cells.setdefault(f"{table}/{row}/{column}", {})[round_number] = sample

    def cell(self, table: str, row: str, column: str) -> Cell:
        return self.cells.get(f"{table}/{row}/{column}", {})

    def has_table(self, table: str) -> bool:
        return any(key.startswith(f"{table}/") for key in self.cells)

    def failures(self) -> Iterator[tuple[str, str]]:
        """Yields (cell, reason) for each cell with a failed sample."""
        for key, cell in self.cells.items():
            reason = failure_of(cell)
            if reason:
                yield key, reason

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), separators=(",", ":")) + "\n")


def failure_of(cell: Cell) -> str:
    """The first reason among the samples; one failed round makes the whole cell fail."""
    return next((sample.failure for _, sample in sorted(cell.items()) if sample.value is None), "")


def load(path: Path) -> Results:
    read = json.loads(path.read_text())
    cells = {
        key: {int(number): Sample(**sample) for number, sample in cell.items()}
        for key, cell in read.pop("cells").items()
    }
    return Results(cells=cells, **read)
