"""Sluice, configured as described in docs/reference/configuration.md.

Here: its configuration and its processes. Not here: the common interface (base.py).
"""

import subprocess
from pathlib import Path
from typing import Any, Dict, List, Optional

from .applications import WAYS, interpreter_of
from .base import FIXED_BYTES, IDLE_SECONDS, Server
from .host import output_of

# Longest time of `sluice check`, seconds.
CHECK_SECONDS = 10.0

TEMPLATE = """\
# Sluice for the benchmark.
[[listen]]
address = "127.0.0.1:{port}"
{listeners}
[server]
workers = {workers}                # the default is one for each processor; the scale table needs fewer
{names}
[limits]
head_timeout = "{idle_seconds}s"   # timeout of an idle connection: the same for every server of the run

{cache}[log]
access = "{access_log}"            # in the combined format, like all servers

[[site]]
root = "{htdocs}"

  [[site.route]]
  path = "/cgi-bin/*"
  script = {{ directory = "{programs}" }}

  # At most 16 processes per script, the default.
  [[site.route]]
  path = "/cgiplus-bin/*"
  script = {{ directory = "{programs}", mode = "cgiplus" }}

  # Files of variable-length VMS records: converted for each request, and once for the cache.
  [[site.route]]
  path = "/variable/*"
  files = {{ directory = "{records}", record_format = "variable" }}

  [[site.route]]
  path = "/converted/*"
  files = {{ directory = "{records}", record_format = "variable", convert = "cache" }}
"""

# The other formats, where they are measured: each file passes all routes before the last.
OTHER_FORMATS = """
  [[site.route]]
  path = "/vfc/*"
  files = {{ directory = "{vfc}", record_format = "vfc" }}

  [[site.route]]
  path = "/fixed/*"
  files = {{ directory = "{fixed}", record_format = "fixed:{fixed_bytes}" }}
"""

# A way of running an application; {keys}: what selects it. As many processes as the peers have.
APPLICATION = """
  [[site.route]]
  path = "/{way}/*"
  script = {{ directory = "{directory}", {keys}, max = {processes}{environment} }}
"""
# PHP lies among other files.
PHP_APPLICATION = """
  [[site.route]]
  path = "/{way}/*"
  directory = "{directory}"
  scripts = {{ ".php" = "{interpreter}" }}
  script = {{ {keys}max = {processes}{environment} }}
"""

# The keys of each way; {interpreter} and {venv}: of the language.
SCRIPT_KEYS = {
    "cgi": 'interpreters = {{ "{ending}" = "{interpreter}" }}',
    "cgiplus": 'interpreters = {{ "{ending}" = "{interpreter}" }}, mode = "cgiplus"',
    "rte": 'mode = "rte", engine = "{language}"{venv}',
    "fork": 'mode = "rte", engine = "{language}"{venv}, fresh = "fork"',
    "wsgi": 'mode = "rte", engine = "python"{venv}, app = "wsgi:application"',
    "psgi": 'mode = "rte", engine = "perl", app = "app.psgi"',
    "worker": 'mode = "rte", engine = "php", app = "worker.php"',
}
ENGINE_WAYS = ("rte", "fork", "wsgi", "psgi", "worker")

LISTENERS = {
    # TLS 1.2 and 1.3, HTTP/2 and tickets are on by default.
    "tls": """
[[listen]]
address = "127.0.0.1:{port}"
tls = {{ certificate = "{certificate}", key = "{key}" }}
""",
    "h2c": """
[[listen]]
address = "127.0.0.1:{port}"
http2 = "on"                       # off by default in cleartext
""",
}


APPLICATION_WAYS = tuple(way for way in WAYS if way.partition("-")[2] in SCRIPT_KEYS)


class Sluice(Server):
    name = "sluice"
    ways = {
        "file": "/", "cgi": "/cgi-bin/", "cgiplus": "/cgiplus-bin/",
        "variable": "/variable/", "converted": "/converted/", "vfc": "/vfc/", "fixed": "/fixed/",
        **{way: f"/{way}/" for way in APPLICATION_WAYS},
    }  # fmt: skip
    listeners = LISTENERS
    #: A section of the configuration; without it the cache is on.
    cache = ""
    #: Keys of [server]; without them no names are looked up.
    names = ""

    def __init__(self, *what: Any, **more: Any) -> None:
        super().__init__(*what, **more)
        self.error_log = self.console  # its server log goes to standard error
        self._faults: Dict[str, str] = {}

    @classmethod
    def available(cls) -> Optional[str]:
        return None  # its binary is built, not installed: start() reports if it is missing

    @property
    def version(self) -> str:
        return output_of([str(self.site.sluice), "--version"]).strip()

    def missing(self) -> Dict[str, str]:
        """Ways with an interpreter that is not there, or an engine that this version or this installation does not have."""
        missing = {}
        for way in (way for way in APPLICATION_WAYS if way in self.only):
            if way.startswith("python-") and not self.site.python.is_file():
                missing[way] = f"{self.site.venv} does not exist: `bench/setup engines` creates it"
            elif way.partition("-")[2] in ENGINE_WAYS and (reason := self.fault_of(way)):
                missing[way] = reason
        return missing

    def fault_of(self, way: str) -> str:
        """What the server says about the route of this way: "" if it can serve it."""
        if way not in self._faults:
            self.directory.mkdir(parents=True, exist_ok=True)
            file = self.directory / f"check-{way}.toml"
            file.write_text(f'[[listen]]\naddress = "127.0.0.1:{self.port}"\n\n[[site]]\n{self.application(way)}')
            done = checked(self.site.sluice, file)
            self._faults[way] = done
        return self._faults[way]

    def application(self, way: str) -> str:
        """The route of a way of running an application."""
        language, _, form = way.partition("-")
        environment = f', environment = {{ PHP_INI_SCAN_DIR = ":{self.site.php_settings}" }}' if language == "php" else ""
        places = {
            "language": language,
            "ending": WAYS[way].ending,
            "interpreter": interpreter_of(self.site, language),
            "venv": f', virtualenv = "{self.site.venv}"' if language == "python" else "",
        }
        if (language, form) == ("php", "cgiplus"):
            places["interpreter"] = "php"  # php-cgi reads its request from the environment, and serves only that
        keys = SCRIPT_KEYS[form].format(**places)
        template = APPLICATION
        if (language, form) == ("php", "cgi"):
            template, keys = PHP_APPLICATION, ""
        if (language, form) == ("php", "rte"):
            template, keys, places["interpreter"] = PHP_APPLICATION, 'mode = "rte", ', "php"
        return template.format(
            way=way, directory=self.site.applications / language, keys=keys, processes=self.processes,
            environment=environment, interpreter=places["interpreter"],
        )  # fmt: skip

    def configuration(self) -> str:
        routes = self.routes()
        applications = "".join(self.application(way) for way in APPLICATION_WAYS if way in routes)
        formats = ""
        if "vfc" in routes or "fixed" in routes:
            formats = OTHER_FORMATS.format(vfc=self.site.vfc, fixed=self.site.fixed, fixed_bytes=FIXED_BYTES)
        return TEMPLATE.format(
            port=self.port,
            listeners=self.extra_listeners(),
            workers=self.workers,
            idle_seconds=IDLE_SECONDS,
            access_log=self.access_log,
            cache=self.cache,
            names=self.names,
            htdocs=self.site.htdocs,
            programs=self.site.programs,
            records=self.site.records,
        ) + formats + applications

    def environment(self) -> Dict[str, str]:
        # What it keeps over a restart must not lie in a directory of the system.
        return {**super().environment(), "SLUICE_STATE_DIR": str(self.directory / "state")}

    def command(self) -> List[str]:
        binary = str(Path(self.site.sluice).absolute())
        # Older versions, to which a new one is compared, do not have the option.
        consent = ["--allow-root"] if "--allow-root" in output_of([binary, "run", "--help"]) else []
        return [binary, "run", *consent, "-c", str(self.configuration_file)]


def checked(sluice: Path, configuration: Path) -> str:
    """The first message of `sluice check`, or ""."""
    try:
        done = subprocess.run(
            [str(sluice), "check", "-c", str(configuration)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=CHECK_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"sluice check: {error}"
    said = done.stdout.decode(errors="replace").strip()
    return "" if done.returncode == 0 else said or f"sluice check: status {done.returncode}"


class SluiceUncached(Sluice):
    """Sluice without the file cache, to measure its effect."""

    name = "sluice-uncached"
    cache = "[cache]\nsize = 0                        # off\n\n"


class SluiceLookup(Sluice):
    """Sluice that looks up the names of clients, to measure what that costs."""

    name = "sluice-lookup"
    names = "dns_lookup = true\n"
