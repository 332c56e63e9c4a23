"""An invented result with every cell of every table, for tests of the reports. No figure in it is real."""

from __future__ import annotations

import random

from sluicebench.plan import TABLES
from sluicebench.results import Results, Sample
from sluicebench.tables import Table

SPEED = {"sluice": 1.3, "sluice-uncached": 1.0, "apache": 0.6, "nginx": 1.0, "lighttpd": 0.9, "h2o": 1.1, "limit": 1.5}


def invented(tables: tuple[Table, ...] = TABLES) -> Results:
    results = Results(
        machine={
            "date": "2026-01-02 03:04 UTC", "processor": "A processor", "cores": 4, "memory": "8.0 GiB",
            "system": "A system",
            "kernel": "Linux 6", "virtual": False, "load": 0.1, "commit": "0123456789", "minutes": 19.5,
            "servers": {"sluice": "sluice 0.1.0", "nginx": "nginx/1.22.1"}, "tools": {"h2load": "1.52"},
            "rating before": {"average": 1400.0, "least": 1390.0, "most": 1410.0},
        },
    )  # fmt: skip
    chance = random.Random(1)
    for table in tables:
        for row in table.rows:
            for column in table.columns_of(row):
                for number in range(1, table.rounds + 1):
                    results.add(
                        table.key, row.key, column.key, number, invented_sample(chance, column.server, row.concurrency)
                    )
    return results


def invented_sample(chance: random.Random, server: str, concurrency: int) -> Sample:
    value = 10_000 * SPEED.get(server, 1.0) * chance.uniform(0.9, 1.1) * concurrency**0.3
    mean = value / concurrency
    return Sample(value, details={"least": mean * 0.8, "most": mean * 1.3, "mean": mean, "deviation": mean * 0.1, "cpu": 1e6 / value})
