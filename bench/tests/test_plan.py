"""Tests of the plan: its limits, its order, and that all references to it are valid."""

from __future__ import annotations

import io
import unittest
from collections import Counter

from sluicebench import aims, plan, run
from sluicebench.progress import Progress
from sluicebench.servers import ALL_SERVERS
from sluicebench.servers.applications import WAYS
from sluicebench.servers.base import PROGRAMS
from sluicebench.servers.protocols import H1, PROTOCOLS


class Estimate(unittest.TestCase):
    def test_the_whole_takes_less_than_33_minutes(self) -> None:
        self.assertLess(plan.estimate_seconds(plan.choose()), 33 * 60)

    def test_the_quick_one_less_than_4(self) -> None:
        quick = plan.choose(quick=True)
        keys = ["bandwidth", "scripts", "files", "files-tls", "files-h2", "processor"]
        self.assertEqual([table.key for table in quick], keys)
        self.assertEqual([len(table.measured_rows()) for table in quick], [1, 1, 1, 1, 1, 2])
        self.assertLess(plan.estimate_seconds(quick), 4 * 60)


class Choice(unittest.TestCase):
    def test_tables_and_rounds(self) -> None:
        (table,) = plan.choose(["files"], rounds=2)
        self.assertEqual((table.key, table.rounds), ("files", 2))

    def test_sluice_and_the_limits_are_always_there(self) -> None:
        (table,) = plan.choose(["scripts"], servers=["nginx"])
        self.assertEqual({column.server for column in table.columns}, {"sluice", "nginx", "limit"})


class Order(unittest.TestCase):
    def test_each_round_has_every_row_once_and_the_columns_of_a_row_together(self) -> None:
        tables = plan.choose(["scripts", "transfer"], rounds=2)
        seen = list(run.order(tables))
        self.assertEqual([number for number, *_ in seen], [1] * 17 + [2] * 17)
        self.assertEqual(set(Counter((number, table.key, row.key) for number, table, row, _ in seen).values()), {1})
        for _, table, row, columns in seen:
            self.assertCountEqual([c.key for c in columns], [c.key for c in table.columns_of(row)])

    def test_the_order_of_the_columns_changes_from_round_to_round_and_is_the_same_in_each_run(self) -> None:
        def orders() -> list[tuple[str, ...]]:
            return [tuple(c.key for c in columns) for _, _, _, columns in run.order(plan.choose(["bandwidth"]))]

        self.assertEqual(orders(), orders())
        self.assertGreater(len(set(orders())), 4)

    def test_a_part_is_not_measured_by_itself(self) -> None:
        (table,) = plan.choose(["processor"], rounds=1)
        self.assertEqual([row.key for _, _, row, _ in run.order([table])], [row.key for row in table.rows if not row.of])

    def test_a_table_with_fewer_rounds_ends_earlier(self) -> None:
        last = {table.key: number for number, table, _, _ in run.order(plan.choose(["bandwidth", "scale"]))}
        self.assertEqual(last, {"bandwidth": 7, "scale": 3})


class References(unittest.TestCase):
    def test_keys_are_single_and_fit_a_file_name(self) -> None:
        for table in plan.TABLES:
            for keys in ([row.key for row in table.rows], [column.key for column in table.columns]):
                self.assertEqual(len(keys), len(set(keys)), table.key)
                self.assertTrue(all(key.replace("-", "").replace(".", "").isalnum() for key in keys), keys)

    def test_columns_name_servers_ways_and_columns_that_there_are(self) -> None:
        for table in plan.TABLES:
            for column in table.columns:
                self.assertIn(column.server, {*ALL_SERVERS, "limit"})
                self.assertIn(column.way, {*PROGRAMS, *WAYS, "spawn", "send"})
                if column.against:
                    self.assertEqual(table.column(column.against).server, "sluice")

    def test_a_column_is_compared_with_one_that_is_compared_with_none(self) -> None:
        for table in plan.TABLES:
            for column in table.columns:
                if column.against:
                    self.assertIn(column.against, [ours.key for ours in table.sluice_columns()])

    def test_aims_name_cells_that_are_measured(self) -> None:
        tables = {table.key: table for table in plan.TABLES}
        for aim in (*aims.SPEED_AIMS, *aims.AIMS):
            table = tables[aim.table]
            self.assertEqual(table.column(aim.sluice).server, "sluice", aim.text)
            for peer in filter(None, (aim.peer, *aim.or_peers)):
                self.assertIsNotNone(table.column(peer).against, aim.text)
            rows = {row.key: row for row in table.rows}
            self.assertTrue(aim.rows, aim.text)
            for key in aim.rows:
                self.assertNotIn(aim.peer, rows[key].without)
                self.assertNotIn(aim.sluice, rows[key].without)

    def test_a_part_belongs_to_a_row_of_its_table_and_each_part_has_a_label(self) -> None:
        for table in plan.TABLES:
            measured = {row.key for row in table.measured_rows()}
            for row in table.rows:
                self.assertEqual(bool(row.of), bool(row.part), row.key)
                if row.of:
                    self.assertIn(row.of, measured)
                    self.assertIn(row.part, plan.PARTS)

    def test_ways_of_a_row_are_ways_of_servers(self) -> None:
        for row in (row for table in plan.TABLES for row in table.rows):
            self.assertLessEqual(set(row.ways), set(PROGRAMS))

    def test_every_protocol_is_measured_and_only_multiplexed_ones_have_streams(self) -> None:
        rows = [row for table in plan.TABLES for row in table.rows]
        self.assertEqual({row.protocol for row in rows}, set(PROTOCOLS))
        self.assertTrue(all(row.protocol.multiplexed for row in rows if row.streams > 1))

    def test_a_protocol_is_chosen_by_the_table_or_the_row(self) -> None:
        for table in plan.TABLES:
            clear = all(row.protocol == H1 for row in table.rows)
            self.assertEqual(clear, "TLS" not in table.what, table.key)
            self.assertEqual(len({row.label for row in table.rows}), len(table.rows), table.key)

    def test_programs_have_no_limit_over_tls(self) -> None:
        (table,) = plan.choose(["bandwidth-tls"])
        self.assertFalse([column.key for column in table.columns if column.is_limit])

    def test_the_quick_rows_are_there(self) -> None:
        for table in plan.TABLES:
            self.assertLessEqual(set(plan.QUICK.get(table.key, ())), {row.key for row in table.rows})

    def test_paths(self) -> None:
        (bandwidth,), (rings,), (scripts,), (files,) = (
            plan.choose([key]) for key in ("bandwidth", "rings", "scripts", "files")
        )
        buffer = bandwidth.column("sluice-buffer")
        self.assertEqual(run.path_of(buffer, bandwidth.rows[0], 1000), "membufdemo?1000+b+64k")
        module = bandwidth.column("apache-module")
        self.assertEqual(run.path_of(module, bandwidth.rows[0], 1000), "membufdemo?1000+b+64k")
        self.assertEqual(run.path_of(bandwidth.column("apache-cgi"), bandwidth.rows[0], 1500), "membufdemo?1500+m+64k")
        self.assertEqual(run.path_of(buffer, rings.rows[2], 500), "membufdemo?500+b+64k+4")
        self.assertEqual(run.path_of(scripts.columns[0], scripts.rows[-1], 0), "cgiplustest?65536")
        self.assertEqual(run.path_of(files.columns[0], files.rows[0], 0), "0k.txt")

    def test_the_channel_of_a_row_counts_more_than_the_column_s(self) -> None:
        (table,) = plan.choose(["processor"])
        rows = {row.key: row for row in table.rows}
        for key, channel in (("mailbox", "m"), ("records", "m"), ("buffer", "b")):
            self.assertEqual(run.path_of(table.column("sluice"), rows[key], 500), f"membufdemo?500+{channel}+64k")


class ProgressLine(unittest.TestCase):
    def progress(self, out: io.StringIO, planned: float) -> tuple[Progress, list[float]]:
        now = [0.0]
        return Progress(planned, out, lambda: now[0]), now

    def test_without_a_terminal_a_line_every_few_seconds(self) -> None:
        out = io.StringIO()
        progress, now = self.progress(out, 100)
        for second in range(25):
            now[0] = float(second)
            progress.step(f"step {second}", 1)
        self.assertEqual(out.getvalue(), "1:40 left   step 0\n1:30 left   step 10\n1:20 left   step 20\n")

    def test_the_time_left_follows_the_pace_seen(self) -> None:
        progress, now = self.progress(io.StringIO(), 100)
        progress.done, now[0] = 50, 100.0
        self.assertEqual(progress.left_seconds(), 100)

    def test_on_a_terminal_one_line_is_rewritten(self) -> None:
        out = io.StringIO()
        out.isatty = lambda: True  # type: ignore[method-assign]
        progress, _ = self.progress(out, 10)
        progress.step("one", 1)
        progress.step("two", 1)
        progress.end()
        self.assertEqual(out.getvalue(), "\r\x1b[K0:10 left   one\r\x1b[K0:09 left   two\r\x1b[K")


if __name__ == "__main__":
    unittest.main()
