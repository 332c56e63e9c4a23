"""The table and the runner: a cell that fails, or is empty without a reason, must not be overlooked."""

import importlib.machinery
import importlib.util
import os
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = os.path.join(os.path.dirname(HERE), "docs/reference/conformance.md")


def load():
    """The program `run` as a module."""
    loader = importlib.machinery.SourceFileLoader("run", os.path.join(HERE, "run"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("run", loader))
    loader.exec_module(module)
    return module


run = load()
from suite.columns import COLUMNS, Column  # noqa: E402
from suite.registry import BEHAVIOURS, Behaviour  # noqa: E402
from suite.table import Table  # noqa: E402


def ok(cell):
    """It works."""


def fails(cell):
    """It fails."""
    raise AssertionError("this is wrong")


class Runner(unittest.TestCase):
    def run_with(self, behaviours, columns):
        started = unittest.mock.Mock()
        no_files = unittest.mock.patch.object(run.columns, "temporary_files", return_value=[])
        with no_files, unittest.mock.patch.object(run.columns, "start", return_value=started):
            result = run.Run(columns, behaviours, True)
            result.all()
        return result

    def test_cells(self):
        columns = [Column("C", "cgi", "library", "x"), Column("C", "rte", "library", "x", absent="No engine.")]
        gap = Behaviour("never", ok, [(lambda column: True, "It cannot be.")])
        result = self.run_with([Behaviour("works", ok, []), Behaviour("fails", fails, []), gap], columns)
        self.assertEqual(len(result.failures), 1)
        self.assertIn("this is wrong", result.failures[0])
        text = result.table.text()
        self.assertRegex(text, r"works +ok +\[1\]\nfails +FAIL +\[1\]\nnever +\[2\] +\[1\]\n")
        self.assertIn("[1] No engine.\n[2] It cannot be.\n", text)
        self.assertIn("| works | ok | [1] |\n", result.table.markdown())

    def test_missing(self):
        columns = [Column("C", "cgi", "library", "x", needs=["no-such-program"])]
        self.assertEqual(self.run_with([Behaviour("works", ok, [])], columns).failures, ["C CGI (library): missing: no-such-program"])

    def test_unexplained_gap(self):
        result = run.Run([Column("C", "cgi", "library", "x")], [Behaviour("works", ok, [])], False)
        self.assertEqual(result.gaps(), ["C CGI (library), works: no result and no reason"])


class Page(unittest.TestCase):
    def test_page(self):
        """The page is that of a run in which every cell is green or has its reason; `conformance/run --check` compares a real one."""
        table = Table(BEHAVIOURS, COLUMNS)
        for column in COLUMNS:
            for behaviour in BEHAVIOURS:
                reason = column.absent or behaviour.gap(column)
                table.set(behaviour, column, "ok") if reason is None else table.set_gap(behaviour, column, reason)
        with open(PAGE, encoding="utf-8") as page:
            self.assertEqual(page.read(), table.markdown())

    def test_every_behaviour_is_described(self):
        self.assertEqual([behaviour.title for behaviour in BEHAVIOURS if not behaviour.description], [])
        titles = [behaviour.title for behaviour in BEHAVIOURS]
        self.assertEqual(len(titles), len(set(titles)))
        names = [column.name for column in COLUMNS]
        self.assertEqual(len(names), len(set(names)))


if __name__ == "__main__":
    unittest.main()
