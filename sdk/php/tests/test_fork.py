"""--fresh=fork: each request has a process of its own, and all that the parent has loaded."""

import json
import os
import signal
import unittest

from support import PhpCase, configuration, multipart, testing

ROUTES = """
  [[site.route]]
  path = "/rte/*"
  script = { directory = "rte", mode = "rte", engine = "php", fresh = "fork", max = 1, environment = { TMPDIR = "@TMP@" }, php_value = {
    "opcache.file_update_protection" = "0" } }

  [[site.route]]
  path = "/app/*"
  script = { directory = "app", mode = "rte", engine = "php", app = "worker.php", fresh = "fork", max = 1, environment = { TMPDIR = "@TMP@" } }
"""


class Fork(PhpCase):
    configuration = configuration(ROUTES)
    files = {
        "app/worker.php": """<?php
            $booted = getmypid();
            $n = 0;
            mt_rand();
            uniqid('', true);
            while (sluice_handle_request(function () { global $booted, $n; echo json_encode([getmypid(), $booted, ++$n, $_GET, [mt_rand(), lcg_value()]]); }));""",
    }

    def test_process_for_each_request(self):
        name = self.script("echo json_encode([getmypid(), posix_getppid(), opcache_get_status(true)['scripts'][__FILE__]['hits'] ?? null]);")
        first, second, third = [json.loads(self.server.get(f"/rte/{name}").text) for _ in range(3)]
        self.assertNotEqual(first[0], second[0])
        self.assertEqual(first[1], second[1], "one parent")
        self.assertGreaterEqual(third[2], 1, "the next process finds what the first has compiled")

    def test_uses(self):
        """The process of a request has served no other."""
        self.assertEqual([self.php("echo json_encode([sluice_uses(), sluice_is_persistent()]);") for _ in range(2)], [[1, False]] * 2)

    def test_body(self):
        name = self.script("echo strlen(file_get_contents('php://input'));")
        for size in (5, 500_000, 5):
            self.assertEqual(self.server.post(f"/rte/{name}", b"x" * size, [("Content-Type", "a/b")]).text, str(size))
        unread = self.script("echo 'unread';")
        self.assertEqual(self.server.post(f"/rte/{unread}", b"x" * 500_000, [("Content-Type", "a/b")]).text, "unread")
        self.assertEqual(self.server.post(f"/rte/{name}", b"x", [("Content-Type", "a/b")]).text, "1")

    def test_crash(self):
        parent = self.php("echo json_encode(posix_getppid());")
        got = self.get("echo 'begin'; posix_kill(getmypid(), 9);")
        self.assertEqual(got.status, 502)
        self.server.log_line("was ended by signal 9")
        self.assertEqual(self.php("echo json_encode(posix_getppid());"), parent, "the engine stays")

    def test_crash_in_the_body(self):
        with self.server.connect() as client:
            client.get("/rte/" + self.script("echo 'part'; ob_flush(); flush(); fgets(fopen('@DIR@/gate', 'r')); posix_kill(getmypid(), 11);"))
            gate = self.server.fifo("gate")
            client.head()
            client.read_body_until(b"part")
            gate.release()
            self.assertIsNone(client.read_chunk())

    def test_failures(self):
        self.assertEqual(self.get("throw new Exception('x');").status, 502)
        got = self.get("echo str_repeat('x', 20000); no_such_function();")
        self.assertEqual(got.status, 502)
        self.assertEqual(self.get("echo 'fine'; exit(4);").text, "fine")

    def test_upload_of_a_request_that_is_ended(self):
        at = self.server.fifo("at")
        body, kind = multipart([], [("f", "a.txt", "text/plain", b"content")])
        with self.server.connect() as client:
            name = self.script("file_put_contents('@DIR@/at', getmypid() . ' ' . posix_getppid() . ' ' . $_FILES['f']['tmp_name'] . \"\\n\"); sleep(60);")
            client.request("POST", f"/rte/{name}", [("Content-Type", kind)], body)
            child, parent, file = at.line().split()
            os.kill(int(child), signal.SIGKILL)
            client.response()
            self.assertEqual(os.listdir(self.server.temporary), [], "the engine has removed it")
            client.request("POST", f"/rte/{name}", [("Content-Type", kind)], body)
            child, parent, file = at.line().split()
            self.assertTrue(os.path.exists(file))
            os.kill(int(parent), signal.SIGTERM)
            client.response()
        testing.wait_gone(int(parent))
        self.assertEqual(os.listdir(self.server.temporary), [])

    def test_finish_request(self):
        done = self.server.fifo("done")
        got = self.get("echo 'sent'; fastcgi_finish_request(); file_put_contents('@DIR@/done', \"done\\n\");")
        self.assertEqual((got.text, done.line()), ("sent", "done"))
        self.assertEqual(self.get("echo 'next';").text, "next")

    def test_callouts(self):
        code = "echo json_encode(sluice_callout('NOOP:'));"
        self.assertEqual([self.php(code), self.php(code)], [[200, "OK"]] * 2)

    def test_worker(self):
        """The application boots in the parent; each request begins in the state after that."""
        first, second = [json.loads(self.server.get(f"/app/?x={n}").text) for n in (1, 2)]
        self.assertEqual(first[1:4], [first[1], 1, {"x": "1"}])
        self.assertEqual(second[1:4], [first[1], 1, {"x": "2"}])
        for one, other in zip(first[4], second[4]):
            self.assertNotEqual(one, other, "random numbers")
        self.assertNotEqual(first[0], second[0])


if __name__ == "__main__":
    unittest.main()
