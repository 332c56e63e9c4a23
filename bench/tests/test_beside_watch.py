"""Tests of the waits beside a watch: their arithmetic and their table. No server is started."""

import unittest

from sluicebench import beside_watch
from sluicebench.beside_watch import NOBODY, Cell


class TheWaits(unittest.TestCase):
    def test_a_quantile_is_the_smallest_value_that_so_many_do_not_exceed(self) -> None:
        values = list(range(1, 201))
        self.assertEqual([beside_watch.quantile(values, share) for share in (0.5, 0.99, 1.0)], [100, 198, 200])
        self.assertEqual(beside_watch.quantile([7.0], 0.99), 7.0)

    def test_the_difference_is_the_median_of_the_rounds_so_that_one_disturbed_round_does_not_count(self) -> None:
        watched, alone = Cell([[1.0, 3.0], [1.0, 90.0], [1.0, 4.0]]), Cell([[1.0, 2.0]] * 3)
        self.assertEqual(beside_watch.difference(watched, alone, 1.0), 2.0)

    def test_each_watch_is_compared_with_none(self) -> None:
        cells = {"file": {NOBODY.label: Cell([[1.0, 2.0]], [50.0]), "all": Cell([[1.5, 4.0]], [1500.0])}}
        lines = beside_watch.table(cells).splitlines()
        self.assertEqual(lines[2], "| file | none | 50 | 2 | 1.00 | 2.00 | 2.00 |  |  |")
        self.assertEqual(lines[3], "| file | all | 1,500 | 2 | 1.50 | 4.00 | 4.00 | +2.00 | +2.00 |")

    def test_there_is_a_watch_of_each_kind(self) -> None:
        options = [" ".join(watch.options or ()) for watch in beside_watch.WATCHES]
        for kind in ("usual", "octets", "all", "--trigger bytes=", "--status"):
            self.assertTrue(any(kind in option for option in options), kind)


if __name__ == "__main__":
    unittest.main()
