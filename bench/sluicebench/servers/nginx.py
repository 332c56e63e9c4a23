"""nginx: files, CGI by way of fcgiwrap, and FastCGI to a persistent C program.

Here: its configuration, and the processes behind it. Not here: what all servers share (base.py); the program
(bench/programs).
The manual meant in the comments: https://nginx.org/en/docs/.
"""

import re
from pathlib import Path
from typing import Dict, List, Optional, Tuple

from .base import IDLE_SECONDS, Server
from .host import find_program, listening_socket, open_files, output_of, unprivileged_group, unprivileged_user
from .protocols import HTTP2, OVER_TLS

# Connections to a FastCGI program that each worker keeps open while nothing is asked on them.
KEPT_CONNECTIONS = 16

# The most requests that the benchmark has under way at a script.
REQUESTS_AT_ONCE = 64

TEMPLATE = """\
# nginx for the benchmark.
daemon off;
{user}worker_processes {workers};
worker_rlimit_nofile {open_files};
pid "{folder}/nginx.pid";
error_log "{error_log}" warn;

events {{
    # 512 by default. One worker may have got all of 1,000 clients, each with a connection to a FastCGI program.
    worker_connections 2048;
}}

http {{
    types {{
        text/plain txt;
        text/html html;
    }}
    default_type application/octet-stream;

    access_log "{access_log}" combined;

    sendfile on;
    # Off is the default of nginx, on that of Debian's file. Measured both: off is 1.06 to 1.15 times as fast at 64 kB
    # with 1 and 10 connections and at 5.69 MB, 0.85 at 16 kB with 10 and 64. What decides: with it on, 64 kB at one
    # connection falls to a sixth now and then, for seconds.
    tcp_nopush off;
    tcp_nodelay on;

    # The same for every server of the run.
    keepalive_timeout {idle_seconds}s;
    # No bound that matters: the load tool is not to be cut off after 1,000 requests, the default.
    keepalive_requests 1000000000;

    # open_file_cache is off, the default.

    client_body_temp_path "{folder}/body";
    proxy_temp_path "{folder}/proxy";
    fastcgi_temp_path "{folder}/fastcgi";
    uwsgi_temp_path "{folder}/uwsgi";
    scgi_temp_path "{folder}/scgi";

    # 8 of 4 kB by default, too small for the largest reply of the table, 64 kB: measured 1.2 to 1.3 times as fast.
    fastcgi_buffers 8 16k;
    # Connections stay open, as the manual says for FastCGI servers: measured 1.35 times as fast at 1 connection and 1.6
    # at 10 as a connection a request, with fcgiwrap 1.07. 16 is what the manual's example has for one server. A program
    # on libfcgi serves the one connection that it has accepted, idle or not; so there are as many programs as idle
    # connections in all workers, and one for each request under way: {processes}. With fewer, requests would wait
    # behind idle connections.
    fastcgi_keep_conn on;

    upstream persistent {{
        server "unix:{folder}/persistent.sock";
        keepalive {kept};
    }}
    upstream fcgiwrap {{
        server "unix:{folder}/fcgiwrap.sock";
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
    # Debian's file has these versions too; 1.3 is none of the defaults before 1.23.4. The cache of sessions is the advice of
    # "Configuring HTTPS servers"; tickets are on by default.
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

# From this version on HTTP/2 is a directive of its own, for all addresses of a server.
HTTP2_DIRECTIVE_VERSION = (1, 25, 1)

# Option of its configure → protocols that are not spoken without it.
PROTOCOL_MODULES = {"http_ssl_module": OVER_TLS, "http_v2_module": HTTP2}

# What is included is not inherited by a location that adds one of its own, so it stands in each.
CGI = """
        location ~ ^/cgi-bin/([^/]+)$ {{
            include "{folder}/fastcgi_params";
            fastcgi_param SCRIPT_FILENAME "{programs}/$1";
            fastcgi_pass fcgiwrap;
        }}
"""

FASTCGI = """
        location /fastcgi/ {{
            include "{folder}/fastcgi_params";
            fastcgi_pass persistent;
        }}
"""

# As in the file of that name that comes with nginx.
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
        places = {"folder": self.folder, "programs": self.site.programs}
        routes = self.routes()
        return TEMPLATE.format(
            user=f"user {user} {unprivileged_group(user)};\n" if user else "",
            workers=self.workers,
            open_files=open_files(),
            folder=self.folder,
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
        return [binary, "-p", str(self.folder), "-e", str(self.error_log), "-c", str(self.configuration_file)]

    def start_helpers(self) -> None:
        (self.folder / "fastcgi_params").write_text(FASTCGI_PARAMS)
        routes = self.routes()
        if "cgi" in routes:
            # One process that forks the others; its manual recommends a socket that is there, as descriptor 0.
            command = [find_program("fcgiwrap") or "fcgiwrap", "-c", str(self.program_processes())]
            self._serve_on(self.folder / "fcgiwrap.sock", command, processes=1, user=unprivileged_user())
        if "fastcgi" in routes:
            command = [str(self.fastcgi_program)]
            self._serve_on(self.folder / "persistent.sock", command, processes=self.program_processes(), user=None)

    def _serve_on(self, path: Path, command: List[str], processes: int, user: Optional[str]) -> None:
        with listening_socket(path, backlog=511) as listener:
            for _ in range(processes):
                self.spawn_helper(command, listener.fileno(), user)


def version_number(text: str) -> Tuple[int, ...]:
    """"nginx/1.22.1" → (1, 22, 1)."""
    found = re.search(r"/([\d.]+)", text)
    return tuple(int(part) for part in found.group(1).split(".") if part) if found else ()
