"""The request loop: variables in both modes, bodies, ends, and malformed requests."""

import os
import subprocess
import unittest

import server


class Case(unittest.TestCase):
    def start(self, program="tests/probe", **options):
        if "/" in program:
            program = os.path.join(server.BUILD, program)
        script = server.Script(program, **options)
        self.addCleanup(script.discard)
        return script


class Requests(Case):
    def test_many_requests_are_answered_by_one_process(self):
        script = self.start()
        for use in range(1, 6):
            response = script.ask({"PROBE": "uses"})
            self.assertEqual(response.body, f"{use} persistent".encode())
        self.assertEqual(script.leave(), (0, "left none\n"))

    def test_struct_mode_is_requested_once_and_used_from_the_second_request(self):
        script = self.start()
        first = script.ask({"PROBE": "variable", "WANTED": "X", "X": "one"})
        self.assertEqual(first.callouts, ["!CGIPLUS: struct"])
        self.assertTrue(script.struct)
        second = script.ask({"PROBE": "variable", "WANTED": "X", "X": "two"})
        self.assertEqual((first.body, second.body, second.callouts), (b"one", b"two", []))

    def test_cgiplus_var_record_keeps_record_mode(self):
        script = self.start(environment={"CGIPLUS_VAR_RECORD": "1"})
        self.assertEqual(script.ask({"PROBE": "uses"}).callouts, [])
        self.assertEqual(script.ask({"PROBE": "uses"}).body, b"2 persistent")

    def test_either_mode_is_accepted_at_any_time(self):
        script = self.start()
        for mode in ("struct", "record", "struct", "struct", "record"):
            response = script.ask({"PROBE": "variable", "WANTED": "MODE", "MODE": mode}, mode=mode)
            self.assertEqual(response.body, mode.encode())

    def test_variables_of_an_earlier_request_are_gone(self):
        script = self.start()
        script.ask({"PROBE": "variable", "WANTED": "SECRET", "SECRET": "x"})
        self.assertEqual(script.ask({"PROBE": "variable", "WANTED": "SECRET"}).body, b"(none)")

    def test_names_match_in_any_case_and_with_and_without_prefix(self):
        script = self.start()
        for wanted in ("HTTP_HOST", "WWW_HTTP_HOST", "http_host", "www_Http_Host"):
            self.assertEqual(script.ask({"PROBE": "variable", "WANTED": wanted, "WWW_HTTP_HOST": "a"}).body, b"a")
            self.assertEqual(script.ask({"PROBE": "variable", "WANTED": wanted, "HTTP_HOST": "b"}).body, b"b")
        self.assertEqual(script.ask({"PROBE": "variable", "WANTED": "HTTP_HOS", "HTTP_HOST": "b"}).body, b"(none)")

    def test_an_exact_name_takes_precedence(self):
        script = self.start()
        both = {"WWW_X": "prefixed", "X": "bare"}
        self.assertEqual(script.ask({"PROBE": "variable", "WANTED": "X"} | both).body, b"bare")
        self.assertEqual(script.ask({"PROBE": "variable", "WANTED": "WWW_X"} | both).body, b"prefixed")

    def test_values_of_any_length_and_empty_ones_arrive(self):
        script = self.start()
        for length in (0, 1, 4095, 4096, 40000, 65000):
            value = "v" * length
            for mode in ("record", "struct"):
                response = script.ask({"PROBE": "variable", "WANTED": "X", "X": value, "Y": "="}, mode=mode)
                self.assertEqual(response.body, value.encode(), (length, mode))

    def test_unread_answers_before_a_request_are_skipped(self):
        script = self.start()
        script.send(b"200 nobody asked\n\n!!\n!no\n400 nor this\n")
        self.assertEqual(script.ask({"PROBE": "uses"}).body, b"1 persistent")

    def test_a_request_that_arrives_byte_by_byte_is_read(self):
        script = self.start()
        for encode in (server.encode_records, server.encode_struct):
            for byte in encode([b"PROBE=variable", b"WANTED=X", b"X=bytes"]):
                script.send(bytes([byte]))
            self.assertEqual(script.response().body, b"bytes")

    def test_broken_requests_end_the_loop(self):
        for broken in (
            b"!!0\n",
            b"!!1\n\0",
            b"!!99999999999999999999\n",
            b"!!4\n\x00\x00\x00\x00",  # bytes after the end
            b"!!6\n\x04\x00ab\x00\x00",  # longer than the block
            b"!!8\n\x04\x00a\x00b\x00\x00\x00",  # a NUL inside
            b"!!7\n\x03\x00abc\x00\x00",  # no NUL
            b"!!100\n\x02\x00a\x00",  # truncated
            b"!\nA=1\n",  # truncated
            b"!\nA=1",
        ):
            with self.subTest(broken):
                script = self.start()
                script.send(broken)
                self.assertEqual(script.leave(), (0, "left EPROTO\n"))

    def test_endless_variables_are_EPROTO(self):
        script = self.start()
        line = b"A=" + b"x" * 60000 + b"\n"
        script.send(b"!\n")
        with self.assertRaises(BrokenPipeError):
            for _ in range(1000):
                script.send(line)
        self.assertEqual(script.wait(), (0, "left EPROTO\n"))


class Bodies(Case):
    def test_body_is_read_to_content_length_and_not_beyond(self):
        script = self.start()
        for chunk in ("1", "7", "64"):
            # the second body is in the pipe before the first is read
            script.request({"PROBE": "body", "CHUNK": chunk}, b"first body")
            os.write(script.body_write, b"second")
            self.assertEqual(script.response().body, b"first body|0")
            script.request({"PROBE": "body", "CONTENT_LENGTH": "6"})
            self.assertEqual(script.response().body, b"second|0")

    def test_no_content_length_is_no_body_in_cgiplus(self):
        for length in ({}, {"CONTENT_LENGTH": ""}, {"CONTENT_LENGTH": "-1"}, {"CONTENT_LENGTH": "5x"}):
            self.assertEqual(self.start().ask({"PROBE": "body"} | length).body, b"|0")

    def test_cgi_without_content_length_reads_to_end_of_file(self):
        script = self.start(persistent=False, variables={"PROBE": "body"}, body=b"x" * 1000)
        self.assertEqual(script.response().body, b"x" * 1000 + b"|0")

    def test_a_truncated_body_ends(self):
        script = self.start(persistent=False, variables={"PROBE": "body", "CONTENT_LENGTH": "50"}, body=b"short")
        self.assertEqual(script.response().body, b"short|0")


class PlainCgi(Case):
    def test_the_loop_runs_once(self):
        script = self.start(persistent=False, variables={"PROBE": "uses"})
        response = script.response()
        self.assertEqual((response.body, response.is_ended, response.callouts), (b"1 once", False, []))
        self.assertEqual(script.wait(), (0, "left none\n"))

    def test_under_another_server_callouts_and_buffer_are_ENOTSUP(self):
        script = self.start(persistent=False, plain=True, variables={"PROBE": "callouts", "CONTENT_LENGTH": "6"}, body=b"NOOP:\n")
        self.assertEqual(script.response().body, b"-1 ENOTSUP\n")
        script = self.start(persistent=False, plain=True, variables={"PROBE": "buffer"})
        self.assertEqual(script.response().body, b"begin ENOTSUP")


class Header(unittest.TestCase):
    def test_header_compiles_as_old_c_and_as_cxx(self):
        include = os.path.join(os.path.dirname(server.HERE), "include")
        for command in (["cc", "-std=gnu89", "-x", "c"], ["cc", "-std=c11", "-pedantic", "-x", "c"], ["c++", "-x", "c++"]):
            subprocess.run([*command, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", include, "-"], input=b'#include "sluice.h"\n', check=True)


if __name__ == "__main__":
    unittest.main()
