"""The server of the chaos test: that of the soak test with TLS, HTTP/2, listings, reports, disks of its own for logs and spools, and scripts whose
responses carry a value of the request."""

import ctypes
import os
import re
import shutil
import subprocess
import sys

import testing

from .. import columns
from ..soak import server as soak_server

CONFIGURATION = """
[[listen]]
address = "127.0.0.1:0"
http2 = "on"
@LISTENERS@
[server]
sdk = "@SDK@"
spool_directory = "@DIR@/spool"
state_directory = "@DIR@/state"
control = "@DIR@/control.sock"
@DUMPS@
[log]
access = "logs/access.log"
diagnostics = "logs/server.log"
format = '"%r" %>s %B'
rotate_size = "4MiB"

[limits]
memory_buffers = "256MiB"
log_lines = 100

[[site]]
root = "htdocs"
listing = true
withhold = ["@MARK@"]

  [[site.route]]
  path = "/-/*"
  reports = true
  access = { allow = ["net:127.0.0.0/8"], allow_write = ["net:127.0.0.0/8"] }

  [[site.route]]
  path = "/value-cgi/*"
  script = { file = "programs/value", mode = "cgi", max = 8, kill_grace = "500ms" }

  [[site.route]]
  path = "/value-private/*"
  script = { file = "programs/value", mode = "cgi", max = 2, kill_grace = "500ms", private_tmp = true, open_files = 32 }

  [[site.route]]
  path = "/value/*"
  script = { file = "programs/value", mode = "cgiplus", max = 6, idle = "2s", kill_grace = "500ms", client_grace = "1s", requests = 50 }

  [[site.route]]
  path = "/hostile/*"
  script = { file = "programs/hostile", mode = "cgi", max = 4, reply_timeout = "3s", output_timeout = "3s", kill_grace = "500ms" }

  [[site.route]]
  path = "/hostile-record/*"
  script = { file = "programs/hostile", mode = "cgi", max = 4, mailbox = "record", reply_timeout = "3s", output_timeout = "3s", kill_grace = "500ms" }

  [[site.route]]
  path = "/liar/*"
  script = { file = "programs/liar", mode = "cgiplus", max = 6, reply_timeout = "500ms", output_timeout = "500ms", idle = "2s", kill_grace = "500ms", client_grace = "1s" }

"""
TLS = """
[[listen]]
address = "127.0.0.1:0"
tls = { certificate = "cert.pem", key = "key.pem" }
"""
EXTRA = '\n[[listen]]\naddress = "unix:@DIR@/extra.sock"\n'
DISK_BYTES = 1 << 30
LISTING = [f"a file with the number {number}.txt" for number in range(40)]


class ChaosServer(testing.Server):
    """The server, with its configuration's text for reloads. `address` is that of clear text, `tls_address` may be None."""

    tls_address = None

    def _start(self, configuration, environment, arguments):
        self.disks = [disk for disk in ("logs", "spool") if self._mount(disk)]
        os.makedirs(self.path("state"), exist_ok=True)
        super()._start(configuration, environment, arguments)
        line = self.log_line("listening on ")
        found = re.search(r"https://([^/ ]+):(\d+)/", line)
        self.tls_address = found and (found.group(1), int(found.group(2)))
        found = re.search(r"http://([^/ ]+):(\d+)/", line)
        self.address = found.group(1), int(found.group(2))

    def _mount(self, name):
        """A small file system of its own, where this process may mount one; otherwise a directory."""
        os.makedirs(self.path(name), exist_ok=True)
        os.chmod(self.path(name), 0o1777)
        return is_in_own_namespace() and mount(self.path(name), DISK_BYTES)

    def binary(self, *words):
        """Runs a command for this server; its exit status and output."""
        return subprocess.run(
            [testing.binary(), *words, "--server", self.path("control.sock")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=testing.DEADLINE,
        )

    def panics(self, text):
        """Without those of threads that got no memory for the stack of their signals (fault "memory of the server")."""
        return [line for line in super().panics(text) if "/stack_overflow.rs:" not in line]

    def kill(self):
        super().kill()
        for name in self.__dict__.get("disks", ()):
            libc.umount2(os.fsencode(self.path(name)), 2)
        if os.path.isdir(PIDS_GROUP):
            testing.wait_until(remove_group, 10)
        shutil.rmtree(self.directory, ignore_errors=True)


# The cgroup of the fault "processes".
PIDS_GROUP = f"/sys/fs/cgroup/pids/sluice-chaos-{os.getpid()}"


def remove_group():
    """Whether the cgroup could be removed: when its last process has ended."""
    try:
        os.rmdir(PIDS_GROUP)
        return True
    except OSError:
        return False


libc = ctypes.CDLL(None, use_errno=True)
NAMESPACE = "SLUICE_CHAOS_NAMESPACE"


def enter_own_namespace():
    """Starts this program again in a mount namespace of its own, if it may; so nothing is left mounted, however it ends."""
    if os.geteuid() != 0 or NAMESPACE in os.environ or not shutil.which("unshare"):
        return
    words = ["unshare", "--mount", "--propagation", "private"]
    if subprocess.run([*words, "true"], stderr=subprocess.DEVNULL).returncode == 0:
        os.environ[NAMESPACE] = "1"
        os.execvp(words[0], [*words, sys.executable, *sys.argv])


def is_in_own_namespace():
    return os.environ.get(NAMESPACE) == "1"


def mount(path, size):
    """A file system in memory of this size."""
    return libc.mount(b"chaos", os.fsencode(path), b"tmpfs", 0, f"size={size},mode=1777".encode()) == 0


def resize(path, size):
    """Changes the size of a mounted file system: with what is used, it is full."""
    return libc.mount(b"chaos", os.fsencode(path), b"tmpfs", 32, f"size={size}".encode()) == 0


def used(path):
    state = os.statvfs(path)
    return (state.f_blocks - state.f_bfree) * state.f_frsize


def certificate():
    """A certificate and its key, or None without openssl(1)."""
    if not shutil.which("openssl"):
        return None
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=chaos -keyout - -out -"
    made = subprocess.run(["openssl", *words.split()], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
    at = made.index(b"-----BEGIN CERTIFICATE")
    return made[at:], made[:at]


def configuration_of(chosen):
    """The text of the configuration; `@MARK@` and `@LISTENERS@` are for `variant`."""
    inherited = soak_server.CONFIGURATION.partition('root = "htdocs"\n')[2]
    return CONFIGURATION + inherited + "".join(column.soak_route() for column in chosen)


def variant(text, number, has_tls):
    """The configuration of a reload: an address more or less, and another value of a key, in turn."""
    listeners = (TLS if has_tls else "") + (EXTRA if number % 2 else "")
    # An ordinary user may count the descriptors of a process only if that process allows it.
    dumps = "" if os.geteuid() == 0 else "core_dumps = true\n"
    return text.replace("@LISTENERS@", listeners).replace("@DUMPS@", dumps).replace("@MARK@", f"*.mark{number}")


def start(chosen):
    """A server for these columns; its attribute `text` is the configuration for `variant`."""
    made = certificate()
    text = configuration_of(chosen)
    files = columns.script_files() | {"htdocs/file.bin": soak_server.FILE, "programs/digest": soak_server.DIGEST, "open/gate": "go\n"}
    with open(os.path.join(testing.CHECKOUT, "conformance/scripts/hostile.py")) as file:
        files["programs/hostile"] = file.read()
    files |= {f"htdocs/list/{name}": name for name in LISTING}
    if made:
        files |= {"cert.pem": made[0], "key.pem": made[1]}
    server = ChaosServer(variant(text, 0, bool(made)), files)
    server.text, server.has_tls = text, bool(made)
    for program in soak_server.PROGRAMS:
        shutil.copy(os.path.join(testing.CHECKOUT, "sdk/c/build", program), server.path("programs"))
    if any(column.file == "probe" for column in chosen):
        columns.compile_c(server.path("scripts/probe"))
    columns.compile_c(server.path("programs/value"), "value.c")
    shutil.copy2(server.path("programs/value"), server.path("programs/liar"))
    return server


def reload_variant(server, number):
    """Writes another configuration, for the next reload."""
    server.write("sluice.toml", variant(server.text, number, server.has_tls))
