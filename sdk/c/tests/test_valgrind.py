"""The library under valgrind: no invalid access, no use of uninitialised bytes, no leak. Needs valgrind, and is
skipped without it, unless SLUICE_TEST_REQUIRE_ALL is set (`make test`)."""

import os
import shutil
import unittest

import server
from test_buffer import numbers
from test_fields import BOUNDARY, CLOSE, part
from test_requests import Case

VALGRIND = ("valgrind", "--quiet", "--error-exitcode=99", "--leak-check=full", "--errors-for-leak-kinds=definite,indirect,possible")


@unittest.skipUnless(shutil.which("valgrind") or os.environ.get("SLUICE_TEST_REQUIRE_ALL"), "SKIPPED, NOT CHECKED: valgrind is not installed")
class Valgrind(Case):
    def start(self, program="tests/probe", **options):
        return super().start(program, wrapper=VALGRIND, **options)

    def test_requests_bodies_and_callouts(self):
        script = self.start()
        for mode in ("record", "struct", "record"):
            for length in (0, 5000, 60000):
                self.assertEqual(script.ask({"PROBE": "variable", "WANTED": "X", "X": "x" * length}, mode=mode).body, b"x" * length)
        self.assertEqual(script.ask({"PROBE": "body", "CHUNK": "7"}, b"y" * 500).body, b"y" * 500 + b"|0")
        self.assertEqual(script.ask({"PROBE": "callouts"}, b"NOOP:\n!NOOP:\n" + b"x" * 8191 + b"\n\nNOOP:\n").body.count(b"200 OK"), 2)
        self.assertEqual(script.ask({"PROBE": "mix"}).body, b"one\ntwo\nthree\nfour")
        self.assertEqual(script.leave(), (0, "left none\n"))

    def test_broken_requests(self):
        for broken in (b"!!6\n\x04\x00ab\x00\x00", b"!!2\n\x01\x00", b"!!3\n\x00\x00\x00", b"!!5\n\x03\x00abc", b"!\nA", b"!!1\n\0"):
            script = self.start()
            script.send(broken)
            self.assertEqual(script.leave(), (0, "left EPROTO\n"))

    def test_the_memory_buffer(self):
        script = self.start()
        for capacity in (8192, 8192, 20480):
            script.ring_capacity = capacity
            response = script.ask({"PROBE": "buffer", "TOTAL": "100000", "CHUNK": "9000", "SEED": str(capacity)})
            self.assertTrue(response.body == numbers(100_000))
        script.ask({"PROBE": "misuse"})
        self.assertEqual(script.leave(), (0, "left none\n"))

    def test_responses_and_each_kind_of_form(self):
        script = self.start("tests/forms")
        kind = f"multipart/form-data; boundary={BOUNDARY}"
        for body in (part('name="a"', b"1") * 50 + part('name="f"; filename="x"', b"y" * 50_000) + CLOSE, part('name="a"', b"1"), b""):
            self.assertTrue(script.ask({"PROBE": "form", "QUERY_STRING": "q=1&r", "CONTENT_TYPE": kind}, body).is_ended)
        for body in (b"a=1&b=2", b"a&" * 1001, b"a=" + b"x" * 40_000, b"%4"):
            self.assertTrue(script.ask({"PROBE": "form", "CONTENT_TYPE": "application/x-www-form-urlencoded"}, body).is_ended)
        self.assertTrue(script.ask({"PROBE": "call", "WANTED": "header A: b/event x\\y/fail 404 x"}).is_ended)
        self.assertTrue(script.ask({"PROBE": "code", "WANTED": "<a b>"}).is_ended)
        self.assertTrue(script.ask({"PROBE": "callouts", "WANTED": "/x"}).is_ended)
        self.assertEqual(script.leave()[0], 0)

    def test_the_programs(self):
        for program, variables in (("membufdemo", {"WWW_KEY_1": "1", "WWW_KEY_2": "b"}), ("membufdemo", {"WWW_KEY_1": "1"}), ("membufdemo", {"WWW_KEY_1": "-"}),
                                   ("cgiplustest", {"WWW_KEY_1": "70000"}), ("printenv", {}), ("cgipluscallout", {})):
            script = self.start(program)
            for _ in range(2):
                self.assertTrue(script.ask(variables | {"REQUEST_METHOD": "HEAD" if variables.get("WWW_KEY_1") == "-" else "GET"}).is_ended)
            self.assertEqual(script.leave(), (0, ""))
        script = self.start("tests/wasd_cgilib")
        self.assertTrue(script.ask({"SERVER_NAME": "a"}).is_ended)
        self.assertEqual(script.leave(), (0, ""))


if __name__ == "__main__":
    unittest.main()
