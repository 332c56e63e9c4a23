"""`--processors 2,4`: a complete run for each number of processors, one after the other.

Here: which numbers this machine allows, confining a run to as many processors, the directories of the passes. Not here: the run
(run.py), the summary of all passes (beside.py)."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from . import results
from .results import Results

#: End of the name of a pass's directory.
ENDING = "-processors"


@dataclass(frozen=True)
class Choice:
    #: Those that can be measured, in the order wanted.
    counts: tuple[int, ...]
    #: "4 processors" → why they cannot.
    omitted: dict[str, str] = field(default_factory=dict)


def counts(text: str) -> list[int]:
    """`2,4`, for argparse."""
    words = [word for word in text.split(",") if word]
    wrong = [word for word in words if not word.isdigit() or int(word) < 1]
    if wrong or not words:
        raise argparse.ArgumentTypeError(f"{', '.join(wrong) or 'nothing'}: not a number of processors")
    return list(dict.fromkeys(map(int, words)))


def choose(wanted: Sequence[int], there: int) -> Choice:
    """`there`: processors that this process may use."""
    reason = f"this machine lets the benchmark use {there} processor{'s' if there > 1 else ''}"
    return Choice(
        tuple(count for count in wanted if count <= there), {name_of(count): reason for count in wanted if count > there}
    )


def name_of(count: int) -> str:
    return f"{count} processor{'s' if count > 1 else ''}"


@contextmanager
def confined(count: int) -> Iterator[list[int]]:
    """This process, and with it all servers and load tools that it starts, runs on the first `count` of its processors meanwhile."""
    before = os.sched_getaffinity(0)
    chosen = sorted(before)[:count]
    os.sched_setaffinity(0, chosen)
    try:
        yield chosen
    finally:
        os.sched_setaffinity(0, before)


def directory_of(directory: Path, count: int) -> Path:
    return directory / f"{count}{ENDING}"


def load(directory: Path) -> dict[int, Results]:
    """The passes below a directory, by their number of processors; empty if it is the directory of a single run."""
    found = {}
    for path in directory.glob(f"*{ENDING}/results.json"):
        count = path.parent.name.removesuffix(ENDING)
        if count.isdigit():
            found[int(count)] = results.load(path)
    return dict(sorted(found.items()))
