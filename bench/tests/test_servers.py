"""Tests of the servers' configurations, their registry, the verification before measuring, and reading /proc.

No peer is needed: the tests start only short programs of their own. The servers themselves are tested by every run of the benchmark.
"""

import contextlib
import dataclasses
import http.server
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path
from typing import Dict, Iterator, List, Optional
from unittest import mock

from sluicebench.servers import SERVERS, Server, ServerFailed, Site, verify
from sluicebench import cost, stage
from sluicebench.servers import apache, base, host, lighttpd, nginx, processes, protocols
from sluicebench.servers.hyper import Hyper
from sluicebench.servers.protocols import H1, H1_TLS, H2_CLEAR, H2_TLS, PROTOCOLS

USER = "somebody"


class InADirectory(unittest.TestCase):
    def setUp(self) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory)
        places = {name: self.directory / name for name in ("scratch", "htdocs", "programs", "build")}
        for place in places.values():
            place.mkdir()
        self.site = Site(sluice=self.directory / "sluice", **places)

    def build(self, *names: str) -> None:
        for name in names:
            (self.site.build / name).touch()

    def program(self, name: str, text: str) -> None:
        path = self.site.programs / name
        path.write_text(text)
        path.chmod(0o755)


@contextlib.contextmanager
def started_by(user: Optional[str]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for module in (apache, lighttpd, nginx, sys.modules["sluicebench.servers.h2o"]):
            stack.enter_context(mock.patch.object(module, "unprivileged_user", return_value=user))
            if hasattr(module, "unprivileged_group"):
                stack.enter_context(mock.patch.object(module, "unprivileged_group", return_value=user))
        yield


class Registry(InADirectory):
    def test_names_are_those_of_the_classes(self) -> None:
        self.assertEqual(list(SERVERS), ["sluice", "apache", "lighttpd", "nginx", "h2o", "caddy", "sluice-uncached", "sluice-lookup"])
        self.assertTrue(all(kind.name == name for name, kind in SERVERS.items()))

    def test_each_server_serves_files_and_has_a_port_of_its_own(self) -> None:
        servers = [kind(self.site, 4) for kind in SERVERS.values()]
        self.assertEqual({server.routes()["file"] for server in servers}, {"/"})
        self.assertEqual(len({server.port for server in servers}), len(servers))

    def test_a_peer_that_is_not_there_is_named(self) -> None:
        with mock.patch.object(shutil, "which", return_value=None):
            reasons = {name: kind.available() or kind(self.site, 1).missing_binary() for name, kind in SERVERS.items()}
        self.assertIsNone(reasons.pop("sluice"))
        self.assertIsNone(reasons.pop("sluice-uncached"))
        self.assertIsNone(reasons.pop("sluice-lookup"))
        self.assertEqual(
            reasons,
            {
                "apache": "apache2 is not installed",
                "lighttpd": "lighttpd is not installed",
                "nginx": "nginx is not installed",
                "h2o": "h2o is not installed",
                "caddy": f"{self.site.build}/caddy is not built: bench/setup builds it if Go is installed",
            },
        )

    def test_apache_without_its_modules_is_named(self) -> None:
        with mock.patch.object(shutil, "which", return_value="/x"), mock.patch.object(apache, "MODULES", self.directory):
            self.assertIn("no mod_mpm_event.so and no mod_cgid.so", str(SERVERS["apache"].available()))

    def test_a_way_whose_program_is_not_built_is_missing_and_named(self) -> None:
        server = SERVERS["apache"](self.site, 4)
        self.assertNotIn("module", server.routes())
        self.assertIn("mod_sluicebench.so is not built", server.missing()["module"])
        self.build("mod_sluicebench.so")
        self.assertEqual(server.routes()["module"], "/module/")
        self.assertEqual(server.missing(), {})

    def test_nginx_without_fcgiwrap_has_no_cgi(self) -> None:
        self.build("fastcgi_test")
        with mock.patch.object(shutil, "which", return_value=None):
            server = SERVERS["nginx"](self.site, 4)
            self.assertEqual(server.routes(), {"file": "/", "fastcgi": "/fastcgi/"})
            self.assertEqual(server.missing(), {"cgi": "fcgiwrap is not installed"})

    def test_only_the_ways_that_are_asked_for(self) -> None:
        for kind in SERVERS.values():
            self.assertEqual(kind(self.site, 1, only=("file",)).routes(), {"file": "/"})


class Configurations(InADirectory):
    def text(self, name: str, workers: int = 4, user: Optional[str] = None, **more: List[str]) -> str:
        self.build("fastcgi_test", "mod_sluicebench.so")
        with started_by(user), mock.patch.object(shutil, "which", return_value="/usr/sbin/x"):
            self.server = SERVERS[name](self.site, workers, **more)
            return self.server.configuration()

    def test_each_has_port_files_and_access_log(self) -> None:
        for name in SERVERS:
            text = self.text(name)
            for part in (str(self.server.port), str(self.site.htdocs), str(self.server.access_log)):
                self.assertIn(part, text, name)

    def test_sluice_serves_records_as_lines_in_two_ways(self) -> None:
        text = self.text("sluice")
        for keys in ('record_format = "variable" }', 'record_format = "variable", convert = "cache" }'):
            self.assertIn(f'files = {{ directory = "{self.site.records}", {keys}', text)

    def test_sluice_serves_the_other_record_formats(self) -> None:
        text = self.text("sluice")
        self.assertIn(f'files = {{ directory = "{self.site.vfc}", record_format = "vfc" }}', text)
        self.assertIn(f'files = {{ directory = "{self.site.fixed}", record_format = "fixed:80" }}', text)

    def test_names_are_looked_up_by_one_server_alone(self) -> None:
        self.assertIn("dns_lookup = true", self.text("sluice-lookup"))
        self.assertNotIn("dns_lookup", self.text("sluice"))

    def test_each_accepts_the_idle_connections_of_the_table_of_costs(self) -> None:
        wanted = cost.IDLE_CONNECTIONS + cost.FIRST_CONNECTIONS
        for name, pattern in (("nginx", r"worker_connections (\d+);"), ("h2o", r"max-connections: (\d+)"), ("lighttpd", r"max-fds = (\d+)")):
            found = re.search(pattern, self.text(name))
            assert found, name
            # lighttpd keeps a third for connections.
            self.assertGreaterEqual(int(found[1]) // (3 if name == "lighttpd" else 1), wanted, name)
        text = self.text("apache")
        most, factor = (re.search(rf"^{key}\s+(\d+)$", text, re.MULTILINE) for key in ("MaxRequestWorkers", "AsyncRequestWorkerFactor"))
        assert most and factor
        self.assertGreaterEqual(int(most[1]) * (int(factor[1]) + 1), wanted)

    def test_each_keeps_idle_connections_for_the_same_time(self) -> None:
        lines = {
            "sluice": 'head_timeout = "60s"',
            "apache": "KeepAliveTimeout 60\n",
            "lighttpd": "server.max-keep-alive-idle = 60\n",
            "nginx": "keepalive_timeout 60s;",
            "h2o": "http1-request-timeout: 60 ",
            "caddy": "idle 60s\n",
        }
        for name, line in lines.items():
            self.assertIn(line, self.text(name), name)

    def test_each_has_the_workers_that_are_asked_for(self) -> None:
        lines = {
            "sluice": "workers = 3 ",
            "apache": "StartServers        3\n",
            "lighttpd": "server.max-worker = 3\n",
            "nginx": "worker_processes 3;",
            "h2o": "num-threads: 3 ",
        }
        for name, line in lines.items():
            self.assertIn(line, self.text(name, workers=3), name)

    def test_caddy_has_as_many_threads_of_go_as_workers_and_keeps_to_its_directory(self) -> None:
        self.text("caddy", workers=3)
        environment = self.server.environment()
        self.assertEqual(environment["GOMAXPROCS"], "3")
        self.assertEqual(environment["XDG_DATA_HOME"], str(self.server.directory))

    def test_caddy_passes_scripts_to_a_persistent_program(self) -> None:
        self.assertIn(f"reverse_proxy /fastcgi/* unix/{self.site.scratch}/caddy-", self.text("caddy"))
        self.assertNotIn("fastcgi", self.text("caddy", only=["file"]))

    def test_one_worker_of_lighttpd_is_its_own_process(self) -> None:
        self.assertIn("server.max-worker = 0\n", self.text("lighttpd", workers=1))

    def test_a_user_is_named_only_for_root(self) -> None:
        lines = {"apache": "User", "lighttpd": "server.username", "nginx": "user", "h2o": "user:"}
        for name, word in lines.items():
            self.assertRegex(self.text(name, user=USER), rf'(?m)^{word}.*{USER}', name)
            self.assertNotRegex(self.text(name), rf"(?m)^{word}\b", name)

    def test_nginx_has_programs_for_every_kept_connection_and_every_request(self) -> None:
        self.text("nginx", workers=2)
        self.assertEqual(self.server.program_processes(), 2 * nginx.KEPT_CONNECTIONS + nginx.REQUESTS_AT_ONCE)

    def test_fastcgi_goes_on_one_connection_in_nginx_and_to_a_fixed_number_of_processes_in_lighttpd(self) -> None:
        self.assertIn("fastcgi_keep_conn on;", self.text("nginx"))
        text = self.text("lighttpd", workers=2)
        self.assertIn('"min-procs" => 8,', text)
        self.assertIn('"max-procs" => 8,', text)

    def test_what_is_not_asked_for_is_not_configured(self) -> None:
        for name in SERVERS:
            text = self.text(name, only=["file"])
            self.assertNotRegex(text, "(?m)^[^#]*(fastcgi_pass|fastcgi.server|cgi.assign|sluicebench_module)", name)

    def test_apache_answers_its_own_module_at_the_programs_names(self) -> None:
        text = self.text("apache")
        self.assertIn(f'LoadModule sluicebench_module "{self.site.build}/mod_sluicebench.so"', text)
        for program in base.PROGRAMS["module"]:
            self.assertIn(f'<Location "/module/{program}">\n    SetHandler {program}\n', text)

    def test_sluice_has_both_ways_over_one_directory(self) -> None:
        text = self.text("sluice")
        self.assertIn(f'script = {{ directory = "{self.site.programs}" }}', text)
        self.assertIn(f'script = {{ directory = "{self.site.programs}", mode = "cgiplus" }}', text)


#: Output of `nginx -V`.
NGINX_BUILT = "nginx version: nginx/{}\nconfigure arguments: --with-http_ssl_module --with-http_v2_module"


class Protocols(InADirectory):
    """Tests of the protocols of each server and of their configuration."""

    def setUp(self) -> None:
        super().setUp()
        for name in ("mod_ssl.so", "mod_socache_shmcb.so", "mod_http2.so", "mod_openssl.so"):
            (self.directory / name).touch()
        self.patch(mock.patch.object(apache, "MODULES", self.directory))
        self.patch(mock.patch.object(lighttpd, "TLS_MODULE", self.directory / "mod_openssl.so"))
        self.nginx_is("1.22.1")

    def patch(self, patch: "mock._patch[object]") -> None:
        patch.start()
        self.addCleanup(patch.stop)

    def nginx_is(self, version: str) -> None:
        self.patch(mock.patch.object(nginx, "output_of", return_value=NGINX_BUILT.format(version)))

    def server(self, name: str, spoken: "tuple[protocols.Protocol, ...]" = PROTOCOLS) -> Server:
        return SERVERS[name](self.site, 4, ("file",), spoken)

    def test_without_being_asked_for_none_but_http1_is_spoken_or_configured(self) -> None:
        for name in SERVERS:
            server = self.server(name, ())
            self.assertEqual(server.protocols(), [H1])
            text = server.configuration()
            for port in ("tls", "h2c"):
                self.assertNotIn(str(server.ports[port]), text, name)
            self.assertNotRegex(text, "(?i)certificate|openssl|http2_module|h2proto|ssl_module", name)

    def test_each_speaks_all_with_the_same_certificate_on_ports_of_their_own(self) -> None:
        for name in SERVERS:
            server = self.server(name)
            self.assertEqual(server.protocols(), list(PROTOCOLS), name)
            text = server.configuration()
            for part in (server.port, *server.ports.values(), self.site.certificate, self.site.key):
                self.assertIn(str(part), text, name)

    def test_an_address_has_the_scheme_and_the_port_of_its_protocol(self) -> None:
        server = self.server("nginx")
        self.assertEqual(server.address("/a", H2_TLS), server.address("/a", H1_TLS))
        self.assertEqual(server.address("/a", H1_TLS), f"https://127.0.0.1:{server.ports['tls']}/a")
        self.assertEqual(server.address("/a", H2_CLEAR), f"http://127.0.0.1:{server.ports['h2c']}/a")
        self.assertEqual(server.address("/a"), f"http://127.0.0.1:{server.port}/a")

    def test_without_a_certificate_there_is_no_tls(self) -> None:
        self.site = dataclasses.replace(self.site, no_certificate="openssl is not installed")
        for name in SERVERS:
            server = self.server(name)
            self.assertEqual(server.protocols(), [H1, H2_CLEAR], name)
            self.assertEqual(server.missing_protocols()["h2-tls"], "openssl is not installed", name)
            self.assertNotIn(str(server.ports["tls"]), server.configuration(), name)

    def test_a_module_that_is_missing_is_named_and_takes_only_its_protocols(self) -> None:
        (self.directory / "mod_http2.so").unlink()
        (self.directory / "mod_openssl.so").unlink()
        server = self.server("apache")
        self.assertEqual(server.protocols(), [H1, H1_TLS])
        self.assertIn("no mod_http2.so", server.missing_protocols()["h2-clear"])
        self.assertIn("    Protocols http/1.1\n", server.configuration())
        self.assertNotIn("http2_module", server.configuration())
        server = self.server("lighttpd")
        self.assertEqual(server.protocols(), [H1, H2_CLEAR])
        self.assertIn("mod_openssl.so", server.missing_protocols()["h1-tls"])
        self.assertNotIn("openssl", server.configuration())

    def test_nginx_without_its_modules_is_named(self) -> None:
        self.patch(mock.patch.object(nginx, "output_of", return_value="configure arguments: --with-http_ssl_module"))
        server = self.server("nginx")
        self.assertEqual(server.protocols(), [H1, H1_TLS])
        self.assertEqual(server.missing_protocols()["h2-tls"], "nginx is built without http_v2_module")

    def test_nginx_is_configured_for_http2_in_the_words_of_its_version(self) -> None:
        server = self.server("nginx")
        self.assertIn(f"listen 127.0.0.1:{server.ports['tls']} ssl http2;", server.configuration())
        self.assertIn(f"listen 127.0.0.1:{server.ports['h2c']} http2;", server.configuration())
        self.nginx_is("1.26.0")
        self.assertIn(f"listen 127.0.0.1:{server.ports['tls']} ssl;", server.configuration())
        self.assertIn("\n        http2 on;\n", server.configuration())

    def test_http1_alone_over_tls_is_no_http2(self) -> None:
        for name in ("apache", "nginx"):
            self.assertNotRegex(self.server(name, (H1_TLS,)).configuration(), r"(?m)^[^#]*(http2|h2\b)", name)


    def test_caddy_speaks_on_each_port_only_what_is_measured_there(self) -> None:
        server = self.server("caddy")
        for port, words in ((server.port, "h1"), (server.ports["tls"], "h1 h2"), (server.ports["h2c"], "h1 h2c")):
            self.assertIn(f"servers 127.0.0.1:{port} {{\n\t\tprotocols {words}\n", server.configuration())
        self.assertIn("protocols h1\n", self.server("caddy", (H1_TLS,)).configuration())
        self.assertNotIn("h3", server.configuration())

    def test_the_limit_of_the_libraries_has_a_process_for_each_file_and_protocol(self) -> None:
        started: List[List[str]] = []
        server = Hyper(self.site, 4, ("file",), PROTOCOLS)
        with mock.patch.object(server, "spawn_helper", side_effect=started.append):
            server.start_helpers()
        commands = [server.command(), *started]
        self.assertEqual(len({command[2] for command in commands}), 2 * len(PROTOCOLS))
        for path, size in (("/0k.txt", "0"), ("/64k.txt", "65536")):
            for protocol in PROTOCOLS:
                host = server.address(path, protocol).removeprefix(f"{protocol.scheme}://").removesuffix(path)
                (command,) = (command for command in commands if command[2] == host)
                self.assertEqual(command[3], size)
                self.assertEqual(command[1], "http2" if protocol.multiplexed else "http1")
                self.assertEqual(len(command), 6 if protocol.tls else 4)

    def test_its_bytes_are_not_verified(self) -> None:
        self.assertEqual(verify([Hyper(self.site, 1)], "64k.txt"), {})


class Certificate(InADirectory):
    def test_it_is_for_the_loopback_on_p256(self) -> None:
        self.assertEqual(protocols.make_certificate(self.site.certificate, self.site.key), "")
        text = host.output_of(["openssl", "x509", "-noout", "-text", "-in", str(self.site.certificate)])
        self.assertIn("IP Address:127.0.0.1", text)
        self.assertIn("prime256v1", text)
        self.assertIn("BEGIN PRIVATE KEY", self.site.key.read_text())

    def test_without_openssl_the_reason_is_reported(self) -> None:
        with mock.patch.object(protocols, "find_program", return_value="/nowhere/openssl"):
            self.assertEqual(
                protocols.make_certificate(self.site.certificate, self.site.key), "openssl is not installed"
            )
        self.assertIn("openssl made no certificate", protocols.make_certificate(self.directory, self.directory))


class Starting(InADirectory):
    def test_a_program_that_is_not_there_is_a_failure_in_words(self) -> None:
        with self.assertRaisesRegex(ServerFailed, "sluice: .*/sluice cannot be run: No such file"):
            SERVERS["sluice"](self.site, 1).start()

    def test_a_server_that_ends_at_once_is_a_failure_with_the_end_of_its_log(self) -> None:
        server = Loaf(self.site, 1)
        server.text = "import sys; sys.exit('the port is taken')"
        with self.assertRaisesRegex(ServerFailed, "(?s)ended with status 1.*the port is taken"):
            server.start()
        self.assertEqual(server.pids(), [])

    def test_stop_ends_children_in_sessions_of_their_own_and_removes_sockets(self) -> None:
        with Loaf(self.site, 1) as server:
            self.assertEqual(server.request("/").status, 200)
            family = [processes.look_at(pid) for pid in server.pids()]
            self.assertEqual(len(family), 2)
            self.assertEqual(len({process.session for process in family if process}), 2)
            host.listening_socket(server.directory / "left.sock", 1).close()
        self.assertEqual(processes.still_there(process for process in family if process), [])
        self.assertFalse((server.directory / "left.sock").exists())
        self.assertEqual(server.pids(), [])
        server.stop()

    def test_scripts_are_distinguished_from_the_server(self) -> None:
        shutil.copy(shutil.which("sleep") or "/bin/sleep", self.site.programs / "sleep")
        with Loaf(self.site, 1) as server:
            own = server.pids()
            server.spawn_helper([str(self.site.programs / "sleep"), "60"])
            self.assertEqual(len(server.script_pids()), 1)
            self.assertEqual(server.helper_pids(), [])
            self.assertEqual(server.pids(), own)


# A server of two processes, the second in a session of its own and ignoring SIGTERM.
LOAF = """
import http.server, os, signal, sys, time
readable, writable = os.pipe()
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(writable, b".")
    while True:
        time.sleep(60)
os.read(readable, 1)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *_):
        pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


class Loaf(Server):
    name = "loaf"
    text = LOAF
    version = "loaf 1"

    @classmethod
    def available(cls) -> Optional[str]:
        return None

    def configuration(self) -> str:
        return ""

    def command(self) -> List[str]:
        return [sys.executable, "-S", "-c", self.text, str(self.port)]

    def end_all(self) -> List[processes.Process]:
        with mock.patch.object(base, "STOP_SECONDS", 0):  # the second process would use up the whole time
            return super().end_all()


class Answers(http.server.BaseHTTPRequestHandler):
    """A server in a thread for the verification: path → status and body."""

    answers: Dict[str, "tuple[int, bytes]"] = {}
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        status, body = self.answers.get(self.path, (404, b""))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Content(unittest.TestCase):
    def test_records_stand_after_their_length_and_begin_at_even_places(self) -> None:
        self.assertEqual(stage.variable_records([b"hello", b"", b"good"]), b"\5\0hello\0\0\0\4\0good")

    def test_records_of_a_fixed_length_are_padded_at_the_end_alone(self) -> None:
        text = stage.fixed_records([b"x" * 79, b"y"])
        self.assertEqual(text, b"x" * 79 + b"\n" + b"y\n" + b" " * 78)

    def test_lines_are_as_many_bytes_as_are_wanted_and_the_same_each_time(self) -> None:
        lines = stage.text_lines(10_000)
        self.assertEqual(lines, stage.text_lines(10_000))
        self.assertTrue(10_000 <= sum(len(line) + 1 for line in lines) < 10_101)


class Verify(InADirectory):
    def setUp(self) -> None:
        super().setUp()
        (self.site.htdocs / "a.txt").write_bytes(b"text")
        head = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n"
        self.program("cgiplustest", head + "body %s' \"$QUERY_STRING\"\n")
        self.program("membufdemo", head + "pattern'\n")
        handler = type("Handler", (Answers,), {"answers": {}})
        self.answers = handler.answers
        service = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        thread = threading.Thread(target=service.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(service.server_close)
        self.addCleanup(service.shutdown)
        self.server = SERVERS["sluice"](self.site, 1, only=("file", "cgi"))
        self.server.port = service.server_address[1]
        self.answers.update(
            {
                "/a.txt": (200, b"text"),
                "/cgi-bin/cgiplustest?65536": (200, b"body 65536"),
                "/cgi-bin/membufdemo?1+m+8192": (200, b"pattern"),
            }
        )

    def fault(self) -> Dict["tuple[str, str]", str]:
        return verify([self.server], "a.txt")

    def test_the_right_answers_are_no_fault(self) -> None:
        self.assertEqual(self.fault(), {})

    def test_records_must_come_as_the_lines_that_they_are(self) -> None:
        (self.site.htdocs / base.LINES_FILE).write_bytes(b"one\n")
        self.server.only = ("variable", "converted")
        self.answers.update({"/variable/lines.txt": (200, b"one\n"), "/converted/lines.txt": (200, b"\3\0one\0")})
        self.assertEqual(self.fault(), {("sluice", "converted"): "/converted/lines.txt: 6 bytes instead of 4"})

    def test_records_of_a_fixed_length_must_come_as_they_are(self) -> None:
        self.site.fixed.mkdir()
        (self.site.fixed / base.LINES_FILE).write_bytes(b"one two ")
        self.server.only = ("fixed",)
        self.answers["/fixed/lines.txt"] = (200, b"one two ")
        self.assertEqual(self.fault(), {})
        self.answers["/fixed/lines.txt"] = (200, b"one two\n")
        self.assertEqual(list(self.fault()), [("sluice", "fixed")])

    def test_a_protocol_is_checked_too(self) -> None:
        self.server.only_protocols = (H1, H2_CLEAR)
        self.server.ports["h2c"] = self.server.port  # which supports HTTP/1.1
        faults = self.fault()
        self.assertEqual(list(faults), [("sluice", "h2-clear")])
        self.assertIn("/a.txt: OSError: curl: ", faults["sluice", "h2-clear"])

    def test_another_protocol_than_the_one_asked_for_is_reported(self) -> None:
        wanted = protocols.Protocol("h2", "HTTP/2", "h1", "h2", "2", ("--http1.1",))
        with self.assertRaisesRegex(OSError, "an answer in HTTP/1.1"):
            protocols.fetch(self.server.address("/a.txt"), wanted, self.site.certificate, 10)
        self.assertEqual(protocols.fetch(self.server.address("/a.txt"), H1, self.site.certificate, 10), (200, b"text"))

    def test_another_status_is_reported(self) -> None:
        self.answers["/a.txt"] = (403, b"text")
        self.assertEqual(self.fault(), {("sluice", "file"): "/a.txt: status 403"})

    def test_another_number_of_bytes_is_reported(self) -> None:
        self.answers["/cgi-bin/cgiplustest?65536"] = (200, b"body")
        self.assertEqual(self.fault(), {("sluice", "cgi"): "/cgi-bin/cgiplustest?65536: 4 bytes instead of 10"})

    def test_other_bytes_are_reported(self) -> None:
        self.answers["/cgi-bin/membufdemo?1+m+8192"] = (200, b"Pattern")
        self.assertIn("not the right ones", self.fault()[("sluice", "cgi")])

    def test_no_answer_is_reported(self) -> None:
        self.server.port = host.free_port()
        self.assertIn("ConnectionRefusedError", self.fault()[("sluice", "file")])


def entry(pid: int, parent: int, group: int = 0, session: int = 0, started: int = 0) -> processes.Process:
    return processes.Process(pid, parent, group, session, started, "S")


class Processes(unittest.TestCase):
    def test_a_name_may_hold_brackets_and_spaces(self) -> None:
        fields = " ".join(str(number) for number in range(7, 7 + 30))
        found = processes.parse_stat(f"42 (a) (b c) S 7 8 9 0 -1 {fields}")
        self.assertEqual((found.pid, found.parent, found.group, found.session, found.state), (42, 7, 8, 9, "S"))
        self.assertFalse(found.has_ended)

    def test_descendants_are_children_and_theirs_parents_first(self) -> None:
        table = {p.pid: p for p in [entry(1, 0), entry(5, 1), entry(3, 5), entry(9, 3), entry(6, 1)]}
        self.assertEqual([p.pid for p in processes.descendants([5], table)], [5, 3, 9])

    def test_an_orphan_is_found_by_its_session_also_when_the_root_has_ended(self) -> None:
        table = {p.pid: p for p in [entry(1, 0), entry(7, 1, 7, 5), entry(8, 7), entry(6, 1)]}
        self.assertEqual([p.pid for p in processes.descendants([5], table)], [7, 8])

    def test_another_process_of_the_same_pid_is_not_the_same(self) -> None:
        here = processes.look_at(os.getpid())
        assert here
        self.assertEqual(processes.still_there([here]), [here])
        self.assertEqual(processes.still_there([here._replace(started=here.started - 1)]), [])

    def test_one_that_waits_to_be_reaped_has_ended(self) -> None:
        child = subprocess.Popen([sys.executable, "-S", "-c", ""])
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        found = processes.look_at(child.pid)
        self.assertTrue(found and found.has_ended)
        self.assertEqual(processes.end_family([child.pid], 0), [])
        child.wait()


if __name__ == "__main__":
    unittest.main()
