"""Callouts: answers, suppressed answers, bad requests, and output around them, in stream and record mailboxes."""

import unittest

import server
from test_requests import Case


class Callouts(Case):
    def call_out(self, lines, script=None, **variables):
        script = script or self.start()
        response = script.ask({"PROBE": "callouts"} | variables, "".join(line + "\n" for line in lines).encode())
        return response.body.decode().splitlines(), [c for c in response.callouts if "CGIPLUS" not in c]

    def test_each_answer_belongs_to_its_request(self):
        for options in ({}, {"records": True}):
            with self.subTest(options):
                script = self.start(**options)
                for _ in range(3):
                    answers, asked = self.call_out(["NOOP:", "!NOOP:", "MAP-PATH: /x y", "#NOOP:", "FLY: to", "map-file: /srv/z"], script)
                    self.assertEqual([a.strip() for a in answers], ["200 OK", "0", "200 /srv/x y", "0", "400 unknown callout", "200 /z"])
                    self.assertEqual(asked, ["NOOP:", "!NOOP:", "MAP-PATH: /x y", "#NOOP:", "FLY: to", "map-file: /srv/z"])

    def test_requests_with_line_breaks_or_without_text_are_not_sent(self):
        answers, asked = self.call_out(["NOOP:\\NOOP:", "", "NOOP: \x01", "x" * 8192, "NOOP: tab\tis fine"])
        self.assertEqual(answers, ["-1 EINVAL", "-1 EINVAL", "-1 EINVAL", "-1 EMSGSIZE", "200 OK"])
        self.assertEqual(asked, ["NOOP: tab\tis fine"])

    def test_the_longest_request_is_sent_whole(self):
        longest = "NOOP:" + "x" * 8186
        self.assertEqual(self.call_out([longest]), (["200 OK"], [longest]))

    def test_answers_are_truncated_to_size(self):
        script = self.start()
        script.answers["NOOP"] = "200 " + "y" * 1000
        self.assertEqual(self.call_out(["NOOP:", "MAP-PATH: /a"], script)[0], ["200 " + "y" * 299, "200 /srv/a"])
        self.assertEqual(self.call_out(["NOOP:", "MAP-PATH: /a"], script, ANSWER_SIZE="3")[0], ["200 yy", "200 /s"])

    def test_malformed_answers_are_EPROTO(self):
        for answer in ("OK", "20 x", "2000", "", "!"):
            with self.subTest(answer):
                script = self.start()
                script.answers["NOOP"] = answer
                self.assertEqual(self.call_out(["NOOP:"], script)[0], ["-1 EPROTO"])
        script = self.start()
        script.answers["NOOP"] = "204"
        self.assertEqual(self.call_out(["NOOP:"], script)[0], ["204 "])

    def test_a_dead_server_is_EPIPE(self):
        script = self.start()
        script.answers["NOOP"] = None
        script.request({"PROBE": "callouts"}, b"NOOP:\n")
        script.close_cgiplusin()
        self.assertEqual(script.response().body, b"-1 EPIPE\n")

    def test_callouts_work_in_plain_cgi(self):
        script = self.start(persistent=False, variables={"PROBE": "callouts", "CONTENT_LENGTH": "6"}, body=b"NOOP:\n")
        self.assertEqual(script.response().body, b"200 OK\n")

    def test_a_line_feed_after_a_callout_is_output(self):
        script = self.start()
        for _ in range(2):
            self.assertEqual(script.ask({"PROBE": "mix"}).body, b"one\ntwo\nthree\nfour")

    def test_in_a_record_mailbox_sentinels_and_lines_are_records(self):
        script = self.start(records=True)
        response = script.ask({"PROBE": "mix"})
        self.assertEqual(response.body.count(b"four"), 1)
        self.assertTrue(response.is_ended)


if __name__ == "__main__":
    unittest.main()
