"""Caddy 2: files, and FastCGI to a persistent C program.

Here: its configuration, and the processes behind it. Not here: the common interface (base.py); the program
(bench/programs); which version is built, and how (bench/setup).
"The manual" in the comments is https://caddyserver.com/docs/.
"""

from pathlib import Path
from typing import Dict, List, Optional

from .base import IDLE_SECONDS, Server
from .host import listening_socket, output_of
from .protocols import H2_TLS

# Concurrent script requests of the benchmark, at most. Its FastCGI transport connects for each request, so no program is held by an
# idle connection.
PROGRAMS = 64

TEMPLATE = """\
# Caddy for the benchmark.
{{
	admin off
	persist_config off
	# Which ports there are is given below.
	auto_https off
	log default {{
		output file {error_log}
		level WARN
	}}
{servers}}}

(site) {{
	root * {htdocs}
	# The usual format, JSON: the combined one needs a plugin. Without rotation, which the other servers do not have either.
	log {{
		output file {access_log} {{
			roll_disabled
		}}
	}}
{fastcgi}	file_server
}}

:{port} {{
	bind 127.0.0.1
	import site
}}
{listeners}"""

# The protocols are those that the benchmark uses of the port, so no HTTP/3. Timeout of an idle connection: the same for every server of the run.
SERVER = """\
	servers 127.0.0.1:{port} {{
		protocols {protocols}
		timeouts {{
			idle {idle_seconds}s
		}}
	}}
"""

LISTENERS = {
    # TLS 1.3 and tickets are on by default.
    "tls": """
:{port} {{
	bind 127.0.0.1
	tls {certificate} {key}
	import site
}}
""",
    "h2c": """
:{port} {{
	bind 127.0.0.1
	import site
}}
""",
}

FASTCGI = """\
	reverse_proxy /fastcgi/* unix/{directory}/persistent.sock {{
		transport fastcgi
	}}
"""


class Caddy(Server):
    name = "caddy"
    ways = {"file": "/", "fastcgi": "/fastcgi/"}
    listeners = LISTENERS

    @classmethod
    def available(cls) -> Optional[str]:
        return None

    def missing_binary(self) -> Optional[str]:
        return None if self.binary.is_file() else f"{self.binary} is not built: bench/setup builds it if Go is installed"

    @property
    def binary(self) -> Path:
        return self.site.build / "caddy"

    @property
    def version(self) -> str:
        """`v2.11.9 h1:…`."""
        words = output_of([str(self.binary), "version"]).split()
        return f"Caddy/{words[0].lstrip('v')}" if words else "Caddy"

    def missing(self) -> Dict[str, str]:
        return self.missing_build("fastcgi", self.fastcgi_program)

    def servers(self) -> str:
        """The options of each port."""
        spoken = {"": "h1", "tls": "h1 h2" if H2_TLS in self.protocols() else "h1", "h2c": "h1 h2c"}
        ports = {"": self.port, **self.extra_ports()}
        return "".join(
            SERVER.format(port=port, protocols=spoken[name], idle_seconds=IDLE_SECONDS) for name, port in ports.items()
        )

    def configuration(self) -> str:
        return TEMPLATE.format(
            error_log=self.error_log,
            access_log=self.access_log,
            servers=self.servers(),
            htdocs=self.site.htdocs,
            port=self.port,
            fastcgi=FASTCGI.format(directory=self.directory) if "fastcgi" in self.routes() else "",
            listeners=self.extra_listeners(),
        )

    def environment(self) -> Dict[str, str]:
        # Go's threads that run at a time: the number of workers. It keeps its data in its own directory.
        places = dict.fromkeys(("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"), str(self.directory))
        return {**super().environment(), **places, "GOMAXPROCS": str(self.workers)}

    def command(self) -> List[str]:
        return [str(self.binary), "run", "--config", str(self.configuration_file), "--adapter", "caddyfile"]

    def start_helpers(self) -> None:
        if "fastcgi" in self.routes():
            with listening_socket(self.directory / "persistent.sock", backlog=511) as listener:
                for _ in range(PROGRAMS):
                    self.spawn_helper([str(self.fastcgi_program)], listener.fileno())
