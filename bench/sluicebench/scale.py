"""Fairness: the share of each connection in the whole throughput.

Here: the figures computed from h2load's line about its clients. Not here: the rows (plan.py), the load (load.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from .figures import Spread, spread
from .results import Cell, failure_of


@dataclass(frozen=True)
class Fairness:
    #: Standard deviation of the connections' shares over their mean: 0 if all are equal.
    deviation: Spread
    #: The smallest share over the largest: 1 if all are equal, 0 if one gets nothing.
    least_to_most: Spread


def fairness(cell: Cell) -> Optional[Fairness]:
    """None without samples with shares, or after a failure."""
    shares = [sample.details for sample in cell.values() if sample.details.get("mean")]
    if failure_of(cell) or not shares:
        return None
    deviation = spread(share["deviation"] / share["mean"] for share in shares)
    least_to_most = spread(share["least"] / share["most"] for share in shares)
    return Fairness(deviation, least_to_most) if deviation and least_to_most else None
