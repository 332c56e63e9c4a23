"""Sluice, configured as described in docs/reference/configuration.md.

Here: its configuration and its processes. Not here: the common interface (base.py).
"""

from pathlib import Path
from typing import Any, List, Optional

from .base import IDLE_SECONDS, Server
from .host import output_of

TEMPLATE = """\
# Sluice for the benchmark.
[[listen]]
address = "127.0.0.1:{port}"
{listeners}
[server]
workers = {workers}                # the default is one for each processor; the scale table needs fewer

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


class Sluice(Server):
    name = "sluice"
    ways = {
        "file": "/", "cgi": "/cgi-bin/", "cgiplus": "/cgiplus-bin/",
        "variable": "/variable/", "converted": "/converted/",
    }  # fmt: skip
    listeners = LISTENERS
    #: A section of the configuration; without it the cache is on.
    cache = ""

    def __init__(self, *what: Any, **more: Any) -> None:
        super().__init__(*what, **more)
        self.error_log = self.console  # its server log goes to standard error

    @classmethod
    def available(cls) -> Optional[str]:
        return None  # its binary is built, not installed: start() reports if it is missing

    @property
    def version(self) -> str:
        return output_of([str(self.site.sluice), "--version"]).strip()

    def configuration(self) -> str:
        return TEMPLATE.format(
            port=self.port,
            listeners=self.extra_listeners(),
            workers=self.workers,
            idle_seconds=IDLE_SECONDS,
            access_log=self.access_log,
            cache=self.cache,
            htdocs=self.site.htdocs,
            programs=self.site.programs,
            records=self.site.records,
        )

    def command(self) -> List[str]:
        binary = str(Path(self.site.sluice).absolute())
        # Older versions, to which a new one is compared, do not have the option.
        consent = ["--allow-root"] if "--allow-root" in output_of([binary, "run", "--help"]) else []
        return [binary, "run", *consent, "-c", str(self.configuration_file)]


class SluiceUncached(Sluice):
    """Sluice without the file cache, to measure its effect."""

    name = "sluice-uncached"
    cache = "[cache]\nsize = 0                        # off\n\n"
