"""Apache httpd 2.4: event MPM, mod_cgid, mod_ssl, mod_http2, and the two programs as a loadable module.

Here: its configuration and its processes. Not here: the common interface (base.py); the module (bench/programs).
"The manual" in the comments is https://httpd.apache.org/docs/2.4/.
"""

import re
from pathlib import Path
from typing import Dict, List, Optional

from .base import IDLE_SECONDS, PROGRAMS, Server
from .host import find_program, output_of, unprivileged_group, unprivileged_user
from .protocols import H2_TLS, HTTP2, OVER_TLS

# The path in Debian's package.
MODULES = Path("/usr/lib/apache2/modules")

# Threads per process; 16 processes have 1,024.
THREADS = 64

TEMPLATE = """\
# Apache for the benchmark. Only the necessary modules.
ServerRoot "{directory}"
ServerName localhost
Listen 127.0.0.1:{port}
PidFile "{directory}/httpd.pid"
DefaultRuntimeDir "{directory}"
{user}
# Debian's has log_config and unixd built in.
LoadModule mpm_event_module "{modules}/mod_mpm_event.so"
LoadModule authz_core_module "{modules}/mod_authz_core.so"
LoadModule mime_module "{modules}/mod_mime.so"
LoadModule alias_module "{modules}/mod_alias.so"
LoadModule cgid_module "{modules}/mod_cgid.so"
{load_module}{load_protocols}
# The default, 16 processes of 25 threads, is for 400 concurrent requests. 1,024, so that 1,000 connections with a
# request each are served concurrently; by more threads per process, because threads cost less than processes.
ServerLimit         16
ThreadLimit         {threads}
ThreadsPerChild     {threads}
MaxRequestWorkers   1024
# 2 by default, which allows 3,072 connections in all; idle ones cost no thread.
AsyncRequestWorkerFactor 4
# One process for each processor from the start. The limits on spare threads are the defaults, except that the upper one
# is large enough for these processes: otherwise they would be stopped, and started again at the next burst.
StartServers        {workers}
MinSpareThreads     75
MaxSpareThreads     {spare_threads}
MaxConnectionsPerChild 0

KeepAlive On
# No limit: the default closes the load tool's connections after 100 requests.
MaxKeepAliveRequests 0
# The same for every server of the run.
KeepAliveTimeout {idle_seconds}

# Off by default, because some network file systems do not support it; otherwise the manual recommends it as faster.
# Measured: 1.3 times as fast at 64 kB with 10 and 64 connections, 0.75 with 1; 0.9 to 1.0 at 5.69 MB.
EnableSendfile On

ErrorLog "{error_log}"
LogLevel warn
LogFormat "%h %l %u %t \\"%r\\" %>s %O \\"%{{Referer}}i\\" \\"%{{User-Agent}}i\\"" combined
CustomLog "{access_log}" combined
HostnameLookups Off

# The manual's advice on performance: no search for .htaccess files, symbolic links followed without a check.
<Directory />
    Options FollowSymLinks
    AllowOverride None
    Require all denied
</Directory>

TypesConfig /dev/null
AddType text/plain .txt
AddType application/octet-stream .bin
DocumentRoot "{htdocs}"
<Directory "{htdocs}">
    Require all granted
</Directory>

# The manual recommends mod_cgid with threads: a daemon starts the scripts. ScriptLog is off, the default.
ScriptSock "{directory}/cgid.sock"
ScriptAlias /cgi-bin/ "{programs}/"
<Directory "{programs}">
    Options +ExecCGI
    Require all granted
</Directory>
{module_locations}{listeners}"""

# Module → protocols that need it.
PROTOCOL_MODULES = {"ssl": OVER_TLS, "socache_shmcb": OVER_TLS, "http2": HTTP2}

# A virtual host inherits the rest from the server: files, programs, logs.
LISTENERS = {
    # The session cache as in the manual's example; tickets are on by default, and so is TLS 1.3.
    "tls": """
SSLSessionCache "shmcb:{directory}/sessions(512000)"
Listen 127.0.0.1:{port}
<VirtualHost 127.0.0.1:{port}>
    SSLEngine on
    SSLCertificateFile "{certificate}"
    SSLCertificateKeyFile "{key}"
    Protocols {h2}http/1.1
</VirtualHost>
""",
    # Prior knowledge (H2Direct) is on by default with h2c.
    "h2c": """
Listen 127.0.0.1:{port}
<VirtualHost 127.0.0.1:{port}>
    Protocols h2c http/1.1
</VirtualHost>
""",
}

LOCATION = """
<Location "/module/{program}">
    SetHandler {program}
    Require all granted
</Location>
"""


class Apache(Server):
    name = "apache"
    ways = {"file": "/", "cgi": "/cgi-bin/", "module": "/module/"}
    listeners = LISTENERS
    unawaited = ("cgi",)

    @classmethod
    def available(cls) -> Optional[str]:
        if not find_program("apache2"):
            return "apache2 is not installed"
        absent = [name for name in ("mod_mpm_event.so", "mod_cgid.so") if not (MODULES / name).is_file()]
        return f"apache2 has no {' and no '.join(absent)} in {MODULES}" if absent else None

    @property
    def version(self) -> str:
        found = re.search(r"Apache/\S+", output_of([find_program("apache2") or "apache2", "-v"]))
        return found.group() if found else "Apache"

    @property
    def own_module(self) -> Path:
        return self.site.build / "mod_sluicebench.so"

    def missing(self) -> Dict[str, str]:
        return self.missing_build("module", self.own_module)

    def missing_protocols(self) -> Dict[str, str]:
        missing = super().missing_protocols()
        for module, protocols in PROTOCOL_MODULES.items():
            if not (MODULES / f"mod_{module}.so").is_file():
                missing.update(dict.fromkeys(protocols, f"apache2 has no mod_{module}.so in {MODULES}"))
        return missing

    def protocol_modules(self) -> List[str]:
        """The PROTOCOL_MODULES that the chosen protocols need."""
        spoken = {protocol.key for protocol in self.protocols()}
        return [module for module, protocols in PROTOCOL_MODULES.items() if spoken.intersection(protocols)]

    def configuration(self) -> str:
        user = unprivileged_user()
        programs = PROGRAMS["module"] if "module" in self.routes() else ()
        return TEMPLATE.format(
            directory=self.directory,
            port=self.port,
            user=f"User {user}\nGroup {unprivileged_group(user)}\n" if user else "",
            modules=MODULES,
            load_module=f'LoadModule sluicebench_module "{self.own_module}"\n' if programs else "",
            load_protocols="".join(
                f'LoadModule {name}_module "{MODULES}/mod_{name}.so"\n' for name in self.protocol_modules()
            ),
            listeners=self.extra_listeners(
                directory=str(self.directory), h2="h2 " if H2_TLS in self.protocols() else ""
            ),
            module_locations="".join(LOCATION.format(program=name) for name in programs),
            threads=THREADS,
            workers=self.workers,
            spare_threads=max(250, (self.workers + 1) * THREADS + 75),
            idle_seconds=IDLE_SECONDS,
            error_log=self.error_log,
            access_log=self.access_log,
            htdocs=self.site.htdocs,
            programs=self.site.programs,
        )

    def command(self) -> List[str]:
        return [find_program("apache2") or "apache2", "-f", str(self.configuration_file), "-D", "FOREGROUND"]
