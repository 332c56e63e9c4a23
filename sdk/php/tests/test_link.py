"""The library that the engine is linked with: one version of PHP, whichever others are installed, and with every function that the engine needs."""

import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from support import ENGINE, configuration, testing

ROUTES = """
  [[site.route]]
  path = "/rte/*"
  script = { directory = "rte", mode = "rte", engine = "php", environment = { LD_LIBRARY_PATH = "@DIR@/old" } }

  [[site.route]]
  path = "/started/*"
  script = { directory = "rte", mode = "rte", engine = "php", min = 1, max = 1, environment = { LD_LIBRARY_PATH = "@DIR@/old" } }
"""
DIRECTORY = os.path.dirname(os.path.dirname(ENGINE))
# A function that the engine calls for a request, and not at its start.
MISSING, OTHER = b"php_handle_auth_data", b"php_handle_auth_none"


def library():
    """The library of PHP that the dynamic linker loads for the engine."""
    shown = subprocess.run(["ldd", ENGINE], check=True, stdout=subprocess.PIPE, text=True).stdout
    return Path(re.search(r"libphp\S* => (/\S+)", shown).group(1))


class Link(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        testing.need_file(ENGINE)

    def dynamic(self):
        return subprocess.run(["readelf", "-dW", ENGINE], check=True, stdout=subprocess.PIPE, text=True).stdout

    def test_the_engine_needs_the_version_of_php_that_it_was_compiled_for(self):
        versioned = {path.name for path in Path("/usr/lib").glob("libphp[0-9]*.[0-9]*.so")}
        if not versioned:
            self.skipTest("only Debian has one library for each version of PHP")
        needed = set(re.findall(r"\(NEEDED\).*\[(libphp.*)\]", self.dynamic()))
        self.assertTrue(needed and needed <= versioned, f"{needed}, not of {versioned}")

    def test_the_dynamic_linker_looks_for_all_functions_at_the_start(self):
        self.assertRegex(self.dynamic(), r"\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*\bNOW\b")

    def test_with_a_library_that_lacks_a_function_the_engine_does_not_start_and_the_log_says_what_to_do(self):
        installed = library()
        content = installed.read_bytes()
        self.assertIn(b"\0" + MISSING + b"\0", content)
        content = content.replace(b"\0" + MISSING + b"\0", b"\0" + OTHER + b"\0")
        files = {f"old/{installed.name}": content, "rte/hello.php": "hello"}
        undefined = f"symbol lookup error: {ENGINE}: undefined symbol: {MISSING.decode()}"
        with testing.Server(configuration(ROUTES), files) as server:
            # The process that is started before there is a request.
            server.log_line(undefined)
            server.log_line("end of the process: exit code 127: the libphp that is installed is older")
            start = server.log_position()
            self.assertEqual(server.get("/rte/hello.php").status, 502)
            line = server.log_line("GET /rte/hello.php: ", start)
            for text in ("exit code 127", undefined, "apt install --only-upgrade 'libphp*-embed'", "make sdk"):
                self.assertIn(text, line)

    def test_the_engine_is_built_again_for_another_php(self):
        built = Path(DIRECTORY, "build/php").read_text()
        with tempfile.TemporaryDirectory() as directory:
            config = Path(directory, "php-config")
            version = re.match(r"\d+\.\d+", built).group()
            config.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo {version}.999 || exec php-config "$@"\n')
            config.chmod(0o755)
            commands = [self.commands_of_make(), self.commands_of_make(f"PHP_CONFIG={config}")]
        self.assertEqual([" -o build/main.o " in text for text in commands], [False, True], commands)
        self.assertEqual(Path(DIRECTORY, "build/php").read_text(), built)

    def commands_of_make(self, *variables):
        """What `make` would do."""
        make = ["make", "-n", "--no-print-directory", "-C", DIRECTORY, *variables]
        return subprocess.run(make, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    unittest.main()
