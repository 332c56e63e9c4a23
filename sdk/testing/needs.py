"""What a test needs beside the standard library. A missing thing skips the test, or fails it with SLUICE_TEST_REQUIRE_ALL=1."""

import importlib
import os
import shutil
import subprocess
import unittest


def missing(text):
    """Skips the test with this message; fails it where everything is required."""
    if os.environ.get("SLUICE_TEST_REQUIRE_ALL") == "1":
        raise AssertionError(f"missing: {text}")
    raise unittest.SkipTest(f"missing: {text}")


def need(module):
    """Needs a Python module; returns it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        missing(f"Python module {module} ({error})")


def need_program(name):
    """Needs a program; returns its path."""
    path = shutil.which(name) or shutil.which(name, path="/usr/local/sbin:/usr/sbin:/sbin")
    return path or missing(f"program {name}")


def need_perl(module):
    """Needs a module of Perl."""
    perl = need_program("perl")
    if subprocess.run([perl, f"-M{module}", "-e", "1"], stderr=subprocess.DEVNULL).returncode != 0:
        missing(f"Perl module {module}")


def need_file(path):
    """Needs a file or directory, such as /usr/share/gitweb/gitweb.cgi; returns its path."""
    return path if os.path.exists(path) else missing(f"file {path}")
