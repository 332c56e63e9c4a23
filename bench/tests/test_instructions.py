"""Tests of the table of instructions: what is written is read again, and a row that has grown is found. Nothing is counted."""

import tempfile
import unittest
from pathlib import Path
from unittest import mock

from sluicebench.instructions import __main__, run, table
from sluicebench.instructions.rows import ROWS
from sluicebench.instructions.run import Figure, read
from sluicebench.instructions.servers import SERVERS

ROW = ROWS[0]


def figure(instructions: float) -> Figure:
    return Figure(instructions, 5, 9000)


class ACount(unittest.TestCase):
    def count(self, *outcomes: object) -> object:
        with mock.patch.object(run, "count_once", side_effect=outcomes), mock.patch("sys.stderr"):
            return run.count_row(mock.Mock(), Path("counter"), "sluice", ROW, 0)

    def test_a_request_without_a_reply_is_counted_once_more(self) -> None:
        self.assertEqual(self.count(run.NoReply("first"), figure(20_000)), figure(20_000))
        with self.assertRaises(run.NoReply):
            self.count(run.NoReply("first"), run.NoReply("second"), figure(20_000))

    def test_another_failure_is_not_hidden_by_a_second_count(self) -> None:
        with self.assertRaisesRegex(run.ServerFailed, "not 200"):
            self.count(run.ServerFailed("not 200"), figure(20_000))


class TheTable(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.page = Path(directory.name) / "table.md"

    def bounds(self, instructions: float) -> table.Bounds:
        table.write_bounds(self.page, {ROW.key: figure(instructions)})
        return table.read_bounds(self.page.read_text())

    def test_bounds_that_are_written_are_read_again(self) -> None:
        bounds = self.bounds(22_104)
        self.assertEqual(bounds.instructions, {ROW.key: 22_104})
        self.assertEqual(bounds.conditions, str(table.conditions()))

    def test_each_section_is_written_without_a_change_of_the_other(self) -> None:
        self.bounds(20_000)
        table.write_figures(self.page, {"sluice": {ROW.key: figure(10_000)}}, {"sluice": "sluice 1"})
        self.assertEqual(table.read_bounds(self.page.read_text()).instructions, {ROW.key: 20_000})
        self.bounds(30_000)
        self.assertIn("| 10,000 |", self.page.read_text())

    def test_a_row_that_has_grown_by_more_than_the_bound_is_a_mistake(self) -> None:
        bounds = self.bounds(10_000)
        self.assertEqual(table.complaint(ROW, figure(10_199), bounds), "")
        self.assertIn("10,201 instructions instead of 10,000", table.complaint(ROW, figure(10_201), bounds))

    def test_a_row_that_is_missing_here_or_in_the_table_is_a_mistake(self) -> None:
        bounds = self.bounds(10_000)
        self.assertIn("could not be counted", table.complaint(ROW, None, bounds))
        self.assertIn("no such row", table.complaint(ROWS[1], figure(1), bounds))

    def test_with_another_compiler_the_bound_is_wider_but_there(self) -> None:
        bounds = self.bounds(10_000)
        with mock.patch.object(table, "conditions", return_value="rustc 0.1"):
            self.assertEqual(table.complaint(ROW, figure(10_900), bounds), "")
            self.assertIn("+11.0 %", table.complaint(ROW, figure(11_100), bounds))

    def test_a_row_that_has_fallen_is_noticed(self) -> None:
        bounds = self.bounds(10_000)
        self.assertFalse(table.has_fallen(ROW, figure(9_900), bounds))
        self.assertTrue(table.has_fallen(ROW, figure(9_700), bounds))


class Counting(unittest.TestCase):
    def test_the_smaller_of_two_counts_is_taken(self) -> None:
        self.assertEqual(__main__.smaller(figure(2), figure(1)), figure(1))
        self.assertEqual(__main__.smaller(None, figure(1)), figure(1))
        self.assertIsNone(__main__.smaller(None, None))

    def test_what_the_counting_program_prints_is_read(self) -> None:
        found = read('{"instructions": 1.5, "allocations": 2, "copied": 3, "each": [1], "by_the_clock": 0, "profile": [["main", 1.0]]}')
        self.assertEqual(found, Figure(1.5, 2, 3, [("main", 1.0)]))

    def test_every_column_has_a_server(self) -> None:
        self.assertEqual(set(SERVERS), set(__main__.COLUMNS))
