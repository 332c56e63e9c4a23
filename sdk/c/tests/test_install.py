"""`make install` into a DESTDIR, and programs in C, C++ and WASD's dialect that are built from there with pkg-config."""

import os
import subprocess
import tempfile
import unittest

import server

SDK_C = os.path.dirname(server.HERE)

PROGRAM = r"""
#include <cstdio>
#include "sluice.h"
#include "sluice_ring.h"

int main()
{
    while (sluice_accept()) {
        sluice_respond("text/plain");
        sluice_upload_limit(1);
        if (sluice_parameter("name")) std::printf("%s", sluice_escape_html(sluice_parameter("name")));
    }
    const struct sluice_upload *none = sluice_upload("none");
    return none != nullptr;
}
"""


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.directory.cleanup)
        cls.destination = cls.directory.name + "/destination"
        cls.install("/usr/local")

    @classmethod
    def install(cls, prefix, *variables):
        # Without the variables of the make that runs this test.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name != "MFLAGS"}
        subprocess.run(["make", "-s", "-C", SDK_C, "install", f"DESTDIR={cls.destination}", f"PREFIX={prefix}", *variables], check=True, env=environment)

    def path(self, name):
        return f"{self.destination}/{name}"

    def run_tool(self, *command, library="/usr/local/lib"):
        environment = os.environ | {"PKG_CONFIG_LIBDIR": self.path(f"{library}/pkgconfig"), "PKG_CONFIG_SYSROOT_DIR": self.destination}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), command)
        return done.stdout

    def flags(self, package, *options):
        return self.run_tool("pkg-config", "--cflags", "--libs", *options, package).split()

    def run_program(self, program, **variables):
        environment = {"LD_LIBRARY_PATH": self.path("usr/local/lib")} | variables
        return subprocess.run([program], env=environment, capture_output=True, text=True, check=True).stdout

    def test_a_cpp_program_is_compiled_and_linked_by_pkg_config(self):
        source, program = self.path("a.cpp"), self.path("a")
        with open(source, "w", encoding="ascii") as file:
            file.write(PROGRAM)
        self.run_tool("c++", "-std=c++11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-o", program, source, *self.flags("sluice"))
        self.assertIn("libsluice.so.1", self.run_tool("ldd", program))
        self.assertEqual(self.run_program(program, QUERY_STRING="name=%3Ca%3E"), "Content-Type: text/plain\n\n&lt;a&gt;")

    def test_the_c_examples_compile_as_strict_c(self):
        for name in ("hello", "form", "counter", "download", "events"):
            self.run_tool("cc", "-std=c11", "-D_DEFAULT_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-o", self.path(name), f"{SDK_C}/examples/{name}.c", *self.flags("sluice"))
        self.assertIn("Hello, 192.0.2.1.", self.run_program(self.path("hello"), REMOTE_ADDR="192.0.2.1"))

    def test_a_wasd_source_is_compiled_by_pkg_config(self):
        program = self.path("wasd")
        self.run_tool("cc", "-std=gnu89", "-o", program, f"{server.HERE}/wasd_cgilib.c", *self.flags("sluice-wasd"))
        self.assertIn("1 b nothing", self.run_program(program, SERVER_NAME="b"))

    def test_the_libraries_have_the_usual_names(self):
        library = self.path("usr/local/lib")
        self.assertEqual(os.readlink(f"{library}/libsluice.so"), "libsluice.so.1")
        self.assertEqual(os.readlink(f"{library}/libsluice.so.1"), "libsluice.so.1.0.0")
        self.assertTrue(os.path.samefile(f"{library}/sluice/c/libsluice.so", f"{library}/libsluice.so.1.0.0"))
        self.assertEqual(self.run_tool("pkg-config", "--modversion", "sluice"), "1.0.0\n")
        for directory, _, names in os.walk(self.destination):
            for name in (names if "/include" in directory or "/lib" in directory else []):
                if os.path.islink(f"{directory}/{name}"):
                    continue
                mode = os.stat(f"{directory}/{name}").st_mode
                self.assertFalse(mode & 0o022, f"{directory}/{name} is writable by others")

    def test_another_library_directory(self):
        self.install("/opt/sluice", "LIBDIR=/opt/sluice/lib64")
        self.assertIn("-L" + self.path("opt/sluice/lib64"), self.run_tool("pkg-config", "--libs", "sluice", library="/opt/sluice/lib64"))
        self.assertEqual(os.readlink(self.path("opt/sluice/lib/sluice/c/libsluice.so")), "/opt/sluice/lib64/libsluice.so.1")

    def test_only_names_of_the_library_are_exported(self):
        names = [line.split()[-1] for line in self.run_tool("nm", "-D", "--defined-only", self.path("usr/local/lib/libsluice.so")).splitlines()]
        self.assertEqual([name for name in names if not name.startswith(("sluice_", "CgiLib", "MemBufLib"))], [])


if __name__ == "__main__":
    unittest.main()
