"""Tests of the summary of an invented result, and of results.json."""

from __future__ import annotations

import io
import tarfile
import tempfile
import unittest
from contextlib import redirect_stderr
from pathlib import Path

from sluicebench import __main__ as command
from sluicebench import plan, report, results
from sluicebench.results import Results, Sample, failed

from .invented import invented


class Summary(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.invented = invented()

    def test_it_has_the_machine_the_targets_and_every_table(self) -> None:
        text = report.summary(self.invented, {"aims", "files-kept"})
        for title in ("## Targets", "## Other targets", *(f"## {table.title}" for table in plan.TABLES)):
            self.assertIn(f"\n{title}\n", text)
        self.assertIn("1,400 MB/s on average, 1,390 to 1,410 MB/s", text)
        self.assertIn("bandwidth 7, bandwidth-tls 5, records 3", text)

    def test_only_pictures_that_are_there_are_shown(self) -> None:
        text = report.summary(self.invented, {"aims", "files-kept"})
        self.assertIn("![Files](files-kept.svg)", text)
        self.assertEqual(text.count(".svg)"), 2)

    def test_a_picture_belongs_to_the_table_with_the_longest_name(self) -> None:
        for stem, key in (
            ("files-kept", "files"),
            ("files-tls", "files-tls"),
            ("files-h2-clear", "files-h2"),
            ("transfer", "transfer"),
            ("aims", ""),
        ):
            self.assertEqual(report.table_of(stem), key)

    def test_columns_of_a_table_stand_under_each_other(self) -> None:
        table: list[str] = []
        for line in report.summary(self.invented, set()).splitlines():
            if line.startswith("|"):
                table.append(line)
                self.assertEqual(len(line), len(table[0]), line)
            else:
                table = []

    def test_a_failed_cell_is_no_number_and_has_its_reason(self) -> None:
        spoilt = invented(tuple(plan.choose(["files"])))
        spoilt.add("files", "0k-c10-kept", "nginx", 3, failed("7 replies 5xx"))
        text = report.summary(spoilt, set())
        row = next(line for line in text.splitlines() if line.startswith("| 0k, c 10 "))
        self.assertEqual(row.count("failed"), 1)
        self.assertIn("- files/0k-c10-kept/nginx: 7 replies 5xx", text)
        aim = next(line for line in text.splitlines() if "files 0 k, 64 k at 10, 64 / nginx" in line)
        self.assertRegex(aim, r"\d of 8 .*(failed|missed)")

    def test_with_sluice_alone(self) -> None:
        alone = Results(
            cells={key: cell for key, cell in self.invented.cells.items() if key.rpartition("/")[2].startswith("sluice")}
        )
        alone.skipped["nginx"] = "nginx is not installed\nand more"
        text = report.summary(alone, set())
        self.assertIn("- nginx: nginx is not installed\n", text)
        self.assertIn("not measured", text)

    def test_each_row_of_a_target_has_its_verdict(self) -> None:
        found = Results()
        for row, ours in (("64k-c10", 110.0), ("64k-c64", 100.0)):
            found.add("scripts", row, "sluice-cgiplus", 1, Sample(ours))
            found.add("scripts", row, "apache-module", 1, Sample(100.0))
        text = report.summary(found, set())
        self.assertRegex(text, r"CGIplus 64 kB / Apache module +\| 64 kB, c 10 +\| ≥ 1\.05 \| +1\.10 \| +met \|")
        self.assertRegex(text, r"CGIplus 64 kB / Apache module +\| 64 kB, c 64 +\| ≥ 1\.05 \| +1\.00 \| \*\*missed\*\* \|")
        self.assertIn("1 of the 2 measured rows of the targets are met.", text)

    def test_a_target_may_be_a_figure_instead_of_a_ratio(self) -> None:
        found = Results()
        found.add("processor", "kept-0k-code", "sluice", 1, Sample(7.5))
        self.assertRegex(report.summary(found, set()), r"own code of a CGIplus request.*≤ 8 µs \| +7\.50 \| +met \|")

    def test_the_best_of_several_peers_counts_and_is_named(self) -> None:
        found = Results()
        for column, value in (("sluice", 100.0), ("nginx", 80.0), ("lighttpd", 110.0)):
            found.add("transfer", "2MB-c1", column, 1, Sample(value))
        self.assertRegex(report.summary(found, set()), r"transfer / best peer.*0\.91 / lighttpd \| \*\*missed")

    def test_of_nothing(self) -> None:
        text = report.summary(Results(), set())
        self.assertIn("No table with targets", text)
        self.assertIn("No table with these targets", text)


class Numbers(unittest.TestCase):
    def test_three_digits_are_enough(self) -> None:
        for value, text in ((12345.6, "12,346"), (99.96, "100.0"), (1.239, "1.24"), (0.0, "0.00"), (-250.0, "-250")):
            self.assertEqual(report.number_text(value), text)


class File(unittest.TestCase):
    def test_what_was_saved_is_read_again(self) -> None:
        before = invented(tuple(plan.choose(["bandwidth"])))
        before.remarks.append("a remark")
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "results.json"
            before.save(path)
            self.assertEqual(results.load(path), before)


class Arguments(unittest.TestCase):
    def test_names_are_checked(self) -> None:
        self.assertEqual(command.parse(["--tables", "files,cost"]).tables, ["files", "cost"])
        complaint = io.StringIO()
        with self.assertRaises(SystemExit), redirect_stderr(complaint):
            command.parse(["--servers", "iis"])
        self.assertIn("iis: not one of sluice, apache", complaint.getvalue())

    def test_numbers_of_processors(self) -> None:
        self.assertEqual(command.parse(["--processors", "2,4,2"]).processors, [2, 4])
        for text in ("2,x", "0", ","):
            with self.subTest(text), self.assertRaises(SystemExit), redirect_stderr(io.StringIO()):
                command.parse(["--processors", text])


class RawData(unittest.TestCase):
    def test_it_is_kept_under_the_name_of_the_version(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            (directory / "raw").mkdir()
            (directory / "raw" / "scripts-0k-c1-sluice-cgi.txt").write_text("== round 1\n")
            command.keep_raw(directory, "0.1.0")
            with tarfile.open(directory / "raw-0.1.0.tar.xz") as archive:
                self.assertEqual(archive.getnames(), ["raw-0.1.0", "raw-0.1.0/scripts-0k-c1-sluice-cgi.txt"])
        self.assertTrue(command.new_directory("0.1.0").name.startswith("0.1.0-2"))


class Proportions(unittest.TestCase):
    def test_the_ways_of_sluice_stand_beside_each_other(self) -> None:
        text = report.summary(invented(), set())
        for head in (r"\| +/ Sluice mailbox +\|", r"\| +/ Sluice CGI +\|"):
            self.assertRegex(text, head)

    def test_the_tables_that_wasd_has_published_are_a_group(self) -> None:
        keys = [table.key for table in plan.choose(["wasd"])]
        self.assertEqual(keys, ["cache", "scripts-close", "lookup", "record-formats"])
        (cache,) = plan.choose(["cache"])
        self.assertEqual([column.key for column in cache.columns], ["sluice", "sluice-uncached"])
        self.assertFalse(any(row.keep_alive for row in cache.rows))


if __name__ == "__main__":
    unittest.main()
