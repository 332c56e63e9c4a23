"""The columns of the table: which script runs how, and what it needs."""

import os
import shutil
import subprocess

import testing

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
INTERFACES = {"Python": "WSGI", "Perl": "PSGI", "PHP": "worker"}
MODES = {"cgi": "CGI", "cgiplus": "CGIplus", "rte": "RTE", "fork": "RTE, fork"}


class Column:
    """A language in a mode. `kind` is "library" (the same source in all modes), "plain" (a script without any library) or "application"
    (one that an engine loads once)."""

    def __init__(self, language, mode, kind, file, needs=(), keys="", absent=None, directory="scripts"):
        self.directory = directory
        self.language, self.mode, self.kind, self.file = language, mode, kind, file
        self.needs, self.keys, self.absent = needs, keys, absent
        self.name = f"{language.lower()}-{mode}" + {"library": "", "plain": "-plain", "application": "-app"}[kind]
        self.title = f"{language} {INTERFACES[language] if kind == 'application' else MODES[mode]}"
        self.is_application = kind == "application"

    @property
    def error_status(self):
        """The status of an uncaught error before the head. php-cgi answers itself, and PSGI wants 500."""
        return 500 if (self.language, self.mode) == ("PHP", "cgi") or self.language == "Perl" and self.is_application else 502

    @property
    def is_persistent(self):
        """Whether one process serves several requests."""
        return self.mode != "cgi"

    def path(self, action, route=""):
        """The path of a behaviour: an application has every path of its route."""
        return f"/{self.name}{route}/{action}" if self.is_application else f"/{self.name}{route}/{self.file}/{action}"

    def missing(self):
        """What this column needs and the machine does not have; None if it can run."""
        for need in self.needs:
            path = os.path.join(testing.CHECKOUT, need)
            if not (os.path.exists(path) if "/" in need else shutil.which(need)):
                return need
        return None

    def routes(self):
        """Two routes: one for everything, and one with a short time-out for scripts that hang."""
        keys = self._keys('max = 1, client_grace = "200ms", kill_grace = "1s"')
        keys += f', TMPDIR = "@DIR@/events/{self.name}/tmp"'
        first = route(f"/{self.name}/*", f'{keys}, PROBE_DIR = "@DIR@/events/{self.name}" }}')
        return first + route(f"/{self.name}-timeout/*", keys + ' }, reply_timeout = "2s"')

    def soak_route(self):
        """The route for the soak test: several processes, which end soon when they are idle."""
        idle = "" if self.mode == "cgi" else ', idle = "2s", client_grace = "1s"'
        keys = self._keys(f'max = 3, kill_grace = "500ms"{idle}')
        # A gate that is always open.
        return route(f"/{self.name}/*", keys + ', PROBE_DIR = "@DIR@/open", TMPDIR = "@TMP@" }')

    def _keys(self, more):
        """The keys of the script, with an open table of environment variables at the end."""
        mode = "rte" if self.mode in ("rte", "fork") else self.mode
        keys = f'directory = "{self.directory}", mode = "{mode}", {more}{self.keys}'
        if self.mode == "fork":
            keys += ', fresh = "fork"'
        environment = {
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": "@SDK@/python",
            "PERL5LIB": "@SDK@/perl/lib",
            "PHPRC": "@DIR@/php",
            "SLUICE_SDK": "@SDK@",
            "SLUICE_SHELL": "@SDK@/shell/build",
        }
        return keys + ", environment = { " + ", ".join(f'{name} = "{value}"' for name, value in environment.items())


def route(path, keys):
    return f'  [[site.route]]\n  path = "{path}"\n  script = {{ {keys} }}\n'


def php(program):
    return f', interpreters = {{ ".php" = "{program}" }}'


def engine(name):
    return f', engine = "{name}"'


PYTHON, PERL, PHP = "sdk/python/engine.py", "sdk/perl/engine.pl", "sdk/php/build/sluice-php"

NO_ENGINE_C = (
    "A compiled program is not interpreted, so there is no interpreter to keep: a C program stays in memory as CGIplus, with the same source."
)
NO_ENGINE_SHELL = (
    "A shell cannot run a second script in a clean state without a new process, so an engine would save nothing. "
    "A loop around `sluice_accept` keeps a shell as CGIplus."
)

COLUMNS = [
    Column("C", "cgi", "library", "probe", ["cc"]),
    Column("C", "cgiplus", "library", "probe", ["cc"]),
    Column("C", "rte", "library", "probe", absent=NO_ENGINE_C),
    Column("Shell", "cgi", "library", "probe.sh", ["sdk/shell/build/sluice-form"]),
    Column("Shell", "cgiplus", "library", "probe.sh", ["sdk/shell/build/sluice-form"]),
    Column("Shell", "rte", "library", "probe.sh", absent=NO_ENGINE_SHELL),
    Column("Python", "cgi", "library", "probe.py", [PYTHON]),
    Column("Python", "cgiplus", "library", "probe.py", [PYTHON]),
    Column("Python", "rte", "library", "probe.py", [PYTHON], engine("python")),
    Column("Perl", "cgi", "library", "probe.pl", [PERL, "perl"]),
    Column("Perl", "cgiplus", "library", "probe.pl", [PERL, "perl"]),
    Column("Perl", "rte", "library", "probe.pl", [PERL, "perl"], engine("perl")),
    Column("PHP", "cgi", "library", "probe.php", ["sdk/php/sluice.php", "php-cgi"], php("php-cgi")),
    Column("PHP", "cgiplus", "library", "probe.php", ["sdk/php/sluice.php", "php"], php("php")),
    Column("PHP", "rte", "library", "probe.php", [PHP], engine("php")),
    Column("Python", "cgi", "plain", "plain.py"),
    Column("Python", "rte", "plain", "plain.py", [PYTHON], engine("python")),
    Column("Python", "fork", "plain", "plain.py", [PYTHON], engine("python")),
    Column("Perl", "cgi", "plain", "plain.pl", ["perl"]),
    Column("Perl", "rte", "plain", "plain.pl", [PERL, "perl"], engine("perl")),
    Column("Perl", "fork", "plain", "plain.pl", [PERL, "perl"], engine("perl")),
    Column("PHP", "cgi", "plain", "plain.php", ["php-cgi"], php("php-cgi")),
    Column("PHP", "rte", "plain", "plain.php", [PHP], engine("php")),
    Column("PHP", "fork", "plain", "plain.php", [PHP], engine("php")),
]
for language, need, file in (("Python", PYTHON, "application.py"), ("Perl", PERL, "app.psgi"), ("PHP", PHP, "worker.php")):
    app = "application:application" if language == "Python" else file
    keys = engine(language.lower()) + f', app = "{app}"'
    COLUMNS.append(Column(language, "rte", "application", file, [need], keys, directory=f"apps/{language.lower()}"))

# What every PHP needs for large bodies: php.ini of php-cgi and php, by PHPRC.
PHP_INI = "register_argc_argv = 0\npost_max_size = 0\nmemory_limit = 512M\nmax_execution_time = 0\nlog_errors = 1\ndisplay_errors = 0\n"


def start(columns):
    """A server with the routes of these columns, and the named pipes of each."""
    configuration = '[server]\nsdk = "@SDK@"\n' if any(column.mode in ("rte", "fork") for column in columns) else ""
    configuration += '[limits]\nmemory_buffers = "256MiB"\n\n[[site]]\nroot = "htdocs"\n\n'
    configuration += "".join(column.routes() for column in columns)
    files = script_files() | {"htdocs/target.txt": "the target\n", "htdocs/file.txt": "a file\n"}
    server = testing.Server(configuration, files)
    try:
        if any(column.file == "probe" for column in columns):
            compile_c(server.path("scripts/probe"))
        for column in columns:
            os.makedirs(server.path("events", column.name, "tmp"))
            column.gate = server.fifo(f"events/{column.name}/gate")
            column.event = server.fifo(f"events/{column.name}/event")
    except BaseException:
        server.kill()
        raise
    return server


def temporary_files(server, column):
    """The temporary files of a column, without those that PHP leaves behind when it is killed."""
    return [name for name in os.listdir(server.path("events", column.name, "tmp")) if not name.startswith("php")]


def script_files():
    """The scripts and php.ini, for the directory of a server."""
    files = {"php/php.ini": PHP_INI}
    for directory in ("scripts", "apps/python", "apps/perl", "apps/php"):
        for name in os.listdir(os.path.join(HERE, directory)):
            if not name.endswith(".c") and not name.startswith("__"):
                with open(os.path.join(HERE, directory, name), "rb") as file:
                    files[f"{directory}/{name}"] = file.read()
    return files


def compile_c(program, source="probe.c"):
    """Compiles a script in C of `scripts` on libsluice."""
    sdk = os.path.join(testing.CHECKOUT, "sdk/c")
    source = os.path.join(HERE, "scripts", source)
    subprocess.run(
        ["cc", "-O1", "-Wall", "-Werror", "-I", f"{sdk}/include", source, f"{sdk}/build/libsluice.a", "-o", program], check=True
    )


def available(words=()):
    """The columns that can run here, those whose names contain one of these words."""
    found = []
    for column in COLUMNS:
        if column.absent or words and not any(word in column.name for word in words):
            continue
        missing = column.missing()
        if not missing:
            found.append(column)
        elif os.environ.get("SLUICE_TEST_REQUIRE_ALL") == "1":
            raise SystemExit(f"{column.name}: missing: {missing}")
        else:
            print(f"without {column.name}: missing: {missing}")
    return found
