"""Medians, spreads, and ratios within the round.

Here: the statistics. Not here: measuring the samples (run.py), formatting figures (report.py)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Optional

from .results import Cell, failure_of


@dataclass(frozen=True)
class Spread:
    """The median of some values, with the smallest and the largest."""

    median: float
    least: float
    most: float
    count: int


def spread(values: Iterable[float]) -> Optional[Spread]:
    seen = list(values)
    return Spread(median(seen), min(seen), max(seen), len(seen)) if seen else None


def spread_of(cell: Cell) -> Optional[Spread]:
    """None for a cell that was not measured or has a failure, so that an incomplete result is never shown as a number."""
    return None if failure_of(cell) else spread(sample.value for sample in cell.values() if sample.value is not None)


def ratio(over: Cell, under: Cell) -> Optional[Spread]:
    """Returns over / under for each round that both have. None if one of them failed."""
    if failure_of(over) or failure_of(under):
        return None
    pairs = [(over[number].value, under[number].value) for number in sorted(over.keys() & under.keys())]
    return spread(a / b for a, b in pairs if a is not None and b)


def detail(cell: Cell, name: str) -> Optional[Spread]:
    """The spread of a detail, over the samples that have it."""
    return (
        None if failure_of(cell) else spread(sample.details[name] for sample in cell.values() if name in sample.details)
    )
