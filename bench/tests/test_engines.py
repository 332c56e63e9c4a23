"""Tests of the tables `engines`: their plan, the requests, the peers' configurations, the verification, processor time.

No peer is needed: the tests start only short programs of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from sluicebench import aims, engines, load, plan, report, run
from sluicebench.results import Results, Sample
from sluicebench.servers import PEERS, Site, applications, peers, processes, sluice
from sluicebench.servers.base import Reply
from sluicebench.servers.sluice import Sluice
from sluicebench.tables import Row

APPLICATIONS = Path(__file__).resolve().parents[1] / "engines"


class Plan(unittest.TestCase):
    def test_the_group_is_measured_only_if_it_is_named(self) -> None:
        keys = [table.key for table in plan.choose(["engines"])]
        self.assertEqual(keys, [table.key for table in engines.ENGINE_TABLES])
        self.assertFalse(set(keys) & {table.key for table in plan.choose()})
        self.assertFalse(set(keys) & {table.key for table in plan.choose(quick=True)})
        self.assertEqual([table.key for table in plan.choose(["engines-perl"])], ["engines-perl"])

    def test_the_whole_takes_less_than_40_minutes_and_the_quick_one_less_than_4(self) -> None:
        self.assertLess(plan.estimate_seconds(plan.choose(["engines"])), 40 * 60)
        quick = plan.choose(["engines"], quick=True)
        self.assertEqual(len(quick), len(engines.ENGINE_TABLES))
        self.assertLess(plan.estimate_seconds(quick), 4 * 60)

    def test_a_slow_column_has_time_for_two_replies_to_each_client(self) -> None:
        (table,) = plan.choose(["engines-perl"])
        row = Row("", "", 64)
        self.assertEqual(plan.window(table, row, 10_000), (0.4, row.warm_up_seconds))
        self.assertEqual(plan.window(table, row, 64), (2.0, 1.0))
        self.assertEqual(plan.window(table, row, 1), (6.0, 3.0))
        self.assertEqual(plan.window(table, row, None)[0], 0.4)

    def test_every_cell_asks_for_something_that_its_way_answers(self) -> None:
        for table in engines.ENGINE_TABLES:
            for row in table.rows:
                for column in table.columns_of(row):
                    kinds = [*applications.kinds_of(column.way), "bulk"]
                    self.assertIn(row.kind, kinds, f"{table.key} {row.key} {column.key}")
                    self.assertTrue(run.path_of(column, row, 1024))

    def test_every_way_of_sluice_has_a_route(self) -> None:
        ways = {c.way for table in engines.ENGINE_TABLES for c in table.columns if c.server == "sluice"}
        self.assertLessEqual(ways, set(Sluice.ways))


class Paths(unittest.TestCase):
    def test_they_name_the_form_and_the_request(self) -> None:
        self.assertEqual(applications.path_of("python-rte", "text", 65536), "script.py?65536")
        self.assertEqual(applications.path_of("python-wsgi", "text", 0), "plain?0")
        self.assertEqual(applications.path_of("perl-registry", "form"), "script.pl")
        self.assertEqual(applications.path_of("php-script", "page"), "front.php/app/list/tea?n=20")
        self.assertEqual(applications.path_of("perl-fork", "imports"), "imports.pl")

    def test_a_transfer_names_megabytes_and_channel(self) -> None:
        (table,) = plan.choose(["engines-buffer"])
        self.assertEqual(run.path_of(table.column("php-buffer"), table.rows[0], 1024), "bulk.php?1024+b")
        self.assertEqual(run.path_of(table.column("perl-cgi"), table.rows[0], 2000), "bulk.pl?2000+m")

    def test_a_body_is_posted_with_its_type(self) -> None:
        command = load.h2load_command("http://x/", Row("", "", 10), 0.4, 0, (Path("/form"), "text/x"))
        self.assertEqual(command[-5:], ["-d", "/form", "-H", "Content-Type: text/x", "http://x/"])

    def test_the_form_has_about_a_kilobyte(self) -> None:
        self.assertTrue(900 < len(applications.form_text()) < 1200, len(applications.form_text()))


class BestPeer(unittest.TestCase):
    AIM = aims.Aim("x", "engines-perl", ("0k-c1", "0k-c10"), "psgi", "starman", 1.3, or_peers=("starman-nginx",))

    def verdict(self, **cells: float) -> aims.Verdict:
        found = Results()
        for key, value in cells.items():
            column, _, row = key.rpartition("_")
            found.add("engines-perl", f"0k-{row}", column.replace("_", "-"), 1, Sample(value))
        return aims.verdict_on(self.AIM, found)

    def test_the_best_of_the_measured_peers_counts_in_each_row(self) -> None:
        verdict = self.verdict(psgi_c1=300, starman_c1=100, starman_nginx_c1=200, psgi_c10=300, starman_c10=250)
        self.assertEqual(verdict.best, {"0k-c1": "starman-nginx", "0k-c10": "starman"})
        self.assertEqual((verdict.met, verdict.missed), (["0k-c1"], ["0k-c10"]))
        self.assertIn("Starman", report.worst_row(verdict))

    def test_without_a_figure_of_ours_there_is_none(self) -> None:
        self.assertEqual(self.verdict(starman_c1=100).word, "not measured")

    def test_each_language_is_compared_with_both_kinds_of_peers(self) -> None:
        texts = [aim.text for aim in aims.engine_aims()]
        for language in ("Python WSGI", "Perl", "PHP"):
            self.assertTrue(any(text.startswith(f"{language}: RTE / best in-process") for text in texts), language)
        for language in ("Python WSGI", "Perl PSGI", "PHP"):
            self.assertTrue(any(text.startswith(f"{language}: RTE / best process of") for text in texts), language)


class InASite(unittest.TestCase):
    def setUp(self) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory)
        places = {name: self.directory / name for name in ("scratch", "htdocs", "programs", "bench/build")}
        for place in places.values():
            place.mkdir(parents=True)
        self.site = Site(*list(places.values()), self.directory / "sluice")


class Configurations(InASite):
    def test_each_peer_has_as_many_processes_as_sluice(self) -> None:
        with mock.patch.object(sluice, "checked", return_value=""):
            ours = Sluice(self.site, 2, ("perl-rte",))
            self.assertIn("max = 5", ours.configuration())
        words = {
            "gunicorn": "--workers 5", "uwsgi": "--processes 5", "granian": "--workers 5", "waitress": "--threads=5",
            "starman": "--workers 5", "mod_perl": "MinSpareServers     5\n", "mod_php": "StartServers        5\n",
        }  # fmt: skip
        for name, words_of in words.items():
            self.assertIn(words_of, PEERS[name](self.site, 2).configuration(), name)
        fpm = PEERS["php-fpm-nginx"](self.site, 2)
        fpm.directory.mkdir()
        fpm.backend("/socket")
        self.assertIn("pm.max_children = 5\n", (fpm.directory / "fpm.conf").read_text())

    def test_behind_nginx_it_listens_on_a_socket_that_nginx_asks(self) -> None:
        for name in (name for name in PEERS if name.endswith("-nginx")):
            server = PEERS[name](self.site, 2)
            server.directory.mkdir()
            text = server.configuration()
            self.assertIn(f'server "unix:{server.socket}"', text)
            self.assertIn("worker_processes 2;", text)
            self.assertIn(f"listen 127.0.0.1:{server.port};", text)
            self.assertRegex(text, "(proxy|uwsgi|fastcgi)_pass (http://)?application;")

    def test_apache_has_a_process_for_each_client(self) -> None:
        for name in ("mod_perl", "mod_php"):
            self.assertIn("MaxRequestWorkers   72\n", PEERS[name](self.site, 2).configuration())

    def test_a_proxy_is_ready_when_the_program_behind_it_is(self) -> None:
        server = PEERS["gunicorn-nginx"](self.site, 2)
        self.assertFalse(server.is_ready(Reply(502, {}, b"")))
        self.assertTrue(server.is_ready(Reply(200, {}, b"")))
        self.assertEqual(server.ready_path, "/plain?0")
        self.assertEqual(PEERS["mod_perl"](self.site, 2).ready_path, "/registry/script.pl?0")

    def test_what_is_not_installed_is_named(self) -> None:
        self.assertIn("is not installed", PEERS["granian"](self.site, 2).missing()["python-wsgi"])
        with mock.patch.object(shutil, "which", return_value=None):
            self.assertEqual(PEERS["starman"].available(), "starman is not installed")
            self.assertEqual(PEERS["gunicorn-nginx"].available(), "nginx is not installed")
        with mock.patch.object(peers, "MODULES", self.directory):
            with mock.patch.object(peers, "find_program", return_value="/x"):
                self.assertIn("mod_perl.so", str(PEERS["mod_perl"].available()))

    def test_an_engine_that_sluice_does_not_have_is_missing_with_its_reason(self) -> None:
        with mock.patch.object(sluice, "checked", return_value='unknown key "engine"'):
            server = Sluice(self.site, 2, ("perl-rte", "perl-cgi", "python-cgi"))
            self.assertEqual(server.missing()["perl-rte"], 'unknown key "engine"')
            self.assertIn("bench/setup engines", server.missing()["python-cgi"])
            self.assertEqual(server.routes(), {"perl-cgi": "/perl-cgi/"})
            self.assertNotIn('mode = "rte"', server.configuration())

    def test_routes_of_applications_are_there_only_if_they_are_asked_for(self) -> None:
        text = Sluice(self.site, 2).configuration()
        self.assertNotIn(str(self.site.applications), text)


class Verification(InASite):
    def setUp(self) -> None:
        super().setUp()
        applications.fill(APPLICATIONS, self.site)
        (self.site.venv / "bin").mkdir(parents=True)
        self.site.python.symlink_to(sys.executable)

    def server(self, status: int, body: bytes) -> mock.Mock:
        server = mock.Mock(site=self.site)
        server.name = "peer"
        server.routes.return_value = {"python-cgiplus": "/x/", "file": "/"}
        server.request.return_value = Reply(status, {}, body)
        return server

    def test_the_script_by_itself_says_what_is_right(self) -> None:
        form = applications.reply_by_hand(self.site, "python", "form").decode()
        self.assertEqual(form.splitlines()[:3], ["field0: 32", "field1: 112", "field2: 40"])
        self.assertEqual(applications.reply_by_hand(self.site, "python", "upload"), b"5000000 the end.\n")
        self.assertEqual(len(applications.reply_by_hand(self.site, "python", "text")), 65536)

    def test_another_body_or_status_is_a_fault_of_that_kind_of_request(self) -> None:
        right = applications.reply_by_hand(self.site, "python", "upload")
        faults = applications.verify_applications([self.server(200, right)])
        self.assertEqual(set(faults), {("peer", "python-cgiplus text"), ("peer", "python-cgiplus form")})
        faults = applications.verify_applications([self.server(500, right)])
        self.assertIn("status 500", faults["peer", "python-cgiplus upload"])

    def test_every_file_is_readable_for_another_user(self) -> None:
        for path in [*self.site.applications.rglob("*"), *self.site.bodies.iterdir()]:
            self.assertTrue(path.stat().st_mode & 0o004, path)


class ProcessorTime(unittest.TestCase):
    def test_it_includes_running_and_ended_descendants(self) -> None:
        # The shell waits for a program that computes, computes a little itself, and stays.
        script = f"{sys.executable} -c 'sum(range(6000000))'; echo; read x"
        shell = subprocess.Popen(["/bin/sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            assert shell.stdout
            shell.stdout.readline()
            self.assertGreater(processes.processor_seconds([shell.pid]), 0.03)
        finally:
            shell.communicate()

    def test_a_process_that_is_not_there_has_none(self) -> None:
        child = subprocess.Popen([sys.executable, "-c", ""])
        child.wait()
        self.assertEqual(processes.processor_seconds([child.pid]), 0.0)

    def test_the_own_clock_agrees(self) -> None:
        own = sum(os.times()[:2])
        self.assertGreaterEqual(processes.processor_seconds([os.getpid()]), own - 0.05)

    def test_the_report_has_the_median(self) -> None:
        (table,) = plan.choose(["engines-php"])
        found = Results()
        for number, cpu in enumerate((30.0, 50.0, 40.0), 1):
            found.add(table.key, "0k-c10", "rte", number, Sample(1000.0, details={"cpu": cpu}))
        self.assertRegex(report.cpu_table(table, table.rows[3:4], found) + report.cpu_table(table, table.rows[1:2], found), "40.0")


if __name__ == "__main__":
    unittest.main()
