"""nginx: files, CGI with fcgiwrap, and FastCGI to a persistent C program.

Here: its configuration, and the processes behind it. Not here: the common interface (base.py); the program
(bench/programs).
"The manual" in the comments is https://nginx.org/en/docs/.
"""

import re
from pathlib import Path
from typing import Dict, List, Optional, Tuple

from .base import IDLE_SECONDS, Server
from .host import find_program, open_files, output_of, unprivileged_group, unprivileged_user
from .protocols import HTTP2, OVER_TLS

# Idle connections to FastCGI programs that each worker keeps open.
KEPT_CONNECTIONS = 16

# The largest number of concurrent script requests in the benchmark.
REQUESTS_AT_ONCE = 64

TEMPLATE = """\
# nginx for the benchmark.
daemon off;
{user}worker_processes {workers};
worker_rlimit_nofile {open_files};
pid "{directory}/nginx.pid";
error_log "{error_log}" warn;

events {{
    # 512 by default. One worker may serve all of 1,000 clients, each with a connection to a FastCGI program.
    worker_connections 8192;
}}

http {{
    types {{
        text/plain txt;
        text/html html;
    }}
    default_type application/octet-stream;

    access_log "{access_log}" combined;

    sendfile on;
    # nginx's default is off, that of Debian's file is on. Measured both: off is 1.06 to 1.15 times as fast at 64 kB
    # with 1 and 10 connections and at 5.69 MB, 0.85 at 16 kB with 10 and 64. The reason for off: with on, 64 kB at one
    # connection sometimes drops to a sixth for seconds.
    tcp_nopush off;
    tcp_nodelay on;

    # The same for every server of the run.
    keepalive_timeout {idle_seconds}s;
    # Effectively no limit: the default closes the load tool's connections after 1,000 requests.
    keepalive_requests 1000000000;

    # open_file_cache is off, the default.

    client_body_temp_path "{directory}/body";
    proxy_temp_path "{directory}/proxy";
    fastcgi_temp_path "{directory}/fastcgi";
    uwsgi_temp_path "{directory}/uwsgi";
    scgi_temp_path "{directory}/scgi";

    # 8 of 4 kB by default, too small for the largest reply of the table, 64 kB: measured 1.2 to 1.3 times as fast.
    fastcgi_buffers 8 16k;
    # Connections stay open, as the manual recommends for FastCGI servers: measured 1.35 times as fast at 1 connection and 1.6
    # at 10 as a connection per request, with fcgiwrap 1.07. The manual's example has 16 for one server. A program
    # with libfcgi serves only the connection that it has accepted, even while it is idle; so there are as many programs as
    # idle connections in all workers, plus one for each concurrent request: {processes}. With fewer, requests would wait
    # behind idle connections.
    fastcgi_keep_conn on;

    upstream persistent {{
        server "unix:{directory}/persistent.sock";
        keepalive {kept};
    }}
    upstream fcgiwrap {{
        server "unix:{directory}/fcgiwrap.sock";
        keepalive {kept};
    }}

    server {{
        # Without reuseport, the default: measured no faster.
        listen 127.0.0.1:{port};
{listeners}        root "{htdocs}";
{locations}    }}
}}
"""

LISTENERS = {
    # Debian's file has these versions, too; before 1.23.4 the default does not include 1.3. "Configuring HTTPS servers"
    # recommends the session cache; tickets are on by default.
    "tls": """\
        listen 127.0.0.1:{port} ssl{http2};
        ssl_certificate "{certificate}";
        ssl_certificate_key "{key}";
        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_session_cache shared:SSL:10m;
        ssl_session_timeout 10m;
""",
    "h2c": """\
        listen 127.0.0.1:{port}{http2};
""",
}

# Since this version HTTP/2 has a directive of its own, for all addresses of a server.
HTTP2_DIRECTIVE_VERSION = (1, 25, 1)

# Option of its configure script → protocols that need it.
PROTOCOL_MODULES = {"http_ssl_module": OVER_TLS, "http_v2_module": HTTP2}

# A location with parameters of its own does not inherit included ones, so each location includes them.
CGI = """
        location ~ ^/cgi-bin/([^/]+)$ {{
            include "{directory}/fastcgi_params";
            fastcgi_param SCRIPT_FILENAME "{programs}/$1";
            fastcgi_pass fcgiwrap;
        }}
"""

FASTCGI = """
        location /fastcgi/ {{
            include "{directory}/fastcgi_params";
            fastcgi_pass persistent;
        }}
"""

# As in nginx's own file of that name.
FASTCGI_PARAMS = """\
fastcgi_param QUERY_STRING $query_string;
fastcgi_param REQUEST_METHOD $request_method;
fastcgi_param CONTENT_TYPE $content_type;
fastcgi_param CONTENT_LENGTH $content_length;
fastcgi_param SCRIPT_NAME $fastcgi_script_name;
fastcgi_param REQUEST_URI $request_uri;
fastcgi_param DOCUMENT_URI $document_uri;
fastcgi_param DOCUMENT_ROOT $document_root;
fastcgi_param SERVER_PROTOCOL $server_protocol;
fastcgi_param REQUEST_SCHEME $scheme;
fastcgi_param GATEWAY_INTERFACE CGI/1.1;
fastcgi_param SERVER_SOFTWARE nginx/$nginx_version;
fastcgi_param REMOTE_ADDR $remote_addr;
fastcgi_param REMOTE_PORT $remote_port;
fastcgi_param SERVER_ADDR $server_addr;
fastcgi_param SERVER_PORT $server_port;
fastcgi_param SERVER_NAME $server_name;
fastcgi_param REDIRECT_STATUS 200;
"""


LOCATIONS = {"cgi": CGI, "fastcgi": FASTCGI}


class Nginx(Server):
    name = "nginx"
    ways = {"file": "/", "cgi": "/cgi-bin/", "fastcgi": "/fastcgi/"}
    listeners = LISTENERS
    unawaited = ("cgi",)

    @classmethod
    def available(cls) -> Optional[str]:
        return None if find_program("nginx") else "nginx is not installed"

    @property
    def version(self) -> str:
        found = re.search(r"nginx/\S+", output_of([find_program("nginx") or "nginx", "-v"]))
        return found.group() if found else "nginx"

    def missing(self) -> Dict[str, str]:
        missing = self.missing_build("fastcgi", self.fastcgi_program)
        if not find_program("fcgiwrap"):
            missing["cgi"] = "fcgiwrap is not installed"
        return missing

    def missing_protocols(self) -> Dict[str, str]:
        missing = super().missing_protocols()
        built = output_of([find_program("nginx") or "nginx", "-V"])
        for module, protocols in PROTOCOL_MODULES.items():
            if f"--with-{module}" not in built:
                missing.update(dict.fromkeys(protocols, f"nginx is built without {module}"))
        return missing

    def listeners_and_http2(self) -> str:
        http2 = any(protocol.multiplexed for protocol in self.protocols())
        if http2 and version_number(self.version) >= HTTP2_DIRECTIVE_VERSION:
            return self.extra_listeners(http2="") + "        http2 on;\n"
        return self.extra_listeners(http2=" http2" if http2 else "")

    def program_processes(self) -> int:
        return self.workers * KEPT_CONNECTIONS + REQUESTS_AT_ONCE

    def configuration(self) -> str:
        user = unprivileged_user()
        places = {"directory": self.directory, "programs": self.site.programs}
        routes = self.routes()
        return TEMPLATE.format(
            user=f"user {user} {unprivileged_group(user)};\n" if user else "",
            workers=self.workers,
            open_files=open_files(),
            directory=self.directory,
            error_log=self.error_log,
            access_log=self.access_log,
            idle_seconds=IDLE_SECONDS,
            kept=KEPT_CONNECTIONS,
            processes=self.program_processes(),
            port=self.port,
            htdocs=self.site.htdocs,
            listeners=self.listeners_and_http2(),
            locations="".join(text.format(**places) for way, text in LOCATIONS.items() if way in routes),
        )

    def command(self) -> List[str]:
        binary = find_program("nginx") or "nginx"
        return [binary, "-p", str(self.directory), "-e", str(self.error_log), "-c", str(self.configuration_file)]

    def start_helpers(self) -> None:
        (self.directory / "fastcgi_params").write_text(FASTCGI_PARAMS)
        routes = self.routes()
        if "cgi" in routes:
            # One process forks the others; its manual recommends to pass a listening socket as descriptor 0.
            command = [find_program("fcgiwrap") or "fcgiwrap", "-c", str(self.program_processes())]
            self.serve_on(self.directory / "fcgiwrap.sock", command, processes=1, user=unprivileged_user())
        if "fastcgi" in routes:
            command = [str(self.fastcgi_program)]
            self.serve_on(self.directory / "persistent.sock", command, processes=self.program_processes(), user=None)


def version_number(text: str) -> Tuple[int, ...]:
    """"nginx/1.22.1" → (1, 22, 1)."""
    found = re.search(r"/([\d.]+)", text)
    return tuple(int(part) for part in found.group(1).split(".") if part) if found else ()
