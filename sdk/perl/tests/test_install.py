"""`make install` puts the engine where the server looks for it, with its native part."""

import os
import subprocess
import tempfile
import unittest

from common import testing


class Install(unittest.TestCase):
    def test_installed_engine(self):
        with tempfile.TemporaryDirectory() as directory:
            place = os.path.join(testing.CHECKOUT, "sdk/perl")
            environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
            subprocess.run(["make", "-s", "-C", place, "install", f"DESTDIR={directory}", "PREFIX=/usr"], check=True, capture_output=True, env=environment)
            configuration = f"""
                [server]
                sdk = "{directory}/usr/lib/sluice"
                [[site]]
                root = "htdocs"
                  [[site.route]]
                  path = "/rte/*"
                  script = {{ directory = "scripts", mode = "rte", engine = "perl" }}
            """
            script = '#!/usr/bin/perl\nuse Sluice; Sluice::accept(); Sluice::respond("text/plain"); print $INC{"Sluice.pm"}, " ", defined &Sluice::Native::ring_write ? 1 : 0;'
            with testing.Server(configuration, {"scripts/where.pl": script}) as server:
                self.assertEqual(server.get("/rte/where.pl").text, f"{directory}/usr/lib/sluice/perl/lib/Sluice.pm 1")


if __name__ == "__main__":
    unittest.main()
