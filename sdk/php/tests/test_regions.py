"""Output regions: large replies go through shared memory, and are the same as through the mailbox."""

import unittest

import support
from support import testing

SIZES = (0, 1, 16383, 16384, 16385, 32000, 65000, 65535, 65536, 65537, 100_000, 131_071, 131_072, 131_073, 300_001, 524_287, 524_288, 600_000, 1_300_000)

# QUERY_STRING: a length and words.
REPLY = r"""
function reply() {
    $words = explode('+', $_SERVER['QUERY_STRING']);
    $length = (int) array_shift($words);
    $has = fn ($word) => in_array($word, $words, true);
    $body = '';
    for ($line = 0; strlen($body) < $length; $line++) $body .= sprintf("%015d\n", $line);
    $body = substr($body, 0, $length);
    header('Content-Type: text/plain');
    if ($has('length')) header("Content-Length: $length");
    if ($has('long')) header('X-Long: ' . str_repeat('y', 40000));
    if ($has('304')) http_response_code(304);
    if ($has('pid')) $body = getmypid();
    if ($has('maps')) $body = substr_count(file_get_contents('/proc/self/maps'), 'memfd') . (getenv('WWW_GATEWAY_REGION') ?: ' none');
    if ($has('written')) preg_match('/wchar: (\d+)/', file_get_contents('/proc/self/io'), $found) and $body = $found[1];
    if ($has('flush')) { echo substr($body, 0, 20000); flush(); $body = substr($body, 20000); }
    if ($has('middle')) { echo substr($body, 0, 200000); flush(); sluice_callout('NOOP:'); $body = substr($body, 200000); }
    if ($has('callout')) { echo substr($body, 0, 40000); sluice_callout('NOOP:'); $body = substr($body, 40000); }
    if ($has('buffer')) { sluice_buffer_begin(); sluice_buffer_write(substr($body, 0, 5000)); sluice_buffer_write(substr($body, 5000)); sluice_buffer_end(); return; }
    foreach ($has('lines') && $body !== '' ? str_split($body, 1000) : [$body] as $part) echo $part;
    if ($has('finish')) { fastcgi_finish_request(); echo 'lost'; }
    if ($has('fail')) throw new Exception('no luck');
}
"""
WORDS = ("", "+length", "+long", "+flush", "+lines", "+callout", "+finish", "+lines+callout", "+middle", "+lines+middle")


def reads_requests(pid):
    """Whether a process waits for bytes of descriptor 3: a request, or the answer to a callout (proc_pid_syscall(5))."""
    with open(f"/proc/{pid}/syscall", encoding="ascii") as file:
        return file.read().split()[1:2] == ["0x3"]


class Regions(support.PhpCase):
    """The same script in routes with and without shared memory."""

    files = {
        "rte/reply.php": "<?php" + REPLY + "reply();",
        "rte/worker.php": "<?php" + REPLY + "while (sluice_handle_request('reply')) {}",
    }

    @classmethod
    def setUpClass(cls):
        routes = []
        for name, more in (("with", ""), ("without", ", memory_buffer_max = 0"), ("fork", ', fresh = "fork"')):
            keys = f'directory = "rte", mode = "rte", engine = "php", max = 1{more}'
            routes.append(f'[[site.route]]\npath = "/{name}/*"\nscript = {{ {keys} }}\n')
            routes.append(f'[[site.route]]\npath = "/{name}-app/*"\nscript = {{ {keys}, app = "worker.php" }}\n')
        cls.configuration = support.configuration(*routes)
        super().setUpClass()

    def test_every_size(self):
        for end in ("/reply.php", "-app/"):
            for size in SIZES:
                for words in WORDS:
                    with self.subTest(end, size=size, words=words):
                        response = self.assert_same([f"/{way}{end}?{size}{words}" for way in ("with", "without")])
                        self.assertEqual((response.status, len(response.body), b"lost" in response.body), (200, size, False))

    def test_failures_and_heads_without_a_body(self):
        for end in ("/reply.php", "-app/"):
            for method, words in (("HEAD", "65536+length"), ("GET", "65536+304"), ("GET", "40000+fail")):
                with self.subTest(end, method=method, words=words):
                    self.assert_same([f"/{way}{end}?{words}+{method}" for way in ("with", "without")], method)

    def test_a_memory_buffer_where_the_route_allows_none(self):
        for end in ("/reply.php", "-app/"):
            for size in (6000, 300_000):
                with_buffer, without = (self.server.get(f"/{way}{end}?{size}+buffer") for way in ("with", "without"))
                self.assertEqual((without.status, len(without.body)), (200, size))
                self.assertTrue(with_buffer.body == without.body)

    def test_a_failure_after_a_part_of_the_reply_was_sent(self):
        for end in ("/reply.php", "-app/"):
            for way in ("with", "without"):
                for words in ("60000+flush+lines", "60000+callout+lines", "100000+flush", "260000+middle+lines", "700000+flush+lines"):
                    with self.subTest(end, way=way, words=words):
                        response = self.server.get(f"/{way}{end}?{words}+fail")
                        # The server may have sent the head already, or not.
                        self.assertTrue(response.status == 502 or not response.is_complete, response)
                        for hidden in (b"FAILED", b"no luck", b"$E-", b"$D-", b"$Z-"):
                            self.assertNotIn(hidden, response.body)

    def test_fork_mode(self):
        self.assertEqual(self.server.get("/fork/reply.php?0+maps").text, "0 none")
        for size in (100, 65536, 131_072):
            self.assert_same([f"/{way}/reply.php?{size}+fork" for way in ("without", "fork")])

    def test_the_region_is_used_and_scripts_do_not_see_it(self):
        def maps(way):
            self.server.get(f"/{way}-app/?65536")
            return self.server.get(f"/{way}-app/?0+maps").text

        # Two regions at most, and the memory buffer.
        self.assertIn(maps("with"), ("1 none", "2 none", "3 none"))
        self.assertEqual(maps("without"), "0 none")

    def test_a_long_reply_is_in_the_region_part_after_part(self):
        def written(way):
            return int(self.server.get(f"/{way}-app/?0+written").text)

        for way, words, is_shared in (("with", "", True), ("with", "+lines", True), ("without", "", False)):
            with self.subTest(way, words=words):
                before = written(way)
                self.server.get(f"/{way}-app/?1300000{words}")
                by_mailbox = written(way) - before
                self.assertTrue(by_mailbox < 200_000 if is_shared else by_mailbox > 1_300_000, by_mailbox)

    def test_a_client_that_leaves_while_the_script_waits_for_room(self):
        for _ in range(3):
            pid = self.server.get("/with-app/?0+pid").text
            with self.server.connect() as client:
                # More than the buffers of both sockets can have (tcp(7): tcp_rmem, tcp_wmem), so the reply does not end.
                client.send("GET /with-app/?30000000+lines HTTP/1.1\r\nHost: test\r\n\r\n")
                self.assertTrue(client.socket.recv(1))
                self.assertTrue(testing.wait_until(lambda: reads_requests(pid)), "no wait for an answer in the middle of the reply")
            self.assertEqual(self.server.get("/with-app/?0+pid").text, pid)
            self.assert_same([f"/{way}-app/?700000" for way in ("with", "without")])


if __name__ == "__main__":
    unittest.main()
