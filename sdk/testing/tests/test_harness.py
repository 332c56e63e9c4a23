"""The harness checks itself: a harness that overlooks a truncated response or a process left behind makes every test worthless."""

import os
import subprocess
import sys
import unittest
import unittest.mock

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
import testing

CONFIGURATION = """
[[site]]
root = "htdocs"

  [[site.route]]
  path = "/cgi-bin/*"
  script = { directory = "scripts", mode = "cgi", environment = { TMPDIR = "@TMP@" } }
"""

FILES = {
    "htdocs/file.txt": "a file\n",
    "scripts/echo": "#!/bin/sh\nprintf 'Content-Type: text/plain\\nX-One: 1\\nX-One: 2\\n\\n'\nexec cat\n",
    "scripts/short": "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nhalf'\nkill -9 $$\n",
    "scripts/noise": "#!/bin/sh\necho 'words for the log' >&2\nprintf 'Content-Type: text/plain\\n\\n%s' $$\n",
    "scripts/two": "#!/bin/sh\nprintf 'Content-Type: text/event-stream\\n\\nfirst'\nread x < @DIR@/gate\nprintf ' second'\n",
    "scripts/litter": "#!/bin/sh\nmktemp >/dev/null\nprintf 'Content-Type: text/plain\\n\\n'\n",
}


class Shared(testing.ServerCase):
    configuration = CONFIGURATION
    files = FILES

    def test_responses(self):
        got = self.server.get("/file.txt")
        self.assertEqual((got.status, got.text, got.is_complete), (200, "a file\n", True))
        got = self.server.post("/cgi-bin/echo", b"x" * 300_000)
        self.assertEqual((got.status, len(got.body), got.field_values("x-one")), (200, 300_000, ["1", "2"]))
        got = self.server.request("POST", "/cgi-bin/echo", chunks=[b"one ", b"two"])
        self.assertEqual(got.text, "one two")
        self.assertEqual(self.server.request("HEAD", "/file.txt").body, b"")
        self.server.access_lines(1, "HEAD /file.txt")

    def test_pipelined_and_half_requests(self):
        with self.server.connect() as client:
            client.get("/file.txt").get("/missing")
            self.assertEqual([client.response().status, client.response().status], [200, 404])
            client.send("GET /file.txt HTTP/1.1\r\nHo")
            client.send("st: x\r\n\r\n")
            self.assertEqual(client.response().text, "a file\n")

    def test_cut(self):
        with self.server.connect() as client:
            client.send("GET /cgi-bin/short HTTP/1.1\r\nHost: x\r\n\r\n")
            got = client.response()
        self.assertFalse(got.status == 200 and got.is_complete, got)

    def test_log(self):
        start = self.server.log_position()
        pid = self.server.get("/cgi-bin/noise").text
        self.assertIn(pid, self.server.log_line("words for the log", start))
        testing.wait_gone(int(pid))

    def test_stream(self):
        gate = self.server.fifo("gate")
        with self.server.connect() as client:
            client.get("/cgi-bin/two")
            client.head()
            client.read_body_until(b"first")
            gate.release()
            client.read_body_until(b"second")
            self.assertEqual(client.read_chunk(), b"")


class Ends(unittest.TestCase):
    def test_left_behind(self):
        for kind, expected in (("stray", "left behind"), ("litter", "temporary files left")):
            server = testing.Server(CONFIGURATION, FILES)
            if kind == "stray":
                # The server ends what scripts have started, so the test itself starts a daemon in the server's directory.
                subprocess.run(["setsid", "--fork", "sleep", "1000"], cwd=server.directory, stdin=subprocess.DEVNULL, check=True)
            else:
                self.assertEqual(server.get("/cgi-bin/litter").status, 200)
            with self.subTest(kind), unittest.mock.patch("testing.server.wait_until", lambda condition: condition()):
                self.assertRaisesRegex(AssertionError, expected, server.stop)
            self.assertEqual(server.processes(), [])
            self.assertFalse(os.path.exists(server.directory))


class Needs(unittest.TestCase):
    def test_missing(self):
        for value, kind in (("0", unittest.SkipTest), ("1", AssertionError)):
            with unittest.mock.patch.dict(os.environ, SLUICE_TEST_REQUIRE_ALL=value):
                self.assertRaises(kind, testing.need, "no_such_module")
                self.assertRaises(kind, testing.need_program, "no-such-program")
        self.assertIs(testing.need("os"), os)


if __name__ == "__main__":
    unittest.main()
