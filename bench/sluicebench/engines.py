"""The tables `engines`: run-time environments beside CGI, CGIplus, and what people use for each language.

Here: their rows and columns, as data. Not here: the applications (servers/applications.py, bench/engines), the peers
(servers/peers.py), the target ratios (aims.py)."""

from __future__ import annotations

from collections.abc import Iterable

from .servers.applications import body_of
from .tables import KIB, Column, Row, Table

GROUP = "engines"
CLIENTS = (1, 10, 64)

#: The longest measurement of a slow column, seconds (Run.window).
SECONDS_MOST = 6.0

#: Assumed requests per second of plain CGI, of pages of a framework by CGI, and of uploads, for the estimate of the time.
SLOW_RATE, SLOW_PAGE_RATE, UPLOAD_RATE = 60.0, 10.0, 150.0

#: Peers that run the application in the process that speaks HTTP with the client, or in threads of one; all others isolate it in
#: processes of their own.
IN_PROCESS = ("granian", "granian-nginx", "waitress", "waitress-nginx", "mod-perl", "mod-perl-psgi", "mod-php")


def slow(key: str, label: str, way: str, against: str) -> Column:
    return Column(key, label, "sluice", way, against, rate=SLOW_RATE)


PYTHON_COLUMNS = (
    Column("rte", "Sluice RTE, script", "sluice", "python-rte"),
    Column("wsgi", "Sluice RTE, WSGI", "sluice", "python-wsgi"),
    Column("cgiplus", "Sluice CGIplus", "sluice", "python-cgiplus", "rte"),
    slow("cgi", "Sluice CGI", "python-cgi", "rte"),
    Column("gunicorn", "gunicorn", "gunicorn", "python-wsgi", "wsgi", keep_alive=False),
    Column("gunicorn-nginx", "nginx→gunicorn", "gunicorn-nginx", "python-wsgi", "wsgi"),
    Column("uwsgi", "uWSGI", "uwsgi", "python-wsgi", "wsgi"),
    Column("uwsgi-nginx", "nginx→uWSGI", "uwsgi-nginx", "python-wsgi", "wsgi"),
    Column("granian", "Granian", "granian", "python-wsgi", "wsgi"),
    Column("granian-nginx", "nginx→Granian", "granian-nginx", "python-wsgi", "wsgi"),
    Column("waitress", "waitress", "waitress", "python-wsgi", "wsgi"),
    Column("waitress-nginx", "nginx→waitress", "waitress-nginx", "python-wsgi", "wsgi"),
)

PERL_COLUMNS = (
    Column("rte", "Sluice RTE, script", "sluice", "perl-rte"),
    Column("psgi", "Sluice RTE, PSGI", "sluice", "perl-psgi"),
    Column("cgiplus", "Sluice CGIplus", "sluice", "perl-cgiplus", "rte"),
    slow("cgi", "Sluice CGI", "perl-cgi", "rte"),
    Column("mod-perl", "mod_perl, Registry", "mod_perl", "perl-registry", "rte"),
    Column("mod-perl-psgi", "mod_perl, PSGI", "mod_perl", "perl-psgi", "psgi"),
    Column("starman", "Starman", "starman", "perl-psgi", "psgi", keep_alive=False),
    Column("starman-nginx", "nginx→Starman", "starman-nginx", "perl-psgi", "psgi"),
)

PHP_COLUMNS = (
    Column("rte", "Sluice RTE", "sluice", "php-rte"),
    Column("worker", "Sluice RTE, worker mode", "sluice", "php-worker", "rte"),
    Column("cgiplus", "Sluice CGIplus", "sluice", "php-cgiplus", "rte"),
    slow("cgi", "Sluice CGI", "php-cgi", "rte"),
    Column("fpm-nginx", "nginx→php-fpm", "php-fpm-nginx", "php-script", "rte"),
    Column("mod-php", "mod_php", "mod_php", "php-script", "rte"),
)

#: Per language: our form of the script, that of the framework's interface (the same one in PHP), plain CGI.
INTERFACES = {"python": ("rte", "wsgi"), "perl": ("rte", "psgi"), "php": ("rte", "rte")}
COLUMNS = {"python": PYTHON_COLUMNS, "perl": PERL_COLUMNS, "php": PHP_COLUMNS}


def fork_columns() -> Iterable[Column]:
    for language, name in (("python", "Python"), ("perl", "Perl"), ("php", "PHP")):
        fork = f"{language}-fork"
        yield Column(fork, f"{name}, fork mode", "sluice", fork)
        yield slow(f"{language}-cgi", f"{name}, CGI", f"{language}-cgi", fork)
        yield Column(f"{language}-rte", f"{name}, RTE without fork", "sluice", f"{language}-rte", fork)


def buffer_columns() -> Iterable[Column]:
    for language, name in (("python", "Python"), ("perl", "Perl"), ("php", "PHP")):
        ours = f"{language}-buffer"
        yield Column(ours, f"{name}, memory buffer", "sluice", f"{language}-rte", channel="b")
        yield Column(f"{language}-mailbox", f"{name}, mailbox", "sluice", f"{language}-rte", ours)
        yield Column(f"{language}-cgi", f"{name}, mailbox of CGI", "sluice", f"{language}-cgi", ours)


#: Kind of request → its label, bytes of the reply; "text" has its size in the key.
KINDS = (("0k", "0 kB", 0), ("64k", "64 kB", 64 * KIB), ("form", "form of 1 kB", 1), ("upload", "upload of 5 MB", 1))


def rows(language: str, page: str) -> Iterable[Row]:
    for key, label, size in (*KINDS, ("page", page, 1)):
        kind = "text" if key in ("0k", "64k") else key
        without = ["cgiplus"] if key == "page" or (language == "php" and key == "upload") else []
        for clients in CLIENTS:
            # A framework by CGI answers a few requests per second: 64 clients would wait for it, and nothing would be learnt.
            slow = ["cgi"] if key == "page" and clients == CLIENTS[-1] else []
            yield Row(
                f"{key}-c{clients}", f"{label}, c {clients}", clients, bytes=size, kind=kind,
                body=body_of(language, kind), without=(*without, *slow),
            )  # fmt: skip


def fork_rows() -> Iterable[Row]:
    for clients in (1, 10):
        yield Row(f"imports-c{clients}", f"heavy imports, c {clients}", clients, bytes=1, kind="imports")


WHAT = """\
The same work in each form: a reply of 0 and 64 kB, a form of 1 kB that is parsed, an upload of 5 MB that is read, and a page of
{page}; c concurrent clients, keep-alive. {forms}
Sluice and every peer have {processes} processes. {peers}"""
PROCESSES = "2 × processors + 1"

#: Above the table of processor time.
COSTS = """\
Processor time, µs, of the whole process tree: server, proxy and application, without the load tool. It is the steadier
figure on a machine that is not idle."""

LANGUAGE_TABLES = (
    ("python", "Python", "Flask", "a Flask page",
     "The script runs unchanged as CGI and RTE; the\nWSGI application is the same file under Sluice and the peers.",
     "waitress has as many threads in one\nprocess. gunicorn's sync worker ends each connection: alone it is measured with a connection for each request."),
    ("perl", "Perl", "Dancer2", "a Dancer2 page",
     "The script runs unchanged as CGI, RTE and\nunder ModPerl::Registry; the PSGI application is the same file under Sluice and the peers.",
     "Apache has one\nfor each client. Starman ends each connection, as its manual advises: alone it is measured with a connection for each request."),
    ("php", "PHP", "a front controller with classes and templates", "a page of classes and templates",
     "The same files everywhere, with\nDebian's settings and opcache.",
     "Apache has one for each\nclient. FrankenPHP is not among Debian's packages and not measured."),
)  # fmt: skip


def engine_tables() -> Iterable[Table]:
    for key, name, page, label, forms, peers in LANGUAGE_TABLES:
        yield Table(
            f"engines-{key}", f"Engines: {name}", WHAT.format(page=page, forms=forms, peers=peers, processes=PROCESSES),
            "applications", "requests/s", tuple(rows(key, label)), COLUMNS[key], rounds=5, seconds=0.4, group=GROUP,
        )  # fmt: skip
    yield Table(
        "engines-fork", "Engines: fork mode",
        "A script with heavy imports that does little: as CGI, in fork mode, and in the engine without a fork. Python and Perl import\n"
        "modules of their libraries; PHP requires 150 files with a class each.",
        "applications", "requests/s", tuple(fork_rows()), tuple(fork_columns()), rounds=5, seconds=0.6, group=GROUP,
    )  # fmt: skip
    yield Table(
        "engines-buffer", "Engines: memory buffer",
        "One transfer of 1 GiB by curl. A script writes blocks of 64 kB: to the memory buffer with the library of its language,\n"
        "and to the mailbox with what the language has for it (`sys.stdout.buffer.write`, `print`, `echo`).",
        "bulk", "MiB/s", (Row("1024-64k", "1 GiB in blocks of 64 kB", kind="bulk"),), tuple(buffer_columns()),
        rounds=5, seconds=0.5, megabytes=1024, group=GROUP,
    )  # fmt: skip


ENGINE_TABLES: tuple[Table, ...] = tuple(engine_tables())

#: The rows of --quick, and its rounds.
QUICK_ROUNDS = 3
QUICK_ROWS = {
    "engines-python": ("0k-c10", "page-c10"), "engines-perl": ("0k-c10", "page-c10"), "engines-php": ("0k-c10", "page-c10"),
    "engines-fork": ("imports-c10",), "engines-buffer": ("1024-64k",),
}  # fmt: skip

