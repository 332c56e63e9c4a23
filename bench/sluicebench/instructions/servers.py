"""The servers whose instructions are counted: those of the benchmark, with one worker and fewer differences between processors.

Here: the environment that makes the C library and the cryptography choose the same code on all processors of the last ten years, the content, and
which processes are counted. Not here: the servers themselves (../servers).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Dict, List

from ..servers import processes
from ..servers.base import Server, Site
from ..servers.h2o import H2o
from ..servers.hyper import Hyper
from ..servers.lighttpd import Lighttpd
from ..servers.nginx import Nginx
from ..servers.protocols import make_certificate
from ..servers.sluice import Sluice

#: The C library copies with AVX2 and never by `rep movsb`, which ptrace would stop at each byte; cryptography without AVX-512 and SHA instructions.
PROCESSOR = {
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-ERMS,-FSRM"
    ":glibc.cpu.x86_rep_movsb_threshold=1000000000:glibc.cpu.x86_rep_stosb_threshold=1000000000",
    "OPENSSL_ia32cap": "~0x0:~0x600e0230000",
}

#: When the files were changed last, seconds.
WRITTEN = 1_700_000_000

HELLO = """\
print("Content-Type: text/plain")
print("Content-Length: 13")
print()
print("hello, world")
"""

#: The route of RTE, which the benchmark has for whole applications only.
RTE = """
  [[site.route]]
  path = "/rte/*"
  script = {{ directory = "{directory}", mode = "rte", engine = "python" }}
"""


class Counted(Server):
    """A server whose processes are traced."""

    def environment(self) -> Dict[str, str]:
        return {**super().environment(), **PROCESSOR}

    def counted_pids(self, way: str) -> List[int]:
        """The processes that run the server's own program; their scripts are others."""
        program = processes.executable(self._children[0].pid)
        family = processes.descendants([child.pid for child in self._children])
        return [process.pid for process in family if processes.executable(process.pid) == program]


class CountedSluice(Counted, Sluice):
    ways = {"file": "/", "cgi": "/cgi-bin/", "cgiplus": "/cgiplus-bin/", "rte": "/rte/"}
    # A thousand requests at full speed are one here, so what happens once for many requests must not happen for each.
    cache = '[cache]\nrevalidate = "1h"\n\n'

    def configuration(self) -> str:
        text = super().configuration() + RTE.format(directory=self.site.applications)
        # Otherwise only root may trace it; and engines beside the binary are not those of another checkout.
        keys = f'core_dumps = true\nsdk = "{self.site.build.parents[1]}/sdk"\n'
        return text.replace("[server]\n", f"[server]\n{keys}", 1)


class CountedHyper(Counted, Hyper):
    def counted_pids(self, way: str) -> List[int]:
        return [child.pid for child in [*self._children, *self._helpers]]


class CountedNginx(Counted, Nginx):
    def counted_pids(self, way: str) -> List[int]:
        # What fcgiwrap does up to its execution of the script is a part of CGI.
        wrappers = [pid for pid in self.helper_pids() if (processes.executable(pid) or "").endswith("/fcgiwrap")]
        return super().counted_pids(way) + (wrappers if way == "cgi" else [])

    def program_processes(self) -> int:
        return 2


class CountedLighttpd(Counted, Lighttpd):
    pass


class CountedH2o(Counted, H2o):
    """With a FastCGI program, whose connection it keeps, as nginx does."""

    ways = {"file": "/", "fastcgi": "/fastcgi/"}

    def missing(self) -> Dict[str, str]:
        return self.missing_build("fastcgi", self.fastcgi_program)

    def configuration(self) -> str:
        socket = self.directory / "persistent.sock"
        return super().configuration() + (
            "      /fastcgi:\n"
            f"        fastcgi.connect:\n          port: {socket}\n          type: unix\n"
            "        fastcgi.timeout.keepalive: 60000\n"
        )

    def start_helpers(self) -> None:
        if "fastcgi" in self.routes():
            self.serve_on(self.directory / "persistent.sock", [str(self.fastcgi_program)], processes=2, user=None)


SERVERS = {kind.name: kind for kind in (CountedSluice, CountedHyper, CountedNginx, CountedLighttpd, CountedH2o)}


def make_site(repository: Path, sluice: Path) -> Site:
    """Creates the content; the caller removes the directory `scratch`."""
    program = repository / "sdk" / "c" / "build" / "cgiplustest"
    if not program.is_file():
        raise FileNotFoundError(f"{program} does not exist: `make sdk` builds it")
    scratch = Path(tempfile.mkdtemp(prefix="sluice-instructions-"))
    scratch.chmod(0o755)  # servers started by root run as another user
    site = Site(scratch, scratch / "htdocs", scratch / "cgi-bin", repository / "bench" / "build", sluice)
    for directory in (site.htdocs, site.programs, site.records, site.vfc, site.fixed, site.applications):
        directory.mkdir()
    for kilobytes in (0, 64):
        file = site.htdocs / f"{kilobytes}k.txt"
        file.write_text("".join(chr(33 + at % 90) for at in range(kilobytes * 1024)))
        # A cache does not take a file that was changed a moment ago.
        os.utime(file, (WRITTEN, WRITTEN))
    shutil.copy2(program, site.programs / program.name)
    (site.applications / "hello.py").write_text(HELLO)
    failure = make_certificate(site.certificate, site.key)
    if failure:
        shutil.rmtree(scratch)
        raise OSError(failure)
    return site
