"""The base of all servers of the benchmark: the interface, start and stop, and the verification before measuring.

Here: Site, Server, ServerFailed, Reply, verify(). Not here: the configuration of each server (the file of its name),
the load (sluicebench/load.py), the workloads (sluicebench/plan.py).

    site = Site(scratch, htdocs, programs, build, sluice)
    for kind in SERVERS.values():                 # sluicebench.servers
        reason = kind.available()                 # None, or a text that says what is missing
        server = kind(site, workers=4)
        server.start()                            # or: with kind(site, workers=4) as server:
        server.address(server.routes()["file"] + "16k.txt")
        server.stop()
    faults = verify(servers, "64k.txt")           # {(server name, way): reason}; do not measure these
"""

import abc
import atexit
import hashlib
import http.client
import os
import shutil
import subprocess
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Sequence, Set, Tuple

from . import processes
from .host import bound_open_files, child_environment, free_port, group_of, listening_socket, unprivileged_user
from .meter import Meter
from .protocols import H1, OVER_TLS, PROTOCOLS, Protocol, fetch

# Longest time until a server answers, and until one request of the verification is answered, seconds.
START_SECONDS = 10.0
REQUEST_SECONDS = 30.0

# Time for an orderly shutdown; then the server is killed, seconds.
STOP_SECONDS = 5.0

# How long every server keeps an idle connection. The defaults are 5 to 75 s; with these some servers would close their
# connections during the measurement of idle connections.
IDLE_SECONDS = 60

# The programs of each way of running; files need none.
PROGRAMS: Mapping[str, Tuple[str, ...]] = {
    "file": (),
    "variable": (),
    "converted": (),
    "vfc": (),
    "fixed": (),
    "cgi": ("cgiplustest", "membufdemo"),
    "cgiplus": ("cgiplustest", "membufdemo"),
    "module": ("cgiplustest", "membufdemo"),
    "fastcgi": ("cgiplustest",),
}

# Ways of sending a file of VMS records as lines, and the one file that exists both as lines and as records. Records of a fixed length are
# sent as they are.
RECORD_WAYS = ("variable", "converted", "vfc")
LINES_FILE = "lines.txt"
FIXED_BYTES = 80

# The query for each program in the verification. The record size of membufdemo is explicit, because its default depends
# on the server (only Sluice sets WWW_GATEWAY_MRS), and the bytes depend on it.
CHECK_QUERIES: Mapping[str, str] = {"cgiplustest": "65536", "membufdemo": "1+m+8192"}

# The persistent program for the way "fastcgi".
FASTCGI_PROGRAM = "fastcgi_test"


class ServerFailed(Exception):
    """A server did not start, does not answer, or left processes behind. The text contains the end of the error log."""


@dataclass(frozen=True)
class Site:
    """The content of all servers, and the directories that they may write to. All paths are absolute."""

    scratch: Path  # the temporary directory of the run; each server creates its own inside
    htdocs: Path  # the files
    programs: Path  # cgiplustest, membufdemo
    build: Path  # bench/build: fastcgi_test, mod_sluicebench.so
    sluice: Path  # the server's binary
    no_certificate: str = ""  # why there is none

    @property
    def records(self) -> Path:
        """Files of htdocs as VMS records."""
        return self.scratch / "records"

    @property
    def vfc(self) -> Path:
        """The same as VFC records."""
        return self.scratch / "vfc"

    @property
    def fixed(self) -> Path:
        """Text in records of FIXED_BYTES."""
        return self.scratch / "fixed"

    @property
    def applications(self) -> Path:
        """The applications of the tables `engines`: a directory for each language."""
        return self.scratch / "engines"

    @property
    def bodies(self) -> Path:
        """Bodies of requests."""
        return self.scratch / "bodies"

    @property
    def php_settings(self) -> Path:
        """A directory with a php.ini for every way of running PHP, in addition to the system's."""
        return self.scratch / "php"

    @property
    def venv(self) -> Path:
        """The virtual environment with Flask and the peers in Python."""
        return self.build.parent / ".venv-engines"

    @property
    def python(self) -> Path:
        return self.venv / "bin" / "python"

    @property
    def certificate(self) -> Path:
        """The certificate of all servers, with its key."""
        return self.scratch / "certificate.pem"

    @property
    def key(self) -> Path:
        return self.scratch / "key.pem"


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes


Child = subprocess.Popen  # in a session of its own


class Server(abc.ABC):
    """A server, started once for the whole run, on free ports, in a directory of its own."""

    name: str = ""
    # Way of running → prefix of the URL path, for all ways that it supports if nothing is missing.
    ways: Mapping[str, str] = {}
    # Name of one of `ports` → its part of the configuration; {port}, {certificate}, {key}.
    listeners: Mapping[str, str] = {}
    # Whether verify() compares its files: a limit program sends other bytes.
    is_verified = True
    # Ways whose processes nobody waits for, so that no process has their time: the kernel reaps them.
    unawaited: Tuple[str, ...] = ()

    # ---- properties of a server ----

    @classmethod
    @abc.abstractmethod
    def available(cls) -> Optional[str]:
        """None if it can run; otherwise the reason: "apache2 is not installed"."""

    def missing_binary(self) -> Optional[str]:
        """The same for a program that bench/setup builds."""
        return None

    @property
    @abc.abstractmethod
    def version(self) -> str:
        """Name and version as the program prints them, in one line."""

    def routes(self) -> Dict[str, str]:
        """Way of running (a key of PROGRAMS) → prefix of the URL path, with "/" at its end. A file name, or one of
        PROGRAMS[way], follows it. Only requested and available ways."""
        missing = self.missing()
        return {way: prefix for way, prefix in self.ways.items() if way in self.only and way not in missing}

    def missing(self) -> Dict[str, str]:
        """Way of running that is not available → the reason: "…/mod_sluicebench.so is not built"."""
        return {}

    def protocols(self) -> List[Protocol]:
        """The requested and available protocols; HTTP/1.1 in cleartext is always available."""
        missing = self.missing_protocols()
        return [protocol for protocol in PROTOCOLS if protocol in self.only_protocols and protocol.key not in missing]

    def missing_protocols(self) -> Dict[str, str]:
        """Key of a protocol that is not available → the reason: "nginx is built without http_v2_module"."""
        return dict.fromkeys(OVER_TLS, self.site.no_certificate) if self.site.no_certificate else {}

    def extra_ports(self) -> Dict[str, int]:
        """The `ports` that the chosen protocols need."""
        wanted = {protocol.port for protocol in self.protocols()}
        return {name: number for name, number in self.ports.items() if name in wanted}

    def extra_listeners(self, **more: str) -> str:
        """The configuration of these ports; `more`: values of further placeholders."""
        places = {"certificate": self.site.certificate, "key": self.site.key, **more}
        return "".join(self.listeners[name].format(port=port, **places) for name, port in self.extra_ports().items())

    @property
    def fastcgi_program(self) -> Path:
        return self.site.build / FASTCGI_PROGRAM

    def missing_build(self, way: str, path: Path) -> Dict[str, str]:
        return {} if path.is_file() else {way: f"{path} is not built"}

    @abc.abstractmethod
    def configuration(self) -> str:
        """The text of the configuration that start() writes."""

    @abc.abstractmethod
    def command(self) -> List[str]:
        """The command that start() runs, in the foreground."""

    def __init__(
        self, site: Site, workers: int, only: Sequence[str] = tuple(PROGRAMS), protocols: Sequence[Protocol] = (H1,)
    ) -> None:
        """`only`: the requested ways, so that no unnecessary helpers run. `protocols` likewise, so that the costs of unused
        modules are not measured."""
        self.site = site
        self.workers = workers
        # Of each application of the tables `engines`: what gunicorn's manual advises.
        self.processes = 2 * workers + 1
        self.only = tuple(only)
        self.only_protocols = (H1, *protocols)
        self.port = free_port()
        # Additional ports, for protocols other than HTTP/1.1 in cleartext.
        self.ports = {name: free_port() for name in ("tls", "h2c")}
        self.directory = site.scratch / f"{self.name}-{self.port}"
        self.access_log = self.directory / "access.log"
        self.error_log = self.directory / "error.log"
        self.console = self.directory / "console.log"  # its output; it may open its error log as another user
        self.configuration_file = self.directory / "server.conf"
        # Its control group, if processor time is measured.
        self.meter: Optional[Meter] = None
        self._children: List[Child] = []
        self._helpers: List[Child] = []  # children beside the server: fcgiwrap, FastCGI programs

    # ---- start and stop ----

    def start(self) -> None:
        """Returns when a request has been answered. On failure everything is stopped, and ServerFailed is raised."""
        if self._children:
            raise ServerFailed(f"{self.name} is already running")
        atexit.register(self.end_all)  # in case the caller fails before it calls stop()
        self._make_directory()
        self.configuration_file.write_text(self.configuration())
        try:
            with self.meter.started() if self.meter else nullcontext():
                self.start_helpers()
                self._children.append(self.spawn(self.command()))
            self._wait_for_answer()
        except BaseException:
            self.end_all()
            raise

    def start_helpers(self) -> None:
        """Starts processes that the server needs, by self.spawn_helper()."""

    def stop(self) -> None:
        """Stops the server, its helpers and its scripts. Raises ServerFailed if a process remains. Does nothing if nothing runs."""
        left = self.end_all()
        if left:
            pids = ", ".join(str(process.pid) for process in left)
            raise ServerFailed(f"{self.name}: processes that do not exit: {pids}")

    def end_all(self) -> List[processes.Process]:
        """Like stop(), but returns the remaining processes instead of raising."""
        left = processes.end_family([child.pid for child in self._children], STOP_SECONDS)
        # Helpers have nothing to finish once the server has exited; some ignore SIGTERM while they wait.
        left += processes.end_family([child.pid for child in self._helpers], 0)
        for child in [*self._children, *self._helpers]:
            child.poll()  # reaps it
        for path in self.directory.iterdir() if self.directory.is_dir() else []:
            if path.is_socket():
                path.unlink()
        self._children, self._helpers = [], []
        if self.meter:
            self.meter.remove()
            self.meter = None
        atexit.unregister(self.end_all)
        return left

    def __enter__(self) -> "Server":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def spawn(self, command: Sequence[str], stdin: int = subprocess.DEVNULL, user: Optional[str] = None) -> Child:
        """Starts a process in a session of its own, so that Ctrl-C at the terminal reaches only the harness, which then stops it."""
        bound_open_files()
        try:
            with open(self.console, "ab") as log:
                return subprocess.Popen(
                    list(command), stdin=stdin, stdout=log, stderr=log, cwd=self.directory, env=self.environment(),
                    start_new_session=True, user=user, group=group_of(user), extra_groups=[] if user else None,
                )  # fmt: skip
        except OSError as error:
            raise ServerFailed(f"{self.name}: {command[0]} cannot be run: {error.strerror}") from None

    def environment(self) -> Dict[str, str]:
        return child_environment()

    def spawn_helper(self, command: Sequence[str], stdin: int = subprocess.DEVNULL, user: Optional[str] = None) -> None:
        self._helpers.append(self.spawn(command, stdin, user))

    def serve_on(self, path: Path, command: List[str], processes: int, user: Optional[str]) -> None:
        """Starts so many helpers that share a listening socket, their descriptor 0."""
        with listening_socket(path, backlog=511) as listener:
            for _ in range(processes):
                self.spawn_helper(command, listener.fileno(), user)

    def _make_directory(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        if user := unprivileged_user():
            # The workers of most servers then run as another user: they need access to this directory for temporary files.
            self.site.scratch.chmod(0o755)
            shutil.chown(self.directory, user, group_of(user))

    def _wait_for_answer(self) -> None:
        deadline = time.monotonic() + self.start_seconds
        while True:
            self._complain_of_ended()
            try:
                if self.is_ready(self.request(self.ready_path, deadline_seconds=1.0)):
                    return
            except (OSError, http.client.HTTPException):
                pass
            if time.monotonic() > deadline:
                raise ServerFailed(self.explain(f"no answer within {self.start_seconds:.0f} s"))
            time.sleep(processes.POLL_SECONDS)

    start_seconds = START_SECONDS
    #: The path that start() requests until there is an answer.
    ready_path = "/"

    def is_ready(self, reply: Reply) -> bool:
        """Whether the server is ready after this answer; a proxy answers before the server behind it does."""
        return True

    def _complain_of_ended(self) -> None:
        for child in [*self._children, *self._helpers]:
            # Not reaped yet: its pid must not be reused while end_all() searches for its descendants.
            ended = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended:
                raise ServerFailed(self.explain(f"{child.args[0]} ended with status {ended.si_status}"))

    def empty_access_log(self) -> None:
        """Truncates the log between measurements, because up to tens of megabytes are written per second. All servers
        append, so the next line is at the beginning again."""
        if self.access_log.exists():
            os.truncate(self.access_log, 0)

    def explain(self, what: str) -> str:
        logs = dict.fromkeys([self.console, self.error_log])
        return "\n".join([f"{self.name}: {what}", *(text for text in map(tail, logs) if text)])

    # ---- requests ----

    def address(self, path: str, protocol: Protocol = H1) -> str:
        return f"{protocol.scheme}://127.0.0.1:{self.ports.get(protocol.port, self.port)}{path}"

    def request(
        self, path: str, deadline_seconds: float = REQUEST_SECONDS, body: Optional[Tuple[bytes, str]] = None
    ) -> Reply:
        """Sends one GET on a new connection, or a POST with this body and its type."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=deadline_seconds)
        data, kind = body or (None, "")
        try:
            headers = {"Connection": "close", **({"Content-Type": kind} if body else {})}
            connection.request("POST" if body else "GET", path, data, headers)
            response = connection.getresponse()
            return Reply(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()

    # ---- its processes ----

    def pids(self) -> List[int]:
        """The server's own processes: neither helpers nor scripts."""
        scripts = set(self.script_pids())
        return [p.pid for p in processes.descendants(c.pid for c in self._children) if p.pid not in scripts]

    def processor_seconds(self) -> float:
        """Processor time of all its processes and helpers so far, also of those that have ended and were waited for."""
        return processes.processor_seconds(c.pid for c in [*self._children, *self._helpers])

    def helper_pids(self) -> List[int]:
        """Processes between server and scripts that are not the server's (fcgiwrap)."""
        scripts = set(self.script_pids())
        return [p.pid for p in processes.descendants(c.pid for c in self._helpers) if p.pid not in scripts]

    def script_pids(self) -> List[int]:
        """Descendants, also by way of helpers, that run one of the site's programs."""
        programs = program_files(self.site)
        family = processes.descendants(c.pid for c in [*self._children, *self._helpers])
        return [p.pid for p in family if runs_a_script(p.pid, programs)]


# ---- verification before measuring ----


def verify(servers: Sequence[Server], file_name: str) -> Dict[Tuple[str, str], str]:
    """(server name, way or protocol) → the reason why it must not be measured. Requests a file or the programs from every way of
    every server over HTTP/1.1 without TLS, and a file over every other protocol; the answer must be 200 with exactly the
    bytes of the file, or of the program when it is run directly."""
    faults: Dict[Tuple[str, str], str] = {}
    for server in (server for server in servers if server.is_verified):
        for way, prefix in server.routes().items():
            if way not in PROGRAMS:
                continue  # applications.verify_applications()
            for path, expected in _checks(server.site, way, prefix, file_name):
                reason = _compare(server, path, expected)
                if reason:
                    faults.setdefault((server.name, way), reason)
        for protocol in server.protocols():
            if protocol == H1:
                continue
            ((path, expected),) = _checks(server.site, "file", server.ways["file"], file_name)
            reason = _compare(server, path, expected, protocol)
            if reason:
                faults[server.name, protocol.key] = reason
    return faults


def _checks(site: Site, way: str, prefix: str, file_name: str) -> List[Tuple[str, bytes]]:
    if way == "file" or way in RECORD_WAYS:
        name = file_name if way == "file" else LINES_FILE
        return [(prefix + name, (site.htdocs / name).read_bytes())]
    if way == "fixed":
        return [(prefix + LINES_FILE, (site.fixed / LINES_FILE).read_bytes())]
    return [
        (f"{prefix}{program}?{CHECK_QUERIES[program]}", output_by_hand(site.programs / program, CHECK_QUERIES[program]))
        for program in PROGRAMS[way]
    ]


def _compare(server: Server, path: str, expected: bytes, protocol: Protocol = H1) -> Optional[str]:
    try:
        status, body = _ask(server, path, protocol)
    except (OSError, http.client.HTTPException) as error:
        return f"{path}: {error.__class__.__name__}: {error}"
    if status != 200:
        return f"{path}: status {status}"
    if len(body) != len(expected):
        return f"{path}: {len(body)} bytes instead of {len(expected)}"
    if hashlib.sha256(body).digest() != hashlib.sha256(expected).digest():
        return f"{path}: the right number of bytes, but not the right ones"
    return None


def _ask(server: Server, path: str, protocol: Protocol) -> Tuple[int, bytes]:
    if protocol != H1:
        return fetch(server.address(path, protocol), protocol, server.site.certificate, REQUEST_SECONDS)
    reply = server.request(path)
    return reply.status, reply.body


def output_by_hand(program: Path, query: str) -> bytes:
    """The body that a program writes as plain CGI, without a server."""
    variables = {
        "GATEWAY_INTERFACE": "CGI/1.1",
        "REQUEST_METHOD": "GET",
        "QUERY_STRING": query,
        "SERVER_PROTOCOL": "HTTP/1.1",
    }
    done = subprocess.run(
        [str(program)], env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        timeout=REQUEST_SECONDS, check=True,
    )  # fmt: skip
    return done.stdout.partition(b"\r\n\r\n")[2]


# ---- small things ----


def runs_a_script(pid: int, programs: Set[str]) -> bool:
    path = processes.executable(pid)
    return path is not None and (path in programs or os.path.basename(path) == FASTCGI_PROGRAM)


def program_files(site: Site) -> Set[str]:
    return {os.path.realpath(entry) for entry in site.programs.iterdir()} if site.programs.is_dir() else set()


def tail(path: Path, lines: int = 20) -> str:
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""
