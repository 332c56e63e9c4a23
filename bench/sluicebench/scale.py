"""Fairness: what each connection gets of what all get.

Here: the figures made of h2load's line on its clients. Not here: the rows (plan.py), the load (load.py); workers and
connections are rows like others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from .figures import Spread, spread
from .results import Cell, failure_of


@dataclass(frozen=True)
class Fairness:
    #: Standard deviation of the connections' shares over their mean: 0 when all get the same.
    deviation: Spread
    #: The smallest share over the largest: 1 when all get the same, 0 when one gets nothing.
    least_to_most: Spread


def fairness(cell: Cell) -> Optional[Fairness]:
    """None without samples that have shares, or after a failure."""
    shares = [sample.details for sample in cell.values() if sample.details.get("mean")]
    if failure_of(cell) or not shares:
        return None
    deviation = spread(share["deviation"] / share["mean"] for share in shares)
    least_to_most = spread(share["least"] / share["most"] for share in shares)
    return Fairness(deviation, least_to_most) if deviation and least_to_most else None
