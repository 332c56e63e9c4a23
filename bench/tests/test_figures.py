"""Tests of medians, ratios within a round, fairness and verdicts."""

from __future__ import annotations

import unittest

from sluicebench.aims import Aim, verdict_on
from sluicebench.figures import Spread, ratio, spread, spread_of
from sluicebench.results import Cell, Results, Sample, failed
from sluicebench.scale import fairness


def cell(*values: float, first: int = 1) -> Cell:
    return {number: Sample(value) for number, value in enumerate(values, first)}


class Spreads(unittest.TestCase):
    def test_median_least_and_most(self) -> None:
        self.assertEqual(spread([3, 1, 10, 2]), Spread(2.5, 1, 10, 4))
        self.assertIsNone(spread([]))

    def test_a_failed_round_fails_the_cell(self) -> None:
        self.assertIsNone(spread_of({**cell(1, 2), 3: failed("no reply")}))


class Ratios(unittest.TestCase):
    def test_they_are_taken_within_the_round(self) -> None:
        # The machine was half as fast in round 2, which does not affect the ratio. The ratio of the medians is 1.5.
        self.assertEqual(ratio(cell(300, 150, 400), cell(200, 100, 200)), Spread(1.5, 1.5, 2.0, 3))

    def test_rounds_that_one_of_them_lacks_do_not_count(self) -> None:
        self.assertEqual(ratio(cell(300, 150), cell(100, first=2)), Spread(1.5, 1.5, 1.5, 1))
        self.assertIsNone(ratio(cell(300), cell(100, first=2)))
        self.assertIsNone(ratio({}, cell(1)))

    def test_a_failure_on_either_side_leaves_none(self) -> None:
        self.assertIsNone(ratio({1: Sample(1.0), 2: failed("x")}, cell(1, 1)))
        self.assertIsNone(ratio(cell(1), {1: failed("x")}))

    def test_nothing_is_divided_by_zero(self) -> None:
        self.assertIsNone(ratio(cell(1), cell(0)))


class Shares(unittest.TestCase):
    def test_deviation_over_mean_and_least_over_most(self) -> None:
        shares = {"least": 50.0, "most": 200.0, "mean": 100.0, "deviation": 25.0}
        found = fairness({1: Sample(1000.0, details=shares)})
        assert found
        self.assertEqual((found.deviation.median, found.least_to_most.median), (0.25, 0.25))
        self.assertIsNone(fairness(cell(1)))


class Verdicts(unittest.TestCase):
    def verdict(self, aim: Aim, **cells: Cell) -> tuple[str, list[str]]:
        results = Results(cells={f"files/{key.replace('_', '/')}": value for key, value in cells.items()})
        verdict = verdict_on(aim, results)
        return verdict.word, verdict.missed

    def test_every_row_must_meet_it(self) -> None:
        aim = Aim("", "files", ("a", "b"), "sluice", "nginx", 1.15)
        self.assertEqual(
            self.verdict(aim, a_sluice=cell(120), a_nginx=cell(100), b_sluice=cell(110), b_nginx=cell(100)),
            ("missed", ["b"]),
        )
        self.assertEqual(
            self.verdict(aim, a_sluice=cell(120), a_nginx=cell(100), b_sluice=cell(115), b_nginx=cell(100)), ("met", [])
        )

    def test_at_most(self) -> None:
        aim = Aim("", "files", ("a",), "sluice", "nginx", 1.5, at_most=True)
        self.assertEqual(self.verdict(aim, a_sluice=cell(1.4), a_nginx=cell(1))[0], "met")
        self.assertEqual(self.verdict(aim, a_sluice=cell(1.6), a_nginx=cell(1))[0], "missed")

    def test_without_figures(self) -> None:
        aim = Aim("", "files", ("a",), "sluice", "nginx", 1.15)
        self.assertEqual(self.verdict(aim, a_sluice=cell(1))[0], "not measured")
        self.assertEqual(self.verdict(aim, a_sluice=cell(1), a_nginx={1: failed("x")})[0], "failed")


if __name__ == "__main__":
    unittest.main()
