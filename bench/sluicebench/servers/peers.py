"""The peers of the engines: gunicorn, uWSGI, Granian, waitress, Starman, mod_perl, php-fpm, mod_php; some also behind nginx.

Here: their configurations and processes. Not here: the common interface (base.py), the applications (bench/engines). Each is
configured as its own manual advises, with as many processes as Sluice may have for a script (Server.processes)."""

import re
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple

from .apache import MODULES
from .base import IDLE_SECONDS, Reply, Server
from .host import find_program, output_of, unprivileged_group, unprivileged_user

# The largest number of clients in the tables, each with a connection that stays open.
CLIENTS_MOST = 64


class Peer(Server):
    """A program that runs the application; it accepts HTTP at an address."""

    program = ""
    in_venv = False
    #: It loads its application and framework first.
    start_seconds = 30.0
    #: Its access log is what it writes to the console.
    logs_to_console = False

    def __init__(self, *what: Any, **more: Any) -> None:
        super().__init__(*what, **more)
        if self.logs_to_console:
            self.access_log = self.console

    @classmethod
    def available(cls) -> Optional[str]:
        return None if cls.in_venv or find_program(cls.program) else f"{cls.program} is not installed"

    @property
    def executable(self) -> str:
        return str(self.site.venv / "bin" / self.program) if self.in_venv else find_program(self.program) or self.program

    def missing(self) -> Dict[str, str]:
        if not self.in_venv or Path(self.executable).is_file():
            return {}
        return dict.fromkeys(self.ways, f"{self.program} is not installed: `bench/setup engines` does it")

    @property
    def version(self) -> str:
        found = re.search(r"\d+\.[\w.-]+", output_of([self.executable, "--version"]))
        return f"{self.program} {found.group() if found else ''}".strip()

    def is_ready(self, reply: Reply) -> bool:
        return reply.status == 200

    @property
    def ready_path(self) -> str:
        way, prefix = next(iter(self.ways.items()))
        return f"{prefix}{'script' + ENDING[way.split('-')[0]] if way in SCRIPTS else 'plain'}?0"

    def backend(self, address: str) -> List[str]:
        """The command; `address` is a host with a port, or the path of a unix socket."""
        raise NotImplementedError

    def command(self) -> List[str]:
        return self.backend(f"127.0.0.1:{self.port}")

    def configuration(self) -> str:
        return f"# {' '.join(self.command())}\n"

    def environment(self) -> Dict[str, str]:
        # uWSGI and mod_perl do not know the directory of the application by themselves.
        return {**super().environment(), "PYTHONPATH": str(self.site.applications / "python")}


SCRIPTS = ("perl-registry", "php-script")
ENDING = {"perl": ".pl", "php": ".php"}


# ---- Python ----


class Gunicorn(Peer):
    """Its default worker, sync, ends each connection after a response, so that its manual wants a proxy in front of it."""

    name, program, in_venv = "gunicorn", "gunicorn", True
    ways = {"python-wsgi": "/"}

    def backend(self, address: str) -> List[str]:
        # The manual: 2 × processors + 1 workers, which is what Server.processes has.
        return [
            self.executable, "--workers", str(self.processes), "--bind", bind(address), "--umask", "0",
            "--no-control-socket", "--access-logfile", str(self.access_log), "wsgi:application",
        ]  # fmt: skip


class Uwsgi(Peer):
    """Alone: its HTTP router in front of its workers, as in the quick start of its manual, with connections that stay open."""

    name, program, logs_to_console = "uwsgi", "uwsgi", True
    ways = {"python-wsgi": "/"}

    def backend(self, address: str) -> List[str]:
        if address.startswith("/"):
            listen = ["--socket", address, "--chmod-socket=666"]
        else:
            listen = ["--http", address, "--http-keepalive=60", "--http-auto-chunked"]
        # "Things to know": a master, an error without an application; thunder lock, against waking all processes.
        return [
            self.executable, "--plugins", "python3,http", *listen, "--master", "--need-app", "--thunder-lock", "--die-on-term",
            "--processes", str(self.processes), "--virtualenv", str(self.site.venv), "--module", "wsgi:application",
        ]  # fmt: skip


class Granian(Peer):
    """Threads that accept and parse in Rust, in the processes that run Python."""

    name, program, in_venv, logs_to_console = "granian", "granian", True, True
    ways = {"python-wsgi": "/"}

    def backend(self, address: str) -> List[str]:
        host, _, port = address.rpartition(":")
        listen = ["--uds", address, "--uds-permissions", "666"] if address.startswith("/") else ["--host", host, "--port", port]
        # Other settings are the defaults.
        return [
            self.executable, "--interface", "wsgi", "--workers", str(self.processes), *listen, "--access-log", "wsgi:application",
        ]  # fmt: skip


class Waitress(Peer):
    """One process with threads; it has no access log."""

    name, program, in_venv = "waitress", "waitress-serve", True
    ways = {"python-wsgi": "/"}

    @property
    def version(self) -> str:
        script = "from importlib.metadata import version; print(version('waitress'))"
        return f"waitress {output_of([str(self.site.python), '-c', script]).strip()}"

    def backend(self, address: str) -> List[str]:
        unix = address.startswith("/")
        listen = [f"--unix-socket={address}", "--unix-socket-perms=666"] if unix else [f"--listen={address}"]
        return [self.executable, *listen, f"--threads={self.processes}", "wsgi:application"]


def bind(address: str) -> str:
    return f"unix:{address}" if address.startswith("/") else address


# ---- Perl ----


class Starman(Peer):
    """A process serves one connection at a time. With connections that stay open there would have to be a process for each
    client; its manual advises to end them (--disable-keepalive) behind a proxy, and so it is measured alone, too."""

    name, program = "starman", "starman"
    ways = {"perl-psgi": "/"}

    @property
    def version(self) -> str:
        return f"Starman {output_of(['perl', '-MStarman', '-e', 'print $Starman::VERSION'])}"

    def backend(self, address: str) -> List[str]:
        # --preload-app: one copy of the application's memory for all workers.
        command = [
            self.executable, "--workers", str(self.processes), "--listen", address, "--disable-keepalive",
            "--preload-app", "--access-log", str(self.access_log), str(self.site.applications / "perl" / "app.psgi"),
        ]  # fmt: skip
        return open_to_all(command)


def open_to_all(command: List[str]) -> List[str]:
    """The socket that the command creates is open to every user, because the workers of nginx run as another one."""
    return ["/bin/sh", "-c", 'umask 0; exec "$@"', "sh", *command]


# ---- behind nginx ----

NGINX = """\
# nginx in front of {what}.
daemon off;
{user}worker_processes {workers};
pid "{directory}/nginx.pid";
error_log "{nginx_log}" warn;

events {{
}}

http {{
    access_log "{access_log}" combined;

    # The same for every server of the run; no limit on the requests of a connection.
    keepalive_timeout {idle_seconds}s;
    keepalive_requests 1000000000;

    # The default refuses the upload of 5 MB.
    client_max_body_size 16m;

    client_body_temp_path "{directory}/body";
    proxy_temp_path "{directory}/proxy";
    fastcgi_temp_path "{directory}/fastcgi";
    uwsgi_temp_path "{directory}/uwsgi";
    scgi_temp_path "{directory}/scgi";

    # 8 of 4 kB by default, too small for the largest reply, 64 kB.
    proxy_buffers 8 16k;
    uwsgi_buffers 8 16k;
    fastcgi_buffers 8 16k;

    upstream application {{
        # As in gunicorn's manual: try again after a failure.
        server "unix:{socket}" fail_timeout=0;
{keepalive}    }}

    server {{
        listen 127.0.0.1:{port};
{location}    }}
}}
"""

# As in gunicorn's manual. With connections that stay open: HTTP/1.1 and no Connection field, as in nginx's.
PROXY = """\
        location / {{
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
            proxy_set_header X-Forwarded-Proto $scheme;
            proxy_set_header Host $http_host;
            proxy_redirect off;
{http}            proxy_pass http://application;
        }}
"""
PROXY_KEPT = '            proxy_http_version 1.1;\n            proxy_set_header Connection "";\n'

UWSGI = """\
        location / {{
            include /etc/nginx/uwsgi_params;
            uwsgi_pass application;
        }}
"""

# As in nginx's page on PHP and FastCGI; PATH_INFO as in that of php.net.
PHP = """\
        root "{applications}/php";
        location ~ [^/]\\.php(/|$) {{
            fastcgi_split_path_info ^(.+?\\.php)(/.*)$;
            include /etc/nginx/fastcgi_params;
            fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
            fastcgi_param PATH_INFO $fastcgi_path_info;
            fastcgi_param REDIRECT_STATUS 200;
            fastcgi_pass application;
        }}
"""


class BehindNginx(Peer):
    """The peer at a unix socket, nginx in front of it."""

    location = PROXY
    #: Idle connections to the peer that each of nginx's workers keeps. 0 where the peer ends them, or where one would occupy a
    #: process.
    kept = 0

    @classmethod
    def available(cls) -> Optional[str]:
        return super().available() or (None if find_program("nginx") else "nginx is not installed")

    @property
    def socket(self) -> Path:
        return self.directory / "application.sock"

    @property
    def version(self) -> str:
        found = re.search(r"nginx/\S+", output_of([find_program("nginx") or "nginx", "-v"]))
        return f"{super().version} behind {found.group() if found else 'nginx'}"

    def configuration(self) -> str:
        user = unprivileged_user()
        return NGINX.format(
            what=self.program,
            user=f"user {user} {unprivileged_group(user)};\n" if user else "",
            workers=self.workers,
            directory=self.directory,
            nginx_log=self.directory / "nginx.log",
            access_log=self.directory / "nginx-access.log",
            idle_seconds=IDLE_SECONDS,
            socket=self.socket,
            keepalive=f"        keepalive {self.kept};\n" if self.kept else "",
            port=self.port,
            location=self.location.format(http=PROXY_KEPT if self.kept else "", applications=self.site.applications),
        )

    def start_helpers(self) -> None:
        self.spawn_helper(self.backend(str(self.socket)))

    def command(self) -> List[str]:
        log = self.directory / "nginx.log"
        return [find_program("nginx") or "nginx", "-p", str(self.directory), "-e", str(log), "-c", str(self.configuration_file)]

    def empty_access_log(self) -> None:
        super().empty_access_log()
        log = self.directory / "nginx-access.log"
        if log.exists():
            log.write_bytes(b"")


class GunicornNginx(BehindNginx, Gunicorn):
    name = "gunicorn-nginx"


class UwsgiNginx(BehindNginx, Uwsgi):
    name, location = "uwsgi-nginx", UWSGI


class GranianNginx(BehindNginx, Granian):
    name, kept = "granian-nginx", 16


class WaitressNginx(BehindNginx, Waitress):
    name, kept = "waitress-nginx", 16


class StarmanNginx(BehindNginx, Starman):
    name = "starman-nginx"


FPM = """\
[global]
error_log = {error_log}
daemonize = no

[bench]
listen = {socket}
listen.mode = 0666
{user}; A fixed number, as its manual advises for a machine of its own.
pm = static
pm.max_children = {processes}
access.log = {access_log}
clear_env = yes
"""


class FpmNginx(BehindNginx):
    name, program, location = "php-fpm-nginx", "php-fpm", PHP
    ways = {"php-script": "/"}

    @classmethod
    def available(cls) -> Optional[str]:
        if not fpm_program():
            return "php-fpm is not installed"
        return None if find_program("nginx") else "nginx is not installed"

    @property
    def executable(self) -> str:
        return fpm_program() or "php-fpm"

    def environment(self) -> Dict[str, str]:
        return {**super().environment(), "PHP_INI_SCAN_DIR": f":{self.site.php_settings}"}

    def backend(self, address: str) -> List[str]:
        user = unprivileged_user()
        file = self.directory / "fpm.conf"
        file.write_text(
            FPM.format(
                error_log=self.error_log,
                socket=address,
                user=f"user = {user}\ngroup = {unprivileged_group(user)}\n" if user else "",
                processes=self.processes,
                access_log=self.access_log,
            )
        )
        return [self.executable, "--nodaemonize", "--fpm-config", str(file)]


def fpm_program() -> Optional[str]:
    """Debian's has its version in its name."""
    found = find_program("php-fpm")
    return found or next((str(path) for path in sorted(Path("/usr/sbin").glob("php-fpm*"), reverse=True)), None)


# ---- Apache ----

APACHE = """\
# Apache with {what}: the prefork MPM, because Perl and PHP are not safe with threads.
ServerRoot "{directory}"
ServerName localhost
Listen 127.0.0.1:{port}
PidFile "{directory}/httpd.pid"
DefaultRuntimeDir "{directory}"
{user}
LoadModule mpm_prefork_module "{modules}/mod_mpm_prefork.so"
LoadModule authz_core_module "{modules}/mod_authz_core.so"
LoadModule alias_module "{modules}/mod_alias.so"
LoadModule mime_module "{modules}/mod_mime.so"
LoadModule env_module "{modules}/mod_env.so"

# A process serves one connection, also while it is idle: so there is one for each client of the table, and some spare ones.
# With as many processes as the others have, most clients would never be served.
ServerLimit         {clients}
MaxRequestWorkers   {clients}
StartServers        {processes}
MinSpareServers     {processes}
MaxSpareServers     {clients}
MaxConnectionsPerChild 0

KeepAlive On
MaxKeepAliveRequests 0
KeepAliveTimeout {idle_seconds}

ErrorLog "{error_log}"
LogLevel warn
LogFormat "%h %l %u %t \\"%r\\" %>s %O \\"%{{Referer}}i\\" \\"%{{User-Agent}}i\\"" combined
CustomLog "{access_log}" combined
HostnameLookups Off
TypesConfig /dev/null

<Directory />
    Options FollowSymLinks
    AllowOverride None
    Require all denied
</Directory>
{applications}"""

# As in the documentation of ModPerl::Registry and of Plack::Handler::Apache2.
MOD_PERL = """
LoadModule perl_module "{modules}/mod_perl.so"
PerlSwitches -I{site}/perl
PerlModule ModPerl::Registry
Alias /registry/ "{site}/perl/"
<Directory "{site}/perl">
    Require all granted
</Directory>
<Location /registry/>
    SetHandler perl-script
    PerlResponseHandler ModPerl::Registry
    PerlOptions +ParseHeaders
    Options +ExecCGI
</Location>
<Location /psgi>
    SetHandler perl-script
    PerlResponseHandler Plack::Handler::Apache2
    PerlSetVar psgi_app "{site}/perl/app.psgi"
    Require all granted
</Location>
<Perl>
    use Plack::Handler::Apache2;
    Plack::Handler::Apache2->preload("{site}/perl/app.psgi");
</Perl>
"""

# As in PHP's manual on Apache 2.
MOD_PHP = """
LoadModule php_module "{php_module}"
DocumentRoot "{site}/php"
<Directory "{site}/php">
    Require all granted
</Directory>
<FilesMatch \\.php$>
    SetHandler application/x-httpd-php
</FilesMatch>
"""


class ApachePeer(Peer):
    program = "apache2"
    what = ""
    applications = ""
    modules: Tuple[str, ...] = ()

    @classmethod
    def available(cls) -> Optional[str]:
        if not find_program("apache2"):
            return "apache2 is not installed"
        absent = [name for name in ("mod_mpm_prefork.so", *cls.modules) if not (MODULES / name).is_file()]
        return f"apache2 has no {' and no '.join(absent)} in {MODULES}" if absent else None

    @property
    def version(self) -> str:
        found = re.search(r"Apache/\S+", output_of([self.executable, "-v"]))
        return f"{found.group() if found else 'Apache'} with {self.what}"

    def configuration(self) -> str:
        user = unprivileged_user()
        places = {"modules": MODULES, "site": self.site.applications, "php_module": php_module()}
        return APACHE.format(
            what=self.what,
            directory=self.directory,
            port=self.port,
            user=f"User {user}\nGroup {unprivileged_group(user)}\n" if user else "",
            modules=MODULES,
            clients=max(CLIENTS_MOST + 8, self.processes),
            processes=self.processes,
            idle_seconds=IDLE_SECONDS,
            error_log=self.error_log,
            access_log=self.access_log,
            applications=self.applications.format(**places),
        )

    def command(self) -> List[str]:
        return [self.executable, "-f", str(self.configuration_file), "-D", "FOREGROUND"]


class ModPerl(ApachePeer):
    name, what, applications, modules = "mod_perl", "mod_perl", MOD_PERL, ("mod_perl.so",)
    ways = {"perl-registry": "/registry/", "perl-psgi": "/psgi/"}


class ModPhp(ApachePeer):
    name, what, applications = "mod_php", "mod_php", MOD_PHP
    ways = {"php-script": "/"}

    @classmethod
    def available(cls) -> Optional[str]:
        return super().available() or (None if php_module() else f"apache2 has no libphp8*.so in {MODULES}")

    def environment(self) -> Dict[str, str]:
        return {**super().environment(), "PHP_INI_SCAN_DIR": f":{self.site.php_settings}"}


def php_module() -> Optional[Path]:
    return max(MODULES.glob("libphp8*.so"), default=None)


#: The peers of the engines, by name.
PEERS: Mapping[str, "type[Peer]"] = {
    kind.name: kind
    for kind in (
        Gunicorn, GunicornNginx, Uwsgi, UwsgiNginx, Granian, GranianNginx, Waitress, WaitressNginx,
        Starman, StarmanNginx, ModPerl, FpmNginx, ModPhp,
    )
}  # fmt: skip
