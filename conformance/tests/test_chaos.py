"""The chaos test's own arithmetic: what follows from the seed, what counts as lost, and what a response of HTTP/2 says."""

import contextlib
import io
import os
import random
import sys
import unittest

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "sdk")]

from suite.chaos import clients, http2, kinds  # noqa: E402
from suite.chaos.books import DEATH, Books, Windows  # noqa: E402
from suite.columns import COLUMNS  # noqa: E402

COLUMNS_HERE = [column for column in COLUMNS if not column.absent]


def requests(seed, count=300):
    """The first requests of a seed."""
    found = []
    for number in range(count):
        rng = random.Random(f"{seed} {number}")
        kind = kinds.choose(rng, COLUMNS_HERE, f"chaos-{number}-{rng.getrandbits(32):x}")
        found.append((kind.name, kind.target, kind.body, kind.headers))
    return found


class Seed(unittest.TestCase):
    def test_requests_follow_from_the_seed(self):
        self.assertEqual(requests(7), requests(7))
        self.assertNotEqual(requests(7), requests(8))

    def test_every_kind_of_engine_is_requested(self):
        names = {name for name, *_ in requests(1, 3000)}
        for word in ("file", "listing", "report", "value, ring", "liar", "record", "value, CGI", "mailbox"):
            self.assertIn(word, names)
        for word in ("python-rte ", "perl-rte ", "php-rte ", "python-rte-app ", "python-fork"):
            self.assertTrue(any(name.startswith(word) for name in names), word)

    def test_a_response_of_lines_has_its_size(self):
        for size in kinds.SIZES:
            self.assertEqual(len(kinds.lines("chaos-1-ff", size)), size)
        self.assertEqual(kinds.lines("ab", 7), b"ab\nab\na")


class Accounts(unittest.TestCase):
    def setUp(self):
        self.books, self.windows = Books("chaos"), Windows()
        for number in range(4):
            self.books.begin(number, "file", 10.0 * number)
            self.books.end(number, "file", "right", 10.0 * number + 1)

    def check(self, *numbers):
        return self.books.check([f'"GET /?chaos-{number}-ab HTTP/1.1" 200 1\n' for number in numbers], self.windows)

    def test_one_line_each_is_right(self):
        findings, summary = self.check(2, 0, 1, 3)
        self.assertEqual((findings, summary["logged"], summary["lost"]), ([], 4, 0))

    def test_a_missing_line_and_a_second_one_are_found(self):
        findings, summary = self.check(0, 1, 1, 3)
        self.assertEqual((summary["lost"], summary["logged more than once"]), (1, 1))
        self.assertTrue(any("not logged: chaos-2" in finding for finding in findings), findings)
        self.assertTrue(any("2 times: chaos-1" in finding for finding in findings), findings)

    def test_a_line_of_no_exchange_is_found(self):
        findings, _ = self.check(0, 1, 2, 3, 9)
        self.assertIn("never sent", findings[0])

    def test_only_what_was_unwritten_when_the_server_was_killed_may_be_missing(self):
        self.windows.open(DEATH, 21.5)
        self.windows.close(DEATH, 23.0)
        # Exchange 2 ended half a second before; exchange 1 ten seconds before.
        _, summary = self.check(0, 1, 3)
        self.assertEqual((summary["lost"], summary["unwritten when the server was killed"]), (0, 1))
        _, summary = self.check(0, 2, 3)
        self.assertEqual((summary["lost"], summary["unwritten when the server was killed"]), (1, 0))

    def test_a_line_that_could_not_be_written_is_lost_with_the_server(self):
        self.windows.open("log disk full", 20.5)
        self.windows.close("log disk full", 25.0)
        findings, summary = self.check(0, 1, 3)
        self.assertEqual(summary["lost"], 1)
        self.assertTrue(any("not logged: chaos-2" in finding and "log disk full 20.500 to 25.000" in finding for finding in findings), findings)
        self.windows.open(DEATH, 25.5)
        self.windows.close(DEATH, 26.0)
        self.assertEqual(self.check(0, 1, 3)[1]["unwritten when the server was killed"], 1)
        # Exchange 1 had ended nine seconds before the disk was full.
        self.assertEqual(self.check(0, 2, 3)[1]["lost"], 1)

    def test_an_exchange_that_the_client_has_left_may_be_missing_but_not_twice(self):
        self.books.begin(4, "file", 50.0)
        self.books.end(4, "file", "reset at once", 50.1, is_doubtful=True)
        self.assertEqual(self.check(0, 1, 2, 3)[0], [])
        self.assertEqual(self.check(0, 1, 2, 3, 4)[0], [])
        self.assertNotEqual(self.check(0, 1, 2, 3, 4, 4)[0], [])

    def test_markers_of_others_are_found(self):
        self.assertEqual(self.books.others("chaos-3-abcd", b"chaos-3-abcd\nchaos-3-abc"), [])
        self.assertEqual(self.books.others("chaos-3-abcd", b"chaos-3-abcd\nchaos-4-abcd\n"), [b"chaos-4-abcd"])

    def test_windows_overlap_at_their_ends(self):
        self.windows.open("a", 1.0)
        self.windows.close("a", 2.0)
        self.windows.open("a", 5.0)
        for begun, ended, expected in ((0, 0.9, False), (0, 1.0, True), (1.5, 1.6, True), (2.1, 4.9, False), (2.1, 5.0, True), (9, 9, True)):
            self.assertEqual(self.windows.overlaps(["a"], begun, ended), expected, (begun, ended))
        self.assertFalse(self.windows.overlaps(["b"], 0, 9))


class Judgements(unittest.TestCase):
    def judged(self, killed_at, failure):
        """The findings about a file for which there was this failure. It was the second exchange of its connection; the server was killed at this time."""
        chaos = clients.Chaos(None, [], "chaos", 1, 1)
        chaos.windows.open(DEATH, killed_at)
        chaos.windows.close(DEATH, killed_at + 1)
        chaos.books.begin(0, "file", 20.0, since=10.0)
        kind = kinds.FILES[0](None, "chaos-0-ab")
        with contextlib.redirect_stdout(io.StringIO()):
            chaos.judge(kind, "chaos-0-ab", 0, clients.Response(None, b"", failure, False))
        return chaos.findings

    def test_no_response_is_excused_by_a_death_since_the_exchange_before_on_the_connection(self):
        self.assertEqual(self.judged(15.0, "nothing"), [])
        self.assertEqual(len(self.judged(5.0, "nothing")), 1)

    def test_a_truncated_response_is_excused_only_by_a_death_within_the_exchange(self):
        self.assertEqual(self.judged(25.0, "truncated"), [])
        self.assertEqual(len(self.judged(15.0, "truncated")), 1)


class Http2(unittest.TestCase):
    def test_status_in_each_representation(self):
        # Indexed; a literal with the name of index 8: plain, and with Huffman codes (RFC 7541, C.6.1: 302).
        for block, status in ((b"\x88", 200), (b"\x8d", 404), (b"\x20\x88", 200), (b"\x08\x03502", 502), (b"\x48\x82\x64\x02", 302)):
            self.assertEqual(http2.status_of(block), status)
        with self.assertRaises(ValueError):
            http2.status_of(b"\x82")

    def test_long_texts_have_lengths_in_several_bytes(self):
        self.assertEqual(http2.literal("a" * 126)[0], 126)
        self.assertEqual(http2.literal("a" * 300)[:3], bytes([127, 173 & 127 | 128, 1]))


if __name__ == "__main__":
    unittest.main()
