"""The applications of the tables `engines`: their forms, the requests, and the replies that are right.

Here: what each way of running answers at which path, the bodies of requests, the verification before measuring. Not here: how a
way is configured (the file of each server), the applications themselves (bench/engines), the workloads (sluicebench/engines.py).

For each language there is one implementation of the work (`work.py`, `Work.pm`, `work.php`) and several forms that call it: a script, a
CGIplus loop, an application of WSGI or PSGI. A second, small application uses a framework."""

import http.client
import os
import random
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Dict, List, Mapping, Tuple
from urllib.parse import quote_plus

from .host import child_environment

if TYPE_CHECKING:
    from .base import Server, Site

LANGUAGES = ("python", "perl", "php")
ENDINGS = {"python": ".py", "perl": ".pl", "php": ".php"}

# Bytes of the uploaded file, and its last ones, which the application sends back.
UPLOAD_BYTES, UPLOAD_END = 5_000_000, b"the end."
BOUNDARY = "sluice-bench-boundary"

# The path of the request of the framework's application.
PAGE = "app/list/tea?n=20"

RUN_SECONDS = 30.0

# Files of the PHP script with heavy imports, and methods in each.
PHP_CLASSES, PHP_METHODS = 150, 20


@dataclass(frozen=True)
class Body:
    """The body of a request: a file below `bodies`."""

    file: str
    content_type: str


FORM = Body("form.txt", "application/x-www-form-urlencoded")
UPLOAD = Body("upload.bin", "application/octet-stream")
# PHP's own way of receiving a file.
MULTIPART = Body("upload.form", f"multipart/form-data; boundary={BOUNDARY}")


@dataclass(frozen=True)
class Way:
    """A form of the application. `plain` and `page`: what follows the prefix of the route, for the work and for the page of the
    framework; None if this form does not have it."""

    language: str
    plain: str
    page: "str | None" = None
    upload: bool = True

    @property
    def ending(self) -> str:
        return ENDINGS[self.language]


def _ways() -> Dict[str, Way]:
    found = {}
    for language in LANGUAGES:
        ending = ENDINGS[language]
        page = f"{'front' if language == 'php' else 'site_cgi' if language == 'python' else 'site'}{ending}/{PAGE}"
        script = Way(language, f"script{ending}", page)
        found[f"{language}-cgi"] = found[f"{language}-rte"] = script
        # A CGIplus program has no form for frameworks; and PHP parses an upload only as a server's module or CGI.
        found[f"{language}-cgiplus"] = Way(language, f"loop{ending}", None, upload=language != "php")
    found["python-wsgi"] = Way("python", "plain", PAGE)
    found["perl-psgi"] = Way("perl", "plain", PAGE)
    found["perl-registry"] = found["perl-rte"]
    found["php-script"] = found["php-rte"]
    found["php-worker"] = Way("php", "plain", PAGE)
    for language in LANGUAGES:
        found[f"{language}-fork"] = Way(language, "")
    return found


# Way of running → its form.
WAYS: Mapping[str, Way] = _ways()


def path_of(way: str, kind: str, size: int = 0) -> str:
    """The path after the route's prefix for a request of this kind: "text" with `size` bytes, "form", "upload", "page",
    "imports", "bulk"."""
    form = WAYS[way]
    if kind in ("imports", "bulk"):
        return f"{kind}{form.ending}"
    if kind == "page":
        return form.page or ""
    return f"{form.plain}?{size}" if kind == "text" else form.plain


def body_of(language: str, kind: str) -> "Body | None":
    if kind == "upload":
        return MULTIPART if language == "php" else UPLOAD
    return FORM if kind == "form" else None


def kinds_of(way: str) -> List[str]:
    """The kinds of requests that a way answers."""
    form = WAYS[way]
    if way.endswith("-fork"):
        return ["imports"]
    kinds = ["text", "form", *(["upload"] if form.upload else []), *(["page"] if form.page else [])]
    return [*kinds, "imports"] if way.endswith(("-cgi", "-rte")) else kinds


# ---- content ----


def fill(source: Path, site: "Site") -> None:
    """Copies the applications and creates the bodies, for any user to read."""
    shutil.copytree(source, site.applications, ignore=shutil.ignore_patterns("__pycache__"))
    classes = site.applications / "php" / "classes"
    classes.mkdir()
    for number in range(PHP_CLASSES):
        (classes / f"Class{number}.php").write_text(php_class(number))
    for path in site.applications.rglob("*"):
        path.chmod(0o755 if path.is_dir() or path.suffix in (".py", ".pl") else 0o644)
    site.bodies.mkdir()
    (site.bodies / FORM.file).write_text(form_text())
    data = random.Random(UPLOAD_BYTES).randbytes(UPLOAD_BYTES - len(UPLOAD_END)) + UPLOAD_END
    (site.bodies / UPLOAD.file).write_bytes(data)
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\nContent-Type: {UPLOAD.content_type}\r\n\r\n'
    (site.bodies / MULTIPART.file).write_bytes(head.encode() + data + f"\r\n--{BOUNDARY}--\r\n".encode())
    # 5 MB are more than PHP accepts by default. Its other settings are Debian's.
    site.php_settings.mkdir()
    (site.php_settings / "uploads.ini").write_text("upload_max_filesize = 16M\npost_max_size = 16M\n")


def php_class(number: int) -> str:
    """A class for the script with heavy imports: PHP has no modules to import, so it loads as many files as a framework does."""
    methods = "\n".join(
        f"    public function method{at}(int $value): int\n    {{\n        $sum = {at};\n"
        f"        for ($step = 0; $step < {number}; $step++) {{\n            $sum += $step % {at + 1};\n        }}\n"
        f"        return $value + ($sum > {at * 100} ? {number} : 0);\n    }}\n"
        for at in range(PHP_METHODS)
    )
    return f"<?php\nfinal class Class{number}\n{{\n{methods}}}\n"


def form_text() -> str:
    """About 1 kB: twelve fields, some with letters that are not ASCII."""
    words = ("tea", "green & white", "Käse", "a+b=c", "two\nlines", "100 %")
    return "&".join(f"field{at}={quote_plus((words[at % len(words)] + ' ') * 8)}" for at in range(12))


# ---- verification ----


def verify_applications(servers: "List[Server]") -> Dict[Tuple[str, str], str]:
    """(server name, "way kind") → the reason why it must not be measured. Each kind of request goes to each way of each server;
    the reply must be the one of the script that is run as CGI, without a server."""
    faults: Dict[Tuple[str, str], str] = {}
    known: Dict[Tuple[str, str], bytes] = {}
    for server in servers:
        for way, prefix in server.routes().items():
            for kind in kinds_of(way) if way in WAYS else []:
                reason = _fault(server, way, prefix, kind, known)
                if reason:
                    faults[server.name, f"{way} {kind}"] = reason
    return faults


def _fault(server: "Server", way: str, prefix: str, kind: str, known: Dict[Tuple[str, str], bytes]) -> "str | None":
    language, path = WAYS[way].language, prefix + path_of(way, kind, 65536)
    try:
        if (language, kind) not in known:
            known[language, kind] = reply_by_hand(server.site, language, kind)
        expected = known[language, kind]
        # Twice: the second reply of a persistent process must be right, too.
        for _ in range(2):
            reply = server.request(path, body=_body(server.site, language, kind))
            if reply.status != 200:
                return f"{path}: status {reply.status}: {reply.body[-200:].decode(errors='replace')}"
            if reply.body.strip() != expected.strip():
                return f"{path}: {reply.body[:100]!r} instead of {expected[:100]!r}"
    except (OSError, http.client.HTTPException, subprocess.SubprocessError) as error:
        return f"{path}: {error.__class__.__name__}: {error}"
    return None


def _body(site: "Site", language: str, kind: str) -> "Tuple[bytes, str] | None":
    body = body_of(language, kind)
    return ((site.bodies / body.file).read_bytes(), body.content_type) if body else None


def interpreter_of(site: "Site", language: str) -> str:
    return {"python": str(site.python), "perl": "perl", "php": "php-cgi"}[language]


def reply_by_hand(site: "Site", language: str, kind: str) -> bytes:
    """The body that the script writes as CGI."""
    name, _, query = path_of(f"{language}-cgi", kind, 65536).partition("?")
    script, slash, rest = name.partition("/")
    file, body = site.applications / language / script, _body(site, language, kind)
    variables = {
        **child_environment(), "GATEWAY_INTERFACE": "CGI/1.1", "SERVER_PROTOCOL": "HTTP/1.1", "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "80", "REQUEST_METHOD": "POST" if body else "GET", "QUERY_STRING": query, "SCRIPT_NAME": f"/{script}",
        "SCRIPT_FILENAME": str(file), "PATH_INFO": slash + rest, "REQUEST_URI": f"/{name}", "REDIRECT_STATUS": "200",
        "PHP_INI_SCAN_DIR": f":{site.php_settings}",
    }  # fmt: skip
    if body:
        variables.update(CONTENT_TYPE=body[1], CONTENT_LENGTH=str(len(body[0])))
    # php-cgi takes the name of the script from SCRIPT_FILENAME.
    command = [interpreter_of(site, language), *([] if language == "php" else [str(file)])]
    done = subprocess.run(
        command, env=variables, input=body[0] if body else b"", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        timeout=RUN_SECONDS, check=False, cwd=file.parent,
    )  # fmt: skip
    head, empty, text = done.stdout.partition(b"\r\n\r\n")
    if done.returncode or not empty:
        raise OSError(f"{os.path.basename(script)} failed by itself: {done.stderr[-300:].decode(errors='replace')}")
    return text
