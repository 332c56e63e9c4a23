"""Tests with recorded output of the tools."""

from __future__ import annotations

import unittest
from dataclasses import replace
from pathlib import Path
from unittest import mock

from sluicebench import load, tables
from sluicebench.results import NotMeasured
from sluicebench.servers.protocols import H1, H1_TLS, H2_CLEAR, H2_TLS
from sluicebench.tables import MIB, Row

FIXTURES = Path(__file__).parent / "fixtures"
KEPT = Row("kept", "", concurrency=10, bytes=16384)
CLOSE = replace(KEPT, keep_alive=False)
H2 = replace(KEPT, protocol=H2_TLS, streams=32)


def h2load(name: str) -> load.Invocation:
    return load.Invocation(("h2load",), (FIXTURES / f"h2load-{name}.txt").read_text(), 0)


class H2loadOutput(unittest.TestCase):
    def setUp(self) -> None:
        warm_up = mock.patch.object(tables, "WARM_UP_SECONDS", 0.1)  # as when the outputs were recorded
        warm_up.start()
        self.addCleanup(warm_up.stop)

    def test_a_run_by_the_clock_counts_the_window_without_the_warm_up(self) -> None:
        sample = load.h2load_sample(h2load("duration"), KEPT, 1.0)
        self.assertEqual(sample.value, 44552.0)
        self.assertEqual(sample.details, {"least": 4226.75, "most": 4934.33, "mean": 4453.32, "deviation": 284.84})

    def test_a_window_that_ended_late_is_as_long_as_it_was(self) -> None:
        late = load.Invocation((), h2load("duration").output.replace("finished in 1.10s", "finished in 1.30s"), 0)
        self.assertAlmostEqual(load.h2load_sample(late, KEPT, 1.0).value or 0, 44552 / 1.2, places=3)

    def test_a_run_by_the_count_takes_the_time_that_it_took(self) -> None:
        self.assertAlmostEqual(
            load.h2load_sample(h2load("count-close"), CLOSE, 1.0).value or 0, 2000 / 0.12604, places=3
        )

    def test_bytes_count_also_when_their_reply_is_not_complete(self) -> None:
        sample = load.h2load_sample(h2load("bytes"), Row("100MB", "", bytes=104857600), 1.0, in_bytes=True)
        self.assertAlmostEqual(sample.value or 0, 2699949478 / MIB / 1.10, places=3)

    def test_bytes_of_a_warm_up_that_ended_late_are_not_lost(self) -> None:
        """h2load's clock does not advance while it reads, so all bytes and the whole time are used."""
        late = h2load("bytes").output.replace("finished in 1.10s", "finished in 1.35s")
        sample = load.h2load_sample(load.Invocation((), late, 0), Row("100MB", "", bytes=104857600), 1.0, in_bytes=True)
        self.assertAlmostEqual(sample.value or 0, 2699949478 / MIB / 1.35, places=3)

    def test_replies_of_another_status_are_a_failure(self) -> None:
        sample = load.h2load_sample(h2load("404"), CLOSE, 1.0)
        self.assertIsNone(sample.value)
        self.assertEqual(sample.failure, "200 replies 4xx")

    def test_a_server_that_is_not_there_is_a_failure_although_h2load_says_0(self) -> None:
        self.assertEqual(
            load.h2load_sample(h2load("refused"), CLOSE, 1.0).failure, "200 requests failed, 200 errored, 0 timed out"
        )

    def test_replies_that_are_too_short_are_a_failure(self) -> None:
        sample = load.h2load_sample(h2load("count-close"), replace(CLOSE, bytes=20000), 1.0)
        self.assertEqual(sample.failure, "2000 replies with 32768000 bytes, instead of 20000 each")

    def test_a_run_over_tls_and_http2_tells_what_was_spoken(self) -> None:
        report = load.checked(h2load("tls-h2"), H2)
        self.assertEqual(report.done, 30773)
        self.assertEqual(
            (report.protocol, report.tls_version, report.tls_cipher), ("h2", "TLSv1.3", "TLS_AES_128_GCM_SHA256")
        )

    def test_what_its_threads_print_into_each_others_lines_is_no_matter(self) -> None:
        whole = h2load("tls-h2").output
        chunks = {
            "TLS Protocol: TLSv1.3\nCipher: ": "TLS Protocol: Warm-up started for thread #TLSv1.31.\nCipher: \n",
            "Cipher: TLS_AES_128_GCM_SHA256\n": "Cipher: TLS_AES_128_GCM_SHA256Warm-up started for thread #1.\n\n",
            "Application protocol: h2\n": "Application protocol: Warm-up started for thread #h21.\n\n",
        }
        for before, after in chunks.items():
            with self.subTest(after):
                self.assertIn(before, whole)
                self.assertEqual(load.checked(load.Invocation((), whole.replace(before, after), 0), H2).done, 30773)

    def test_another_protocol_than_the_one_wanted_is_a_failure(self) -> None:
        for name, protocol, reason in (
            ("tls-h2", H1_TLS, "spoke h2 instead of http/1.1"),
            ("tls-h2", H2_CLEAR, "spoke h2 instead of h2c"),
            ("duration", H2_TLS, "spoke http/1.1 instead of h2"),
            ("duration", H2_CLEAR, "spoke http/1.1 instead of h2c"),
        ):
            with self.subTest(reason):
                self.assertEqual(load.h2load_sample(h2load(name), replace(KEPT, protocol=protocol), 1.0).failure, reason)

    def test_another_version_or_cipher_of_tls_is_a_failure(self) -> None:
        for before, after in (("TLSv1.3", "TLSv1.2"), ("AES_128_GCM_SHA256", "AES_256_GCM_SHA384")):
            run = load.Invocation((), h2load("tls-h2").output.replace(before, after), 0)
            with self.subTest(after), self.assertRaisesRegex(NotMeasured, f"spoke .*{after}.* instead of TLSv1.3 TLS_AES_128"):
                load.checked(run, H2)

    def test_it_counts_also_before_a_reply_is_complete(self) -> None:
        early = h2load("tls-h2").output.replace("30773 done, 30773 succeeded", "0 done, 0 succeeded")
        sample = load.h2load_sample(load.Invocation((), early, 0), replace(H2, protocol=H1_TLS), 1.0, in_bytes=True)
        self.assertEqual(sample.failure, "spoke h2 instead of http/1.1")

    def test_tls_that_is_not_reported_is_a_failure(self) -> None:
        clear = load.Invocation((), h2load("duration").output, 0)
        self.assertIn("instead of TLSv1.3", load.h2load_sample(clear, replace(KEPT, protocol=H1_TLS), 1.0).failure)

    def test_no_reply_is_a_failure(self) -> None:
        silent = h2load("duration").output.replace("44552 done, 44552 succeeded", "0 done, 0 succeeded")
        self.assertEqual(load.h2load_sample(load.Invocation((), silent, 0), KEPT, 1.0).failure, "no reply")

    def test_a_run_that_was_killed_and_one_without_a_report_are_failures(self) -> None:
        self.assertIn("did not exit", load.h2load_sample(load.Invocation((), "", None), KEPT, 1.0).failure)
        self.assertIn(
            "Address already in use",
            load.h2load_sample(load.Invocation((), "Address already in use\n", 1), KEPT, 1.0).failure,
        )

    def test_checked_raises_with_the_reason(self) -> None:
        with self.assertRaisesRegex(NotMeasured, "4xx"):
            load.checked(h2load("404"), CLOSE)


class H2loadCommand(unittest.TestCase):
    def test_kept_connections_run_by_the_clock(self) -> None:
        command = load.h2load_command("http://h/", KEPT, 0.7)
        self.assertEqual(
            command, ["h2load", "--h1", "-c", "10", "-t", "2", "-D", "700ms", "--warm-up-time=60ms", "http://h/"]
        )

    def test_without_keep_alive_it_runs_by_the_count(self) -> None:
        command = load.h2load_command("http://h/", replace(CLOSE, concurrency=1), 0.7, 350)
        self.assertEqual(
            command, ["h2load", "--h1", "-c", "1", "-t", "1", "-n", "350", "-H", "Connection: close", "http://h/"]
        )

    def test_over_tls_there_is_one_cipher_and_one_group(self) -> None:
        command = load.h2load_command("https://h/", replace(KEPT, protocol=H1_TLS), 0.7)
        self.assertEqual(
            command[:4], ["h2load", "--h1", "--tls13-ciphers=TLS_AES_128_GCM_SHA256", "--groups=X25519"]
        )

    def test_http2_has_many_requests_under_way(self) -> None:
        command = load.h2load_command("https://h/", H2, 0.7)
        self.assertEqual(command[1:3], ["-m", "32"])
        self.assertIn("--groups=X25519", command)
        clear = load.h2load_command("http://h/", replace(H2, protocol=H2_CLEAR), 0.7)
        self.assertEqual(clear[:6], ["h2load", "-m", "32", "-c", "10", "-t"])

    def test_new_clients_ask_once_each_whatever_the_speed(self) -> None:
        row = replace(CLOSE, protocol=H1_TLS, concurrency=400, requests=400)
        count = load.next_count(20_000, row, 0.5)
        command = load.h2load_command("https://h/", row, 0.5, count)
        self.assertEqual((command[command.index("-c") + 1], command[command.index("-n") + 1]), ("400", "400"))

    def test_the_count_follows_the_speed_and_gives_each_client_as_many(self) -> None:
        self.assertEqual(load.next_count(None, CLOSE, 0.5), 500)
        self.assertEqual(load.next_count(20_001, CLOSE, 0.5), 10_010)
        self.assertEqual(load.next_count(3, CLOSE, 0.5), 100)


class CurlOutput(unittest.TestCase):
    def test_a_transfer(self) -> None:
        sample = load.curl_sample(load.Invocation(("curl",), "200 209715200 0.078477 1.1\n", 0), 200 * MIB)
        self.assertAlmostEqual(sample.value or 0, 200 / 0.078477)

    def test_what_is_wrong_is_reported(self) -> None:
        for output, status, reason in (
            ("400 78 0.006621 1.1\n", 0, "status 400"),
            ("200 78 0.006621 1.1\n", 0, f"78 bytes instead of {MIB}"),
            (f"200 {MIB} 0.006621 2\n", 0, "spoke HTTP/2 instead of HTTP/1.1"),
            (
                "curl: (7) Failed to connect\n000 0 0.000110 0\n",
                7,
                "curl ended with status 7: curl: (7) Failed to connect",
            ),
            ("", 127, "curl ended with status 127: "),
        ):
            with self.subTest(output):
                self.assertEqual(load.curl_sample(load.Invocation(("curl",), output, status), MIB).failure, reason)

    def test_over_tls_its_options_are_those_of_the_other_tool_and_it_knows_the_certificate(self) -> None:
        command = load.curl_command("https://h/", H1_TLS, Path("/c.pem"))
        for options in ("--http1.1 --tlsv1.3 --tls13-ciphers TLS_AES_128_GCM_SHA256 --curves X25519", "--cacert /c.pem"):
            self.assertIn(options, " ".join(command))
        self.assertNotIn("--cacert", load.curl_command("http://h/", H1, Path("/c.pem")))

    def test_a_quick_route_gets_more_megabytes(self) -> None:
        fast = load.curl_sample(load.Invocation((), f"200 {1000 * MIB} 0.200000 1.1\n", 0), 1000 * MIB)
        self.assertEqual(load.next_megabytes(1000, fast, 0.5), 3000)
        slow = load.curl_sample(load.Invocation((), f"200 {1000 * MIB} 2.000000 1.1\n", 0), 1000 * MIB)
        self.assertEqual(load.next_megabytes(1000, slow, 0.5), 1000)


class SpawnLimitOutput(unittest.TestCase):
    def test_a_rate_or_the_reason(self) -> None:
        self.assertEqual(load.spawn_sample(load.Invocation((), "spawns_per_second 4875.2\n", 0)).value, 4875.2)
        self.assertIn(
            "printed nothing", load.spawn_sample(load.Invocation((), "spawn_limit: x: printed nothing\n", 1)).failure
        )


class Invoking(unittest.TestCase):
    def test_both_outputs_and_the_status_are_kept(self) -> None:
        run = load.invoke(["sh", "-c", "echo out; echo err >&2; exit 3"], 10)
        self.assertEqual((run.output, run.status), ("out\nerr\n", 3))
        self.assertIn("[status 3]", str(run))

    def test_a_program_that_does_not_end_is_killed(self) -> None:
        run = load.invoke(["tail", "-f", "/dev/null"], 0.05)
        self.assertIsNone(run.status)

    def test_a_program_that_is_not_there(self) -> None:
        self.assertEqual(load.invoke(["/nowhere/h2load"], 1).status, 127)


if __name__ == "__main__":
    unittest.main()
