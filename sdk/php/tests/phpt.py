"""Runs tests of php-src (.phpt) as web requests: under this engine behind a real server, and under php-cgi for comparison.

    python3 -B sdk/php/tests/phpt.py [--all] [--show] DIRECTORY-OR-FILE...

Run it on a copy of the sources of PHP, as root or as its owner, because it writes each script beside its test. It runs the tests that describe a
request (GET, POST, POST_RAW, PUT, COOKIE, CGI, EXPECTHEADERS …), with --all also those that only have a script. --show prints what each
failure in this engine alone has sent. The exit status is 1 if a test fails here and passes under php-cgi.

run-tests.php of php-src can test a command only. Tests with ARGS, STDIN, PHPDBG and REDIRECTTEST, which are for a command, are left out."""

import argparse
import collections
import glob
import gzip
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.parse
import zlib

from support import SERVER, testing

REQUEST = {"GET", "POST", "POST_RAW", "PUT", "COOKIE", "GZIP_POST", "DEFLATE_POST", "CGI", "EXPECTHEADERS"}
COMMAND = {"ARGS", "STDIN", "PHPDBG", "REDIRECTTEST"}
SECONDS_MAX = 60
BLANKS = " \t\n\r\0\v"  # what trim() of PHP removes
SITE = '[[site]]\nroot = "htdocs"\n[[site.route]]\npath = "/*"\nscript = { directory = %s, mode = "rte", engine = "php", environment = { %s } }\n'
# The settings that run-tests.php gives every test.
SETTINGS = (
    "output_buffering=Off error_reporting=32767 display_errors=1 display_startup_errors=1 log_errors=0 html_errors=0 precision=14 serialize_precision=-1 "
    "opcache.file_update_protection=0 opcache.revalidate_freq=0 zend.assertions=1 zend.exception_ignore_args=0 short_open_tag=0 session.auto_start=0 variables_order=EGPCS"
)


class Test:
    """A .phpt file: its sections, and the request that they describe."""

    def __init__(self, path):
        self.path, self.script = path, path[: -len(".phpt")] + ".php"
        parts = re.split(r"^--([A-Z_]+)--[ \t]*\r?\n", pathlib.Path(path).read_bytes().decode("latin-1"), flags=re.M)
        self.sections = dict(zip(parts[1::2], parts[2::2]))
        for name in [name for name in self.sections if name.endswith("_EXTERNAL")]:
            file = pathlib.Path(path).parent / self.sections[name].strip()
            self.sections[name.removesuffix("_EXTERNAL")] = file.read_bytes().decode("latin-1")
        lines = self.sections.get("ENV", "").replace("\r", "").splitlines()
        self.variables = dict(line.split("=", 1) for line in lines if "=" in line)
        self.query = self.sections.get("GET", "").strip() or self.variables.get("QUERY_STRING", "")
        # A client encodes what no URL may contain, and sends a field on one line.
        self.query = urllib.parse.quote(self.query, safe="%&=+;,:@/?!$'()*~[]", encoding="latin-1")
        if cookie := re.sub(r"\s*\n\s*", " ", self.sections.get("COOKIE", "").strip()):
            self.variables["HTTP_COOKIE"] = cookie
        self.method, self.type, self.body = "GET", None, None
        for name, pack in (("POST", bytes), ("GZIP_POST", gzip.compress), ("DEFLATE_POST", zlib.compress)):
            if name in self.sections:
                self.method, self.type = "POST", "application/x-www-form-urlencoded"
                self.body = pack(self.sections[name].strip().encode("latin-1"))
                if name != "POST":
                    self.variables["HTTP_CONTENT_ENCODING"] = name.removesuffix("_POST").lower()
        for name in ("POST_RAW", "PUT"):
            if name in self.sections:
                self.method, lines = name[:4], self.sections[name].strip().split("\n")
                at = next((at for at, line in enumerate(lines) if line.lower().startswith("content-type:")), None)
                self.type = lines.pop(at)[13:].strip() if at is not None else None
                self.body = "\n".join(lines).encode("latin-1")
        self.method = self.variables.get("REQUEST_METHOD", self.method)

    def settings(self):
        """The text of php.ini. php -d puts quotes around a value that begins with another character than a letter or digit."""
        lines = SETTINGS.split()
        for line in self.sections.get("INI", "").replace("\r", "").splitlines():
            name, equals, value = line.replace("{PWD}", os.path.dirname(self.path)).replace("{TMP}", "/tmp").partition("=")
            value = value.strip()
            if equals:
                lines.append(f"{name.strip()}={value}" if re.match(r"[\w\"']|$", value) else f'{name.strip()}="{value}"')
        return "\n".join(lines) + "\n"

    def matches(self, output):
        name = next(name for name in ("EXPECT", "EXPECTF", "EXPECTREGEX") if name in self.sections)
        wanted, output = (text.replace("\r\n", "\n").strip(BLANKS) for text in (self.sections[name], output))
        if name == "EXPECT":
            return wanted == output
        return re.fullmatch(pattern(wanted) if name == "EXPECTF" else wanted, output, re.S) is not None

    def has_headers(self, fields):
        """Of the status it is the number that counts: a server may have other words for it."""
        wanted = (line.split(":", 1) for line in self.sections.get("EXPECTHEADERS", "").splitlines() if ":" in line)
        plain = [{(name.strip().lower(), re.sub(r"^(\d{3}) .*", r"\1", value.strip())) for name, value in some} for some in (wanted, fields)]
        return plain[0] <= plain[1]


def pattern(text):
    """The regular expression for an EXPECTF section."""
    codes = {"e": "/", "s": r"[^\r\n]+", "S": r"[^\r\n]*", "a": ".+?", "A": ".*?", "w": r"\s*", "i": r"[+-]?\d+", "d": r"\d+"}
    codes |= {"x": "[0-9a-fA-F]+", "f": r"[+-]?(?:\d+|(?=\.\d))(?:\.\d+)?(?:[Ee][+-]?\d+)?", "c": ".", "0": "\0"}
    parts = re.split(r"%r(.*?)%r", text, flags=re.S)
    for at in range(0, len(parts), 2):
        parts[at] = re.sub(r"%([esSaAwidxfc0])", lambda match: codes[match[1]], re.escape(parts[at]).replace(r"\%", "%"))
    return "".join(part if at % 2 == 0 else f"(?:{part})" for at, part in enumerate(parts))


def run_cgi(directory, test, script=None):
    """Runs a script under php-cgi; the fields of its head, and its output."""
    environment = {"PATH": os.environ["PATH"], "PHPRC": directory, "REDIRECT_STATUS": "1", "GATEWAY_INTERFACE": "CGI/1.1"}
    environment |= {"REQUEST_METHOD": "GET", "SCRIPT_FILENAME": script or test.script, "PATH_TRANSLATED": script or test.script}
    if not script:
        environment |= {"REQUEST_METHOD": test.method, "QUERY_STRING": test.query}
        if test.body is not None:
            environment |= {"CONTENT_LENGTH": str(len(test.body)), "CONTENT_TYPE": test.type or ""}
        environment |= test.variables
    environment = {name: value.encode("latin-1") for name, value in environment.items()}
    more = {"cwd": os.path.dirname(test.path), "input": test.body or b"", "capture_output": True, "timeout": SECONDS_MAX}
    got = subprocess.run(["php-cgi"], env=environment, **more)
    head, _, body = got.stdout.decode("latin-1").partition("\r\n\r\n")
    return [tuple(line.split(":", 1)) for line in head.split("\r\n") if ":" in line], body


def run_engine(directory, test):
    """Runs the script under the engine, behind a server of its own; the fields of its head, its output, and the server's log."""
    environment, headers = {"PHPRC": directory}, {}
    for name, value in test.variables.items():
        if name.startswith("HTTP_"):
            headers[name[5:].replace("_", "-").title()] = value.encode("latin-1").decode("utf-8", "surrogateescape")
        elif name not in ("SCRIPT_NAME", "REQUEST_URI", "PATH_INFO", "QUERY_STRING", "REQUEST_METHOD", "CONTENT_LENGTH", "CONTENT_TYPE"):
            environment[name] = value
    if test.type:
        headers["Content-Type"] = test.type
    pairs = ", ".join(f"{json.dumps(name)} = {json.dumps(value)}" for name, value in environment.items())
    path = test.variables.get("REQUEST_URI", "").partition("?")[0] or "/" + os.path.basename(test.script) + test.variables.get("PATH_INFO", "")
    server = testing.Server(SERVER + SITE % (json.dumps(os.path.dirname(test.path)), pairs))
    try:
        got = server.request(test.method, path + (f"?{test.query}" if test.query else ""), headers, test.body)
        return [("Status", f"{got.status} {got.reason}"), *got.fields], got.body.decode("latin-1"), server.log()
    finally:
        server.kill()


def reason_to_skip(test, extensions, directory):
    sections = test.sections
    missing = {name.lower() for name in sections.get("EXTENSIONS", "").split()} - extensions
    if not {"EXPECT", "EXPECTF", "EXPECTREGEX"} & sections.keys() or not {"FILE", "FILEEOF"} & sections.keys() or COMMAND & sections.keys():
        return "a test of a command"
    if missing or "XFAIL" in sections:
        return f"extensions that are not installed: {' '.join(missing)}" if missing else "PHP is known to fail it"
    pathlib.Path(test.script).write_bytes(sections.get("SKIPIF", "").encode("latin-1"))
    output = run_cgi(directory, test, test.script)[1].strip() if "SKIPIF" in sections else ""
    return output if output.lower().startswith("skip") else None


def run(test, extensions):
    """The outcome of a test, and what the engine has sent."""
    got, script = {}, pathlib.Path(test.script)
    with tempfile.TemporaryDirectory(prefix="phpt-") as directory:
        pathlib.Path(directory, "php.ini").write_bytes(test.settings().encode("latin-1"))
        try:
            if reason := reason_to_skip(test, extensions, directory):
                return "skipped", reason
            for name, under in (("php-cgi", run_cgi), ("engine", run_engine)):
                script.write_bytes((test.sections.get("FILE") or test.sections["FILEEOF"].rstrip("\r\n")).encode("latin-1"))
                try:
                    fields, output, *log = under(directory, test)
                    got[name] = test.matches(output) and test.has_headers(fields), f"{fields}\n{output}\n{''.join(log)}"
                except (ConnectionError, TimeoutError, subprocess.TimeoutExpired) as error:
                    got[name] = False, repr(error)
                if "CLEAN" in test.sections:
                    script.write_bytes(test.sections["CLEAN"].encode("latin-1"))
                    run_cgi(directory, test, test.script)
        finally:
            script.unlink(missing_ok=True)
    (by_cgi, _), (by_engine, text) = got["php-cgi"], got["engine"]
    return (("failed in both", "failed under php-cgi"), ("failed here", "passed"))[by_cgi][by_engine], text


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="also tests that only have a script")
    parser.add_argument("--show", action="store_true", help="what the engine has sent for the tests that fail here")
    parser.add_argument("paths", nargs="+")
    given = parser.parse_args()
    extensions = {line.lower() for line in subprocess.run(["php-cgi", "-m"], capture_output=True, text=True, check=True).stdout.split()}
    outcomes = []
    for path in given.paths:
        found = [path] if path.endswith(".phpt") else sorted(glob.glob(os.path.join(path, "**/*.phpt"), recursive=True))
        for test in map(Test, map(os.path.abspath, found)):
            if given.all or REQUEST & test.sections.keys():
                outcome, text = run(test, extensions)
                outcomes.append(outcome)
                if outcome != "passed":
                    print(f"{outcome}: {test.path}" + (f"\n{text}" if given.show and outcome == "failed here" else ""), flush=True)
    for name, count in sorted(collections.Counter(outcomes).items()):
        print(f"{name}: {count}")
    return "failed here" in outcomes


if __name__ == "__main__":
    sys.exit(main())
