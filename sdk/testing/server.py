"""A server under test: the real binary with a configuration, in a temporary directory, on a free port."""

import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from .client import Client
from .fifo import Fifo
from .lines import Lines
from .processes import processes_of
from .waits import DEADLINE, wait_until

CHECKOUT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

LISTEN = '[[listen]]\naddress = "127.0.0.1:0"\n'
LOG = '[log]\naccess = "-"\n'


def binary():
    """The server's binary: SLUICE, or the newest of target/{debug,demo,release}/sluice."""
    if os.environ.get("SLUICE"):
        return os.path.abspath(os.environ["SLUICE"])
    found = glob.glob(os.path.join(CHECKOUT, "target/*/sluice"))
    if not found:
        raise FileNotFoundError(f"no server: run `cargo build` in {CHECKOUT}, or set SLUICE")
    return max(found, key=os.path.getmtime)


class Server:
    """A running server. Use it with `with`, or call `stop()`, which checks what it leaves behind.

    configuration: TOML text. A `[[listen]]` with port 0 and a `[log]` for the access log are added if they are missing.
        Relative paths are relative to the server's directory. Replaced in it: @DIR@ (that directory), @TMP@ (a directory for
        temporary files, which must be empty at the end), @CHECKOUT@, @SDK@.
    files: name → text or bytes. A text that begins with `#!` becomes executable. The same words are replaced in texts.
    environment: variables for the server beside PATH; TMPDIR is @TMP@.
    arguments: instead of `run -c sluice.toml`, such as ("serve", "@DIR@/site").
    """

    def __init__(self, configuration="", files=(), environment=(), arguments=None):
        self.directory = tempfile.mkdtemp(prefix="sluice-test-")
        os.chmod(self.directory, 0o755)
        self.temporary = self.path("tmp")
        for name in ("tmp", "htdocs"):
            os.mkdir(self.path(name))
        os.chmod(self.temporary, 0o1777)
        self._fifos = []
        self._process = None
        try:
            for name, content in dict(files).items():
                self.write(name, content)
            self._start(configuration, dict(environment), arguments)
        except BaseException:
            self.kill()
            raise

    def _start(self, configuration, environment, arguments):
        if "[[listen]]" not in configuration:
            configuration = LISTEN + configuration
        if "[log]" not in configuration:
            configuration += "\n" + LOG
        self.write("sluice.toml", configuration)
        arguments = [self._replaced(word) for word in arguments or ("run", "-c", "sluice.toml")]
        arguments.insert(1, "--allow-root")
        if arguments[0] in ("serve", "demo"):
            arguments += ["--listen", "127.0.0.1:0"]
        self._process = subprocess.Popen(
            [binary(), *arguments],
            cwd=self.directory,
            env={"PATH": os.environ["PATH"], "TMPDIR": self.temporary, "SLUICE_RUNTIME_DIR": self.path("run")} | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._access, self._errors = Lines(self._process.stdout), Lines(self._process.stderr)
        line = self.log_line("listening on ")
        host, port = re.search(r"https?://([^/ ]+):(\d+)/", line).groups()
        self.address = host.strip("[]"), int(port)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.stop()
        else:
            sys.stderr.write(f"---- the server's log ----\n{self.log()}----\n")
            self.kill()

    # ---- Its files ----

    def path(self, *names):
        """A path in its directory."""
        return os.path.join(self.directory, *names)

    def write(self, name, content, mode=None):
        """Writes a file below its directory, also while it runs; a change of a script gets a new inode, as editors do it."""
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if isinstance(content, str):
            content = self._replaced(content).encode()
        if mode is None:
            mode = 0o755 if content.startswith(b"#!") else 0o644
        with open(path + ".new", "wb") as file:
            file.write(content)
        os.chmod(path + ".new", mode)
        os.rename(path + ".new", path)
        return path

    def _replaced(self, text):
        words = {"@DIR@": self.directory, "@TMP@": self.temporary, "@CHECKOUT@": CHECKOUT, "@SDK@": os.path.join(CHECKOUT, "sdk")}
        for word, value in words.items():
            text = text.replace(word, value)
        return text

    def fifo(self, name):
        """A named pipe in its directory, for events between test and script."""
        fifo = Fifo(self.path(name))
        self._fifos.append(fifo)
        return fifo

    # ---- Requests ----

    def connect(self):
        return Client(self.address)

    def request(self, method, path, headers=(), body=None, chunks=None):
        """The response to one request on its own connection."""
        with self.connect() as client:
            return client.request(method, path, headers, body, chunks).response(method)

    def get(self, path, headers=()):
        return self.request("GET", path, headers)

    def post(self, path, body, headers=()):
        return self.request("POST", path, headers, body)

    def send(self, data, method="GET"):
        """The response to these bytes on their own connection."""
        with self.connect() as client:
            return client.send(data).response(method)

    # ---- Logs ----

    def log(self):
        """Its log (standard error) so far."""
        return self._errors.text()

    def log_position(self):
        """The number of lines in its log, for `log_line(…, start=)`."""
        return len(self._errors.all())

    def log_line(self, text, start=0):
        """Waits for a line of its log that contains this text."""
        return self.log_lines(1, text, start)[0]

    def log_lines(self, count, text, start=0):
        return self._errors.wait_for(count, lambda line: text in line, start)

    def access_lines(self, count, text=""):
        """Waits for lines of the access log that contain this text. A thread writes it, a moment after the response."""
        return self._access.wait_for(count, lambda line: text in line)

    def access(self):
        return self._access.all()

    # ---- Processes ----

    @property
    def pid(self):
        return self._process.pid

    def signal(self, number):
        """Sends a signal: signal.SIGHUP reads the configuration again."""
        self._process.send_signal(number)

    def family(self):
        """All its processes at this moment but the first: its own ones, which have a role, script processes, and their descendants."""
        return processes_of(self.pid, self.directory)

    def processes(self):
        """Its script processes and their descendants, at this moment."""
        return [process for process in self.family() if not process.role]

    def scripts(self):
        """Its script processes, without their children."""
        family = self.family()
        own = {self.pid, *(process.pid for process in family if process.role)}
        return [process for process in family if process.parent in own and not process.role]

    @property
    def server_pid(self):
        """The process that serves: the newest server process, or `pid` if the server is a single process."""
        return max((process.pid for process in self.family() if process.role == "server"), default=self.pid)

    def wait_for_processes(self, count):
        """Waits until there are exactly so many script processes, their descendants included."""
        assert wait_until(lambda: len(self.processes()) == count), f"not {count} processes: {self.processes()}\n{self.log()}"

    def descriptors(self):
        """What the server has open, as the targets of /proc/PID/fd."""
        found, pid = [], self.server_pid
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                found.append(os.readlink(f"/proc/{pid}/fd/{name}"))
            except OSError:
                pass  # closed meanwhile
        return sorted(found)

    def memory(self):
        """The server's resident memory without mapped files, in bytes."""
        with open(f"/proc/{self.server_pid}/status") as status:
            fields = dict(line.split(":", 1) for line in status)
        return sum(int(fields[name].split()[0]) for name in ("RssAnon", "RssShmem")) << 10

    # ---- The end ----

    def stop(self):
        """SIGTERM, and the end of its directory. AssertionError as `end` says."""
        try:
            self.end()
        finally:
            self.kill()

    def end(self):
        """SIGTERM. AssertionError unless it exits with status 0 and leaves no process, no temporary file and no panic."""
        self.signal(signal.SIGTERM)
        try:
            status = self._process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the server does not exit:\n{self.log()}") from None
        assert wait_until(lambda: not self.processes()), f"left behind: {self.processes()}\n{self.log()}"
        assert self._errors.wait_end() and self._access.wait_end(), "another process holds the server's output"
        assert status == 0, f"exit status {status}:\n{self.log()}"
        assert not self.panics(self.log()), self.log()
        assert not os.listdir(self.temporary), f"temporary files left: {os.listdir(self.temporary)}"

    def panics(self, text):
        """The lines of a log that say where a thread panicked."""
        return [line for line in text.splitlines() if "panicked at" in line]

    def kill(self):
        """Ends everything at once and removes the directory; for a test that has failed."""
        if self._process:
            self._process.kill()
            self._process.wait()
            for process in self.processes():
                try:
                    os.kill(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        for fifo in self._fifos:
            fifo.close()
        shutil.rmtree(self.directory, ignore_errors=True)


class ServerCase(unittest.TestCase):
    """Tests that share one server, started from the attributes `configuration`, `files`, `environment` and `arguments`."""

    configuration = ""
    files = {}
    environment = {}
    arguments = None
    server = None

    @classmethod
    def setUpClass(cls):
        cls.server = Server(cls.configuration, cls.files, cls.environment, cls.arguments)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def run(self, result=None):
        before = result and len(result.failures) + len(result.errors)
        result = super().run(result)
        if result and self.server and len(result.failures) + len(result.errors) > before:
            sys.stderr.write(f"---- the server's log after {self.id()} ----\n{self.server.log()[-8000:]}----\n")
        return result

    def assert_same(self, paths, method="GET"):
        """Compares the responses to these paths, and their lines in the access log, but for framing, time, path and id. A path that has the word
        `length` must have the same Content-Length, too. Returns the last response."""
        shown = []
        for path in paths:
            response = self.server.request(method, path)
            line = self.server.access_lines(1, path + " ")[-1].split('" ')[1]
            framing = {"date", "transfer-encoding", "content-length"} - ({"content-length"} if "length" in path else set())
            fields = [field for field in response.fields if field[0].lower() not in framing]
            body = response.body if response.status == 200 else b""  # an error page has the id of its request
            shown.append((response.status, response.is_complete, fields, body, line))
        for other in shown[1:]:
            self.assertTrue(shown[0] == other, f"{paths}: {shown[0][:3]} {other[:3]} {shown[0][4]} {other[4]}")
        return response
