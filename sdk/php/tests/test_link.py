"""The library that the engine is linked with: one version of PHP, whichever others are installed."""

import re
import subprocess
import unittest
from pathlib import Path

from support import ENGINE, testing


class Link(unittest.TestCase):
    def test_the_engine_needs_the_version_of_php_that_it_was_compiled_for(self):
        testing.need_file(ENGINE)
        versioned = {path.name for path in Path("/usr/lib").glob("libphp[0-9]*.[0-9]*.so")}
        if not versioned:
            self.skipTest("only Debian has one library for each version of PHP")
        dynamic = subprocess.run(["readelf", "-d", ENGINE], check=True, stdout=subprocess.PIPE, text=True).stdout
        needed = set(re.findall(r"\(NEEDED\).*\[(libphp.*)\]", dynamic))
        self.assertTrue(needed and needed <= versioned, f"{needed}, not of {versioned}")


if __name__ == "__main__":
    unittest.main()
