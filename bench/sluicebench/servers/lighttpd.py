"""lighttpd 1.4: files, mod_cgi, mod_openssl, and mod_fastcgi with a persistent C program.

Here: its configuration. Not here: the common interface (base.py); the program (bench/programs).
"The manual" in the comments is https://redmine.lighttpd.net/projects/lighttpd/wiki/.
"""

import re
import shutil
from pathlib import Path
from typing import Dict, List, Optional

from .base import IDLE_SECONDS, Server
from .host import find_program, open_files, output_of, unprivileged_group, unprivileged_user
from .protocols import OVER_TLS

# Persistent programs for each worker. Each serves one request at a time. More programs than processors are useful only
# because some of them wait for the server. 64 were measured to be no faster than 16.
PROGRAMS_PER_WORKER = 4

TEMPLATE = """\
# lighttpd for the benchmark.
server.modules = ( "mod_alias", "mod_accesslog"{modules} )
server.bind = "127.0.0.1"
server.port = {port}
server.document-root = "{htdocs}"
server.pid-file = "{directory}/lighttpd.pid"
server.upload-dirs = ( "{directory}" )
server.errorlog = "{error_log}"
{user}
# The manual recommends 0, one process, unless another number makes a measurable difference; then the number of cores.
# It does here: 1.3 to 1.5 times as fast for files and FastCGI at 10 and 64 connections.
server.max-worker = {workers}

# 4,096 by default, of which connections are a third.
server.max-fds = {open_files}

# 1,000 by default; this is the largest accepted value. Then the load tool reconnects.
server.max-keep-alive-requests = 65535
# The same for every server of the run.
server.max-keep-alive-idle = {idle_seconds}

# The default on Linux.
server.network-backend = "sendfile"

# Replies of programs are sent as they arrive, and a program waits for the client. 0, the default, buffers a reply until
# it is complete; 1 buffers unsent data in temporary files. The manual recommends 2 for extremely large
# replies, which the bandwidth tables measure: there 2 times as fast as 0, 4 times as fast as 1; the same up to 64 kB.
server.stream-response-body = 2

# server.stat-cache-engine is "simple", the default: file metadata is cached for a second or two.

accesslog.filename = "{access_log}"
accesslog.format = "%h %l %u %t \\"%r\\" %>s %b \\"%{{Referer}}i\\" \\"%{{User-Agent}}i\\""

mimetype.assign = ( ".txt" => "text/plain", ".html" => "text/html", "" => "application/octet-stream" )
{routes}{http2}{listeners}"""

LISTENERS = {
    # TLS 1.3, tickets and HTTP/2 are on by default.
    "tls": """
$SERVER["socket"] == "127.0.0.1:{port}" {{
    ssl.engine = "enable"
    ssl.pemfile = "{certificate}"
    ssl.privkey = "{key}"
}}
""",
    "h2c": """
$SERVER["socket"] == "127.0.0.1:{port}" {{ }}
""",
}

# The defaults of 1.4.69, explicit for other versions.
HTTP2 = """
server.feature-flags = ( "server.h2proto" => "enable", "server.h2c" => "enable" )
"""

# The path in Debian's packages.
TLS_MODULE = Path("/usr/lib/lighttpd/mod_openssl.so")

CGI = """
$HTTP["url"] =~ "^/cgi-bin/" {{
    alias.url = ( "/cgi-bin/" => "{programs}/" )
    cgi.assign = ( "" => "" )
}}
"""

# min-procs too: otherwise it starts 4 of them.
FASTCGI = """
fastcgi.server = ( "/fastcgi/" => ((
    "bin-path" => "{program}",
    "socket" => "{directory}/persistent.sock",
    "min-procs" => {processes},
    "max-procs" => {processes},
    "check-local" => "disable",
)) )
"""


class Lighttpd(Server):
    name = "lighttpd"
    ways = {"file": "/", "cgi": "/cgi-bin/", "fastcgi": "/fastcgi/"}
    listeners = LISTENERS

    @classmethod
    def available(cls) -> Optional[str]:
        return None if find_program("lighttpd") else "lighttpd is not installed"

    @property
    def version(self) -> str:
        found = re.search(r"lighttpd/\S+", output_of([find_program("lighttpd") or "lighttpd", "-v"]))
        return found.group() if found else "lighttpd"

    def missing(self) -> Dict[str, str]:
        return self.missing_build("fastcgi", self.fastcgi_program)

    def missing_protocols(self) -> Dict[str, str]:
        missing = super().missing_protocols()
        if not TLS_MODULE.is_file():
            missing.update(dict.fromkeys(OVER_TLS, f"lighttpd has no {TLS_MODULE}"))
        return missing

    def configuration(self) -> str:
        user = unprivileged_user()
        routes = self.routes()
        texts = {"cgi": CGI, "fastcgi": FASTCGI}
        places = {
            "programs": self.site.programs,
            "program": self.directory / self.fastcgi_program.name,
            "directory": self.directory,
            "processes": self.workers * PROGRAMS_PER_WORKER,
        }
        return TEMPLATE.format(
            modules="".join(f', "mod_{way}"' for way in ("cgi", "fastcgi") if way in routes)
            + (', "mod_openssl"' if "tls" in self.extra_ports() else ""),
            port=self.port,
            htdocs=self.site.htdocs,
            directory=self.directory,
            error_log=self.error_log,
            user=f'server.username = "{user}"\nserver.groupname = "{unprivileged_group(user)}"\n' if user else "",
            workers=self.workers if self.workers > 1 else 0,
            open_files=open_files(),
            idle_seconds=IDLE_SECONDS,
            access_log=self.access_log,
            http2=HTTP2 if any(protocol.multiplexed for protocol in self.protocols()) else "",
            listeners=self.extra_listeners(),
            routes="".join(text.format(**places) for way, text in texts.items() if way in routes),
        )

    def start_helpers(self) -> None:
        # Started by lighttpd itself, as its user, who may not have access to the build directory.
        if "fastcgi" in self.routes():
            shutil.copy(self.fastcgi_program, self.directory)

    def command(self) -> List[str]:
        return [find_program("lighttpd") or "lighttpd", "-D", "-f", str(self.configuration_file)]
