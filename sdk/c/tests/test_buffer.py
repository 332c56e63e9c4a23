"""The memory buffer: every byte, in tiny and large rings, and every error."""

import array
import os
import random
import subprocess
import time
import unittest

import server
from test_requests import Case


def numbers(count):
    """The output of probe: the 32-bit numbers from 0."""
    return array.array("I", range(-(-count // 4))).tobytes()[:count]


class Buffer(Case):
    def transfer(self, script, total, chunk, seed, **more):
        return script.ask({"PROBE": "buffer", "TOTAL": str(total), "CHUNK": str(chunk), "SEED": str(seed)} | more)

    def test_every_byte_arrives_for_all_sizes(self):
        for capacity, chunk, take, total in (
            (8192, 1, 100, 3000),
            (8192, 100, 7, 20_000),
            (8192, 8192, 8192, 300_000),
            (8192, 60_000, 5000, 300_000),
            (12288, 4096, 4096, 300_000),
            (20480, 30_000, 1 << 30, 500_000),
            (1 << 20, 50_000, 1 << 30, 5_000_000),
        ):
            with self.subTest(capacity=capacity, chunk=chunk, take=take):
                script = self.start()
                script.ring_capacity = capacity
                chance = random.Random(capacity + chunk)
                script.ring_take = lambda: chance.randint(1, take)
                response = self.transfer(script, total, chunk, seed=chunk)
                self.assertEqual(response.field("X-Buffer"), f"/dev/fd/4 {capacity}")
                self.assertTrue(response.body == numbers(total), "bytes differ")
                self.assertTrue(response.is_ended)
                self.assertEqual(script.leave(), (0, "left none\n"))

    def test_a_process_may_change_the_size(self):
        script = self.start()
        for capacity in (8192, 8192, 65536, 12288, 65536):
            script.ring_capacity = capacity
            self.assertTrue(self.transfer(script, 200_000, 9000, seed=capacity).body == numbers(200_000))

    def test_the_size_is_requested_in_kilobytes_rounded_up(self):
        script = self.start()
        for asked, line in (("0", "0k"), ("1", "1k"), ("1024", "1k"), ("1025", "2k"), ("4194304", "4096k"), (str(2**64 - 1), f"{2**54}k")):
            script.ring_capacity = 8192
            self.assertIn(f"BUFFER-BEGIN: {line} ring", self.transfer(script, 10, 10, 1, BUFFER=asked).callouts)

    def test_the_body_continues_after_the_buffer(self):
        response = self.transfer(self.start(), 5000, 700, 1, TAIL="and this")
        self.assertEqual(response.body, numbers(5000) + b"and this")

    def test_an_unused_buffer_is_an_empty_body(self):
        self.assertEqual(self.transfer(self.start(), 0, 1, 1).body, b"")

    def test_written_bytes_are_sent_without_buffer_end(self):
        script = self.start()
        script.ring_capacity = 16384
        for _ in range(3):
            response = self.transfer(script, 10_000, 999, 1, END="no")
            self.assertEqual((response.body, response.is_ended), (numbers(10_000), True))
            self.assertNotIn("BUFFER-END:", response.callouts)

    def test_it_works_in_plain_cgi(self):
        script = self.start(persistent=False, variables={"PROBE": "buffer", "TOTAL": "100000", "CHUNK": "5000"})
        script.ring_capacity = 8192
        self.assertTrue(script.response().body == numbers(100_000))

    def test_it_works_with_a_record_mailbox(self):
        script = self.start(records=True)
        script.ring_capacity = 8192
        self.assertTrue(self.transfer(script, 100_000, 5000, 3).body == numbers(100_000))

    def test_an_awake_reader_gets_no_doorbell(self):
        script = self.start()
        response = self.transfer(script, 1 << 19, 60_000, 1, BUFFER=str(1 << 20))
        self.assertTrue(response.body == numbers(1 << 19))
        # at most one for each announced sleep, and the reader empties the ring each time
        self.assertLess(response.doorbells, 100)

    def test_the_writer_is_woken_only_when_a_quarter_is_free(self):
        script = self.start()
        script.ring_capacity = 1 << 16
        script.ring_take = lambda: 256
        rings, wanted = [], []

        def check_wake_at(response):
            """Stops reading until the writer sleeps; then checks its request."""
            if not rings:
                rings.append(script.ring)
                end = time.monotonic() + server.DEADLINE
                while not script.ring.writer_waits.value:
                    self.assertLess(time.monotonic(), end, "the writer never sleeps")
                    os.sched_yield()
                wanted.append(script.ring.wake_at.value + script.ring.capacity - script.ring.head.value)

        script.on_ring = check_wake_at
        self.assertTrue(self.transfer(script, 1 << 20, 1000, 1).body == numbers(1 << 20))
        self.assertEqual(wanted, [1 << 14])
        self.assertGreater(rings[0].wakes, 0)

    def test_refusals_set_errno(self):
        for answer, error in (
            ("400 bad", "EINVAL"),
            ("413 too much", "EFBIG"),
            ("503 no memory", "ENOMEM"),
            ("410 gone", "EPIPE"),
            ("500 what", "EPROTO"),
            ("200 /dev/fd/4 8192", "EPROTO"),
            ("200 /dev/fd/4 many ring", "EPROTO"),
            ("200 /dev/fd/4 8192 ring", "EPROTO"),
            ("200 /nowhere/at/all 8192 ring", "ENOENT"),
        ):
            with self.subTest(answer):
                script = self.start()
                script.answers["BUFFER-BEGIN"] = answer
                self.assertEqual(self.transfer(script, 10, 10, 1).body, b"begin " + error.encode())

    def test_an_invalid_control_page_is_refused(self):
        for magic, capacity in ((b"SLUICER2", 8192), (b"SLUICER1", 4096)):
            script = self.start()
            os.pwrite(script.memory, magic + capacity.to_bytes(8, "little"), 0)
            os.ftruncate(script.memory, 4096 + 8192)
            script.answers["BUFFER-BEGIN"] = "200 /dev/fd/4 8192 ring"
            self.assertEqual(self.transfer(script, 10, 10, 1).body, b"begin EPROTO")

    def test_misuse_sets_errno(self):
        script = self.start()
        for _ in range(2):
            words = script.ask({"PROBE": "misuse"}).body.decode().split()
            self.assertEqual(words, "ENOTCONN ENOTCONN ENOTCONN ENOTCONN fine EALREADY EINVAL EMSGSIZE EINVAL fine fine ENOTCONN".split())

    def test_a_wrong_byte_count_is_EIO(self):
        script = self.start()
        script.answers["BUFFER-END"] = "200 7"
        self.transfer(script, 10, 10, 1)
        self.assertEqual(script.leave(), (0, "end EIO\nleft none\n"))


class Disconnects(Case):
    """Client or server disappears in the middle, while the writer sleeps in a full ring or is about to write."""

    def begin(self, **options):
        script = self.start(environment={"PROBE_IGNORES_SIGPIPE": "1"}, **options)
        script.ring_capacity = 8192
        return script

    def test_after_a_disconnect_writes_fail_and_the_process_continues(self):
        script = self.begin()
        ring = []

        def leave(response):
            if len(response.ring_bytes) > 50_000 and not script.ring.closed.value:
                ring.append(script.ring)
                script.ring.close()

        script.on_ring = leave
        response = script.ask({"PROBE": "buffer", "TOTAL": "100000000", "CHUNK": "3000"})
        self.assertTrue(response.is_ended)
        self.assertEqual(response.body, numbers(len(response.body)))
        self.assertNotIn("BUFFER-END:", response.callouts)
        script.on_ring = lambda response: None
        self.assertTrue(script.ask({"PROBE": "buffer", "TOTAL": "50000", "CHUNK": "3000"}).body == numbers(50_000))
        self.assertEqual(script.leave(), (0, "write EPIPE\nagain EPIPE\nend EPIPE\nleft none\n"))

    def test_an_invalid_counter_is_EPROTO(self):
        for lie in (1 << 40, (1 << 64) - 1):
            with self.subTest(lie):
                script = self.begin()

                def tell(response):
                    script.ring.tail.value = lie
                    script.ring.writer_waits.value = 1
                    script.ring.wake()
                    raise StopIteration

                script.on_ring = tell
                script.request({"PROBE": "buffer", "TOTAL": "1000000", "CHUNK": "3000"})
                with self.assertRaises(StopIteration):
                    script.response()
                script.ring = None
                script.response()
                self.assertEqual(script.leave()[1].split("\n")[:3], ["write EPROTO", "again EPROTO", "end EPROTO"])

    def test_a_sleeping_writer_detects_a_dead_server(self):
        for options in ({}, {"records": True}):
            with self.subTest(options):
                script = self.begin(**options)

                def die(response):
                    script.hang_up()
                    raise StopIteration

                script.on_ring = die
                script.request({"PROBE": "buffer", "TOTAL": "100000000", "CHUNK": "3000"})
                with self.assertRaises(StopIteration):
                    script.response()
                status, log = script.wait()
                self.assertEqual(status, 0)
                self.assertEqual(log.split("\n")[:3], ["write EPIPE", "again EPIPE", "end EPIPE"])


class Peer(unittest.TestCase):
    """The same with a reader in C with real atomics, where the two sides run concurrently."""

    def test_no_byte_is_lost_in_tiny_rings_at_full_speed(self):
        for ring, query in ((8192, "64+b+1000"), (8192, "64+b+8192"), (12288, "64+b+100000"), (1 << 16, "256+b+65536"), (1 << 20, "512+b+77777")):
            with self.subTest(ring=ring, query=query):
                done = subprocess.run(
                    [os.path.join(server.BUILD, "tests/peer"), "--check", "--ring", str(ring), os.path.join(server.BUILD, "membufdemo"), query],
                    capture_output=True, text=True, timeout=server.DEADLINE)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
