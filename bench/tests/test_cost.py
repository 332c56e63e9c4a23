"""Tests of reading strace's table and /proc, and of detecting closed connections."""

from __future__ import annotations

import socket
import unittest
from pathlib import Path

from sluicebench import cost
from sluicebench.results import NotMeasured, Sample

FIXTURES = Path(__file__).parent / "fixtures"


class Strace(unittest.TestCase):
    def test_calls_by_name_with_and_without_errors(self) -> None:
        calls = cost.parse_strace((FIXTURES / "strace-cgi.txt").read_text())
        self.assertEqual(calls["execve"], 200)
        self.assertEqual(calls["epoll_wait"], 920)
        self.assertEqual(sum(calls.values()), 34596)  # the total in its last line
        self.assertNotIn("total", calls)

    def test_no_table(self) -> None:
        self.assertEqual(cost.parse_strace("strace: attach: Operation not permitted\n"), {})


class Proc(unittest.TestCase):
    def test_a_field_of_smaps_rollup(self) -> None:
        text = "55d0-7ffd ---p 00000000 00:00 0  [rollup]\nRss:  4096 kB\nPss:  1234 kB\nPss_Dirty:  99 kB\n"
        self.assertEqual(cost.rollup_kib(text, "Pss"), 1234)
        with self.assertRaises(NotMeasured):
            cost.rollup_kib("", "Pss")

    def test_a_memory_file_that_may_not_be_read_is_a_reason(self) -> None:
        sample = cost.attempt(lambda: Sample(cost.pss_kib([2**22 + 1])))
        self.assertIsNone(sample.value)
        self.assertIn("No such file", sample.failure)


class IdleConnection(unittest.TestCase):
    def test_a_closed_one_is_distinguished_from_an_open_one(self) -> None:
        here, there = socket.socketpair()
        with here, there:
            self.assertTrue(cost.is_open(here))
            there.close()
            self.assertFalse(cost.is_open(here))


class Settling(unittest.TestCase):
    def test_an_idle_connection_is_measured_among_thousands(self) -> None:
        # A server's memory changes by some hundred KiB of its own accord: less than a tenth of a KiB for each.
        self.assertGreaterEqual(cost.IDLE_CONNECTIONS, 4000)


class Steadiness(unittest.TestCase):
    def test_memory_is_steady_when_its_last_looks_are_alike(self) -> None:
        self.assertFalse(cost.is_steady([100.0]))
        self.assertFalse(cost.is_steady([9000.0, 100.0, 100.0, 100.0]))
        self.assertTrue(cost.is_steady([9000.0, 100.0, 110.0, 100.0, 131.0]))
        self.assertFalse(cost.is_steady([100.0, 100.0, 100.0, 133.0]))

if __name__ == "__main__":
    unittest.main()
