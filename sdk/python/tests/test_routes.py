"""Keys of a route that change what the engine sees: record mailboxes, variable prefixes, virtual environments' settings, ends of processes."""

import unittest

from support import EngineCase


class Records(EngineCase):
    more = ', mailbox = "record", record_size = "16KiB"'

    def test_replies_of_all_sizes(self):
        self.assertEqual(self.output("print('a line')"), "a line\n")
        for size in (100, 16384, 16385, 300_000):
            got = self.run_script(f"import sys\nsys.stdout.write('Content-Type: application/octet-stream\\n\\n'); sys.stdout.flush()\nsys.stdout.buffer.write(b'x' * {size})")
            self.assertEqual(got.body, b"x" * size)
        self.assertEqual(self.output("for i in range(20000): print('%09d' % i)"), "".join("%09d\n" % i for i in range(20000)))

    def test_failures(self):
        self.assertEqual(self.run_script("print('Content-Type: text/plain\\n')\n1/0").status, 502)
        self.assertEqual(self.output("print('next')"), "next\n")

    def test_the_library(self):
        source = "import sluice\nwhile sluice.accept():\n  sluice.respond('text/plain'); sluice.write('one\\n'); sluice.write(str(sluice.callout('NOOP:')) + '\\n')"
        self.assertEqual(self.run_script(source).text, "one\n(200, 'OK')\n")


class Prefix(EngineCase):
    more = ', variable_prefix = "WWW_"'

    def test_all_variables_have_it(self):
        source = "import os, sys\nprint(os.environ['WWW_REQUEST_METHOD'], 'REQUEST_METHOD' in os.environ, len(sys.stdin.read()))"
        for size in (0, 10, 100_000):
            self.assertEqual(self.output(source, body=b"x" * size), f"POST False {size}\n")

    def test_the_library(self):
        source = "import sluice\nwhile sluice.accept(): sluice.respond('text/plain'); sluice.write(sluice.variable('REQUEST_METHOD') + sluice.body_read().decode() + sluice.parameter('a'))"
        self.assertEqual(self.run_script(source, query="?a=b", body=b"body").text, "POSTbodyb")


class Limits(EngineCase):
    more = ', reply_timeout = "2s", requests = 3'

    def test_an_endless_loop_affects_one_request(self):
        self.assertEqual(self.run_script("while True: pass").status, 504)
        self.assertEqual(self.output("print('next')"), "next\n")

    def test_a_process_ends_after_its_requests(self):
        self.script("import os\nprint('Content-Type: text/plain\\n')\nprint(os.getpid())", "pid.cgi")
        pids = [self.server.get("/rte/pid.cgi").text for _ in range(9)]
        self.assertGreaterEqual(len(set(pids)), 3)


if __name__ == "__main__":
    unittest.main()
