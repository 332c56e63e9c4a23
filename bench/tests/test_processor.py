"""Tests of processor time: readings, parts, control groups; and of passes with different numbers of processors."""

from __future__ import annotations

import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from sluicebench import beside, passes, plan, processor, results
from sluicebench.processor import Reading
from sluicebench.results import NotMeasured, Results, Sample, failed
from sluicebench.servers import meter, processes
from sluicebench.servers.meter import Meter, NoMeter, Place
from sluicebench.servers.processes import Used

from .invented import invented

#: /proc/self/mounts of three systems.
VERSION_1 = "cgroup /sys/fs/cgroup/cpuacct cgroup rw,relatime,cpuacct 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n"
JOINT = "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0\n"
VERSION_2 = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n"


class Differences(unittest.TestCase):
    BEFORE = Reading(1.0, {5: Used(0.5, 0.20), 6: Used(0.1, 0.1)})
    AFTER = Reading(1.6, {5: Used(0.8, 0.30), 7: Used(0.1, 0.05)})

    def test_the_parts_of_scripts(self) -> None:
        sample = processor.difference(self.BEFORE, self.AFTER, 1000, "cgi", 50.0)
        assert sample.value
        self.assertAlmostEqual(sample.value, 600)
        # A process that has begun meanwhile counts from nothing; one that has ended is among the rest.
        for part, figure in (("server", 400), ("code", 150), ("scripts", 200), ("rate", 50)):
            self.assertAlmostEqual(sample.details[part], figure, msg=part)

    def test_a_module_has_no_scripts(self) -> None:
        self.assertNotIn("scripts", processor.difference(self.BEFORE, self.AFTER, 1000, "module", 50.0).details)

    def test_the_server_s_part_is_not_more_than_the_whole(self) -> None:
        sample = processor.difference(Reading(0.0, {}), Reading(0.1, {5: Used(0.11, 0.0)}), 100, "cgi", 1.0)
        self.assertEqual(sample.details["scripts"], 0.0)

    def test_no_time_is_a_failure(self) -> None:
        self.assertTrue(processor.difference(self.BEFORE, self.BEFORE, 10, "file", 1.0).failure)

    def test_each_part_becomes_a_row(self) -> None:
        (table,) = plan.choose(["processor"])
        row = next(row for row in table.rows if row.key == "cgi-0k")
        sample = Sample(10.0, details={"server": 4.0, "scripts": 6.0})
        found = dict(processor.parts_of(table, row, sample))
        self.assertEqual({key: part.value for key, part in found.items()}, {"cgi-0k-server": 4.0, "cgi-0k-scripts": 6.0})
        found = dict(processor.parts_of(table, row, failed("no reply")))
        self.assertEqual({part.failure for part in found.values()}, {"no reply"})

    def test_scripts_that_nobody_waits_for_need_a_control_group(self) -> None:
        server = mock.Mock(meter=None, unawaited=("cgi",))
        with self.assertRaises(NotMeasured):
            processor.read(server, "cgi")
        server.processor_seconds.return_value = 2.0
        self.assertEqual(processor.read(server, "file", with_own=False), Reading(2.0, {}))
        server.meter = mock.Mock(**{"seconds.return_value": 3.0})
        self.assertEqual(processor.read(server, "cgi", with_own=False).total, 3.0)


class Clocks(unittest.TestCase):
    def test_of_a_process(self) -> None:
        used = processes.used_by(os.getpid())
        assert used
        self.assertGreater(used.all, 0)
        self.assertIsNone(processes.used_by(2**22 + 1))


class Groups(unittest.TestCase):
    def test_a_hierarchy_that_shares_out_processors_is_not_used(self) -> None:
        own = "3:cpuacct:/here\n2:cpu,cpuacct:/here\n0::/there\n"
        self.assertEqual(meter.place_of(VERSION_1, own), Place(Path("/sys/fs/cgroup/cpuacct/here"), False))
        self.assertEqual(meter.place_of(JOINT + VERSION_2, own), Place(Path("/sys/fs/cgroup/there"), True))
        with self.assertRaises(NoMeter):
            meter.place_of(JOINT, own)
        with self.assertRaises(NoMeter):
            meter.place_of(VERSION_2, "3:cpuacct:/here\n")

    def test_the_time_of_a_group(self) -> None:
        self.assertEqual(meter.stat_seconds("usage_usec 2500000\nuser_usec 1\n"), 2.5)
        with tempfile.TemporaryDirectory() as name:
            (Path(name) / "cgroup.procs").touch()
            group = Meter("test", Place(Path(name), unified=False))
            (group.directory / "cpuacct.usage").write_text("1500000000\n")
            self.assertEqual(group.seconds(), 1.5)
            with group.started():
                self.assertEqual((group.directory / "cgroup.procs").read_text(), str(os.getpid()))
            self.assertEqual((Path(name) / "cgroup.procs").read_text(), str(os.getpid()))

    def test_where_groups_share_out_processors_or_cannot_be_made_there_is_none(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            control = Path(name) / "cgroup.subtree_control"
            control.write_text("cpu memory\n")
            with self.assertRaisesRegex(NoMeter, "share out"):
                Meter("test", Place(Path(name), unified=True))
            control.write_text("memory\n")
            group = Meter("test", Place(Path(name), unified=True))
            (group.directory / "of the server").mkdir()
            group.remove()
            self.assertFalse(group.directory.exists())
            with self.assertRaisesRegex(NoMeter, "no control group can be made"):
                Meter("test", Place(Path(name) / "nowhere", unified=False))


class Passes(unittest.TestCase):
    def test_more_processors_than_there_are_are_omitted_with_the_reason(self) -> None:
        choice = passes.choose([2, 4], 2)
        self.assertEqual(choice.counts, (2,))
        self.assertEqual(choice.omitted, {"4 processors": "this machine lets the benchmark use 2 processors"})
        self.assertEqual(passes.choose([2, 4], 8), passes.Choice((2, 4), {}))
        self.assertEqual(passes.choose([4], 1).counts, ())

    def test_a_pass_has_as_many_processors_and_the_next_one_the_former_ones(self) -> None:
        before = os.sched_getaffinity(0)
        with passes.confined(1) as chosen:
            self.assertEqual(os.sched_getaffinity(0), set(chosen))
            self.assertEqual(chosen, [min(before)])
        self.assertEqual(os.sched_getaffinity(0), before)

    def test_side_by_side(self) -> None:
        tables = tuple(plan.choose(["scripts", "processor"], rounds=1))
        found = {2: invented(tables), 4: invented(tables)}
        cell = found[4].cell("scripts", "0k-c10", "sluice-cgiplus")
        found[4].add("scripts", "0k-c10", "sluice-cgiplus", 1, failed("7 replies 5xx"))
        text = beside.summary(found, {"aims"})
        self.assertTrue(cell)
        self.assertIn("with 2 and with 4 processors", text)
        self.assertIn("[4 processors](4-processors/summary.md)", text)
        self.assertIn("| / Apache module: 2 | / Apache module: 4 |", text)
        self.assertRegex(text, r"CGIplus 0 kB / Apache module +\| +0 kB, c 10 \|.*failed \|")
        self.assertIn("scripts/0k-c10/sluice-cgiplus: 7 replies 5xx", text)
        self.assertIn("![targets](aims.svg)", text)
        for line in (line for line in text.splitlines() if line.startswith("| 0 kB, c 1 ")):
            self.assertNotIn("failed", line)

    def test_passes_are_found_again_by_their_directories(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            for count in (4, 2):
                directory = passes.directory_of(Path(name), count)
                directory.mkdir()
                Results(machine={"cores": count}).save(directory / "results.json")
            self.assertEqual([(count, found.machine["cores"]) for count, found in passes.load(Path(name)).items()], [(2, 2), (4, 4)])
            results.Results().save(Path(name) / "results.json")
            self.assertEqual(passes.load(Path(name) / "2-processors"), {})


if __name__ == "__main__":
    unittest.main()
