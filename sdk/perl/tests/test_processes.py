"""Processes that a script leaves behind: none of them writes into the reply of another request."""

import unittest

from common import HEAD, PerlCase, scripts, testing

ROUTES = """
    [server]
    sdk = "@SDK@"
    [[site]]
    root = "htdocs"
      [[site.route]]
      path = "/rte/*"
      script = { directory = "scripts", mode = "rte", engine = "perl", max = 1, environment = { PLACE = "@DIR@", SLUICE_NATIVE = "@NATIVE@" } }
      [[site.route]]
      path = "/fork/*"
      script = { directory = "scripts", mode = "rte", engine = "perl", fresh = "fork", max = 1, environment = { PLACE = "@DIR@", SLUICE_NATIVE = "@NATIVE@" } }
"""


class Processes(PerlCase):
    native = "1"
    files = scripts(
        job=HEAD + 'print "$$\\n"; system "sleep 600 & echo \\$!; sleep 600 & echo \\$!";',
        session=HEAD + """system q(setsid sh -c 'trap "" PIPE TERM; echo $$ > $PLACE/up; read x < $PLACE/go; echo FOREIGN' &);
            open my $up, '<', "$ENV{PLACE}/up"; print scalar <$up>;""",
        slow=HEAD + """$| = 1; print "first "; open my $here, '>', "$ENV{PLACE}/here"; print $here "here\\n"; close $here;
            open my $on, '<', "$ENV{PLACE}/on"; scalar <$on>; print "last";""",
        waits=HEAD + 'my $found = wait; my $bytes = 0; while (my $count = read STDIN, my $part, 65536) { $bytes += $count } print "$found $bytes";',
        # As the kernel does it for a user with many pipes (pipe-user-pages-soft).
        small_pipes=HEAD + 'use POSIX (); no warnings; my $pipe = \\&POSIX::pipe; print "done";'
        + '*POSIX::pipe = sub { my @both = $pipe->(); open my $end, ">&", $both[1]; fcntl $end, 1031, 4096; return @both };',
        # Ends the process that copies the body, the only other one of the session, as the system does when memory is short.
        truncated=HEAD + """my $bytes = read STDIN, my $part, 65536; my $here = getpgrp;
            for my $stat (glob "/proc/[0-9]*/stat") { open my $file, '<', $stat or next; my @words = split / /, scalar <$file> // ''; kill 'KILL', $words[0] if ($words[4] // 0) == $here && $words[0] != $$ && $words[0] != $here }
            while (my $count = read STDIN, my $part, 65536) { $bytes += $count } print $bytes;""",
        unread_answer=HEAD + '$| = 1; print "$$\\n$ENV{CGIPLUSESC}\\nNOOP:\\n$ENV{CGIPLUSEOT}\\n";',
    )

    @classmethod
    def setUpClass(cls):
        cls.configuration = ROUTES.replace("@NATIVE@", cls.native)
        super().setUpClass()

    def test_children_of_children_are_ended_and_the_engine_stays(self):
        for mode in ("rte", "fork"):
            with self.subTest(mode=mode):
                engines = set()
                for _ in range(3):
                    got = self.server.get(f"/{mode}/job.pl")
                    self.assertEqual((got.status, got.is_complete), (200, True), got)
                    engine, *left = [int(word) for word in got.text.split()]
                    engines.add(engine)
                    self.assertEqual(len(left), 2)
                    for pid in left:
                        self.assertFalse(testing.is_alive(pid), "it was to end before the reply did")
                self.assertEqual(len(engines), 1 if mode == "rte" else 3)

    def test_process_with_a_session_of_its_own_ends_with_the_engine_and_does_not_write_to_others(self):
        fifos = {name: self.server.fifo(name) for name in ("go", "here", "on")}
        self.server.fifo("up")
        for mode in ("rte", "fork"):
            with self.subTest(mode=mode):
                daemon = int(self.server.get(f"/{mode}/session.pl").text)
                with self.server.connect() as other:
                    other.get(f"/{mode}/slow.pl")
                    fifos["here"].line()
                    testing.wait_gone(daemon)
                    fifos["on"].release()
                    got = other.response()
                self.assertEqual((got.text, got.is_complete), ("first last", True))

    def test_wait_does_not_find_the_process_that_copies_a_body(self):
        for mode in ("rte", "fork"):
            got = self.server.post(f"/{mode}/waits.pl", b"x" * 300_000)
            self.assertEqual(got.text, "-1 300000")

    def test_a_body_whose_copy_is_truncated_makes_no_complete_reply(self):
        body = b"x" * 5_000_000
        for mode in ("rte", "fork"):
            with self.subTest(mode=mode):
                got = self.server.post(f"/{mode}/truncated.pl", body)
                self.assertTrue(got.status == 502 or not got.is_complete, got)
                whole = self.server.post(f"/{mode}/waits.pl", body)
                self.assertEqual((whole.status, whole.text), (200, "-1 5000000"))

    def test_body_that_has_arrived_and_does_not_fit_into_a_pipe(self):
        self.assertEqual(self.rte("small_pipes.pl").text, "done")
        for size in (4096, 4097, 60_000):
            self.assertEqual(self.server.post("/rte/waits.pl", b"x" * size).text, f"-1 {size}")

    def test_answer_that_was_not_read(self):
        self.assertEqual(len(set(self.texts("unread_answer.pl", 3))), 1)


class WithoutTheNativePart(Processes):
    native = "0"


if __name__ == "__main__":
    unittest.main()
