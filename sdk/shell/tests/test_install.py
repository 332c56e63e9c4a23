"""`make install`: the shell library runs from where it is installed, and the whole installation has the layout that the server expects."""

import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

SHELL = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(SHELL, ".."))
import testing  # noqa: E402

# Without the variables of the make that runs this test.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name not in ("MFLAGS", "PREFIX", "DESTDIR", "SLUICE_SHELL")}


def install(directory, *variables):
    subprocess.run(["make", "-s", "-C", directory, "install", *variables], check=True, env=ENVIRONMENT, stdout=subprocess.DEVNULL)


class Install(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def files(self, below):
        return {os.path.relpath(f"{directory}/{name}", below) for directory, _, names in os.walk(below) for name in names}

    def test_the_library_and_its_examples_run_from_their_prefix(self):
        install(SHELL, f"PREFIX={self.directory}")
        library = f"{self.directory}/lib/sluice/shell"
        self.assertEqual(self.files(library), {"sluice.sh", "sluice-form", *(f"examples/{name}" for name in os.listdir(f"{SHELL}/examples"))})
        body = b'--b\r\nContent-Disposition: form-data; name="name"\r\n\r\nvalue\r\n--b--\r\n'
        variables = {"REQUEST_METHOD": "POST", "CONTENT_TYPE": "multipart/form-data; boundary=b", "CONTENT_LENGTH": str(len(body))}
        done = subprocess.run([f"{library}/examples/form.sh"], input=body, capture_output=True, env={"PATH": os.environ["PATH"]} | variables, check=True)
        self.assertIn(b"<dt>name=value\n", done.stdout)
        self.assertEqual(done.stderr, b"")

    def test_a_destdir_is_not_a_part_of_the_installed_paths(self):
        install(SHELL, f"DESTDIR={self.directory}", "PREFIX=/usr")
        for directory, _, names in os.walk(self.directory):
            for name in names:
                with open(f"{directory}/{name}", "rb") as file:
                    self.assertNotIn(self.directory.encode(), file.read(), name)
        with open(f"{self.directory}/usr/lib/sluice/shell/sluice.sh", encoding="utf-8") as file:
            self.assertIn('"${SLUICE_SHELL:=/usr/lib/sluice/shell}"', file.read())

    def test_the_installed_server_finds_what_is_installed_beside_it(self):
        install(testing.CHECKOUT, f"PREFIX={self.directory}", f"SLUICE={testing.binary()}")
        files = self.files(self.directory)
        for name in ("bin/sluice", "lib/libsluice.so.1.0.0", "lib/sluice/shell/sluice.sh", "lib/sluice/lua/engine.lua", "lib/sluice/python/engine.py", "lib/sluice/perl/engine.pl", "include/sluice.h"):
            self.assertIn(name, files)
        self.assertTrue(os.path.exists(f"{self.directory}/lib/sluice/c/libsluice.so"))
        done = subprocess.run([f"{self.directory}/bin/sluice", "--version"], capture_output=True, text=True, check=True)
        self.assertIn("sluice", done.stdout)
        scripts = {"site/rte/a.py": "print('Content-Type: text/plain\\n\\nhello')", "site/rte/a.pl": 'print "Content-Type: text/plain\\n\\nhello\\n"'}
        with unittest.mock.patch.dict(os.environ, SLUICE=f"{self.directory}/bin/sluice"):
            with testing.Server(files=scripts, arguments=("serve", "@DIR@/site", "--listen", "127.0.0.1:0")) as server:
                self.assertEqual([server.get(f"/rte/{name}").text for name in ("a.py", "a.pl")], ["hello\n"] * 2)


if __name__ == "__main__":
    unittest.main()
