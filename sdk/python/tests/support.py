"""The base of the tests of the Python engine: a server with a directory of scripts, run by the engine."""

import os
import sys
import textwrap

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
import testing  # noqa: E402

# The system's Python has the applications' packages. SLUICE_TEST_PYTHON: a directory with another python3.
PATH = os.pathsep.join([os.environ.get("SLUICE_TEST_PYTHON", "/usr/bin"), "/usr/bin", "/bin", os.environ["PATH"]])

CONFIGURATION = """
    [server]
    sdk = "@SDK@"
    [[site]]
    root = "htdocs"
      [[site.route]]
      path = "/rte/*"
      script = {{ directory = "scripts", mode = "rte", engine = "python", processes = 1, environment = {{ TMPDIR = "@TMP@" }}{more} }}
      [[site.route]]
      path = "/cgi/*"
      script = {{ directory = "scripts", mode = "cgi", environment = {{ TMPDIR = "@TMP@" }} }}
"""


class EngineCase(testing.ServerCase):
    """One process of the engine runs all scripts of a test class. `run_script` writes one and requests it."""

    more = ""  # further keys of the route
    environment = {"PATH": PATH}
    files = {"scripts/script.cgi": ""}

    @classmethod
    def setUpClass(cls):
        cls.configuration = CONFIGURATION.format(more=cls.more)
        super().setUpClass()

    def script(self, source, name="script.cgi"):
        """Writes a script; its path below /rte and /cgi."""
        self.server.write(f"scripts/{name}", "#!/usr/bin/env python3\n" + textwrap.dedent(source))
        return name

    def run_script(self, source, name="script.cgi", query="", body=None, headers=(), mode="rte"):
        """The response of a script that is written for it."""
        path = f"/{mode}/{self.script(source, name)}{query}"
        return self.server.request("GET" if body is None else "POST", path, headers, body)

    def output(self, source, **arguments):
        """The body of the response of a script that prints it only: the head is added."""
        got = self.run_script("print('Content-Type: text/plain\\n')\n" + textwrap.dedent(source), **arguments)
        self.assertEqual((got.status, got.is_complete), (200, True), got)
        return got.text

    def assert_as_cgi(self, source, **arguments):
        """Runs a script twice by the engine and once as CGI: the responses are the same. Returns it."""
        responses = [self.run_script(source, mode=mode, **arguments) for mode in ("rte", "cgi", "rte")]
        shown = [(got.status, got.is_complete, got.field("Content-Type"), got.body) for got in responses]
        self.assertEqual(shown[0], shown[1])
        self.assertEqual(shown[2], shown[1])
        return responses[0]


def pid_script(text="print(os.getpid())"):
    return "import os\n" + text
