"""h2o: files.

Here: its configuration and its processes. Not here: the common interface (base.py).
"The manual" in the comments is https://h2o.examp1e.net/configure.html.
"""

import re
from typing import List, Optional

from .base import IDLE_SECONDS, Server
from .host import find_program, output_of, unprivileged_user

TEMPLATE = """\
# h2o for the benchmark.
{user}
num-threads: {workers}       # the default: one for each processor
max-connections: 8192        # 1,024 by default
listen:
  host: 127.0.0.1
  port: {port}
{listeners}http1-request-timeout: {idle_seconds}    # timeout of an idle connection: the same for every server of the run
http2-idle-timeout: {idle_seconds}       # likewise
pid-file: {directory}/h2o.pid
error-log: {error_log}
access-log: {access_log}     # combined is the default format
# The cache of open files has its default. There is no sendfile in this version.
hosts:
  default:
    paths:
      /:
        file.dir: {htdocs}
"""

LISTENERS = {
    # TLS 1.3, HTTP/2, tickets and the session cache are on by default.
    "tls": """\
listen:
  host: 127.0.0.1
  port: {port}
  ssl:
    certificate-file: {certificate}
    key-file: {key}
""",
    # HTTP/2 in cleartext is always on.
    "h2c": """\
listen:
  host: 127.0.0.1
  port: {port}
""",
}


class H2o(Server):
    name = "h2o"
    ways = {"file": "/"}
    listeners = LISTENERS

    @classmethod
    def available(cls) -> Optional[str]:
        return None if find_program("h2o") else "h2o is not installed"

    @property
    def version(self) -> str:
        found = re.search(r"h2o version (\S+)", output_of([find_program("h2o") or "h2o", "--version"]))
        return f"h2o/{found.group(1)}" if found else "h2o"

    def configuration(self) -> str:
        user = unprivileged_user()
        return TEMPLATE.format(
            user=f"user: {user}\n" if user else "",
            workers=self.workers,
            port=self.port,
            listeners=self.extra_listeners(),
            idle_seconds=IDLE_SECONDS,
            directory=self.directory,
            error_log=self.error_log,
            access_log=self.access_log,
            htdocs=self.site.htdocs,
        )

    def command(self) -> List[str]:
        return [find_program("h2o") or "h2o", "-m", "worker", "-c", str(self.configuration_file)]
