"""What the tests of the Perl engine share: a server with routes that run the same scripts under RTE and CGI."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
import testing  # noqa: E402

# The same directory by two routes. One process at most, so that each request meets what the one before has left.
ROUTES = """
    [server]
    sdk = "@SDK@"
    [[site]]
    root = "htdocs"
    error_detail = "local"
      [[site.route]]
      path = "/rte/*"
      script = { directory = "scripts", mode = "rte", engine = "perl", max = 1, environment = { TMPDIR = "@TMP@" } }
      [[site.route]]
      path = "/cgi/*"
      script = { directory = "scripts", mode = "cgi", environment = { TMPDIR = "@TMP@" } }
"""

HEAD = 'print "Content-Type: text/plain\\n\\n";\n'


def scripts(**texts):
    """Files of scripts: each begins with `#!/usr/bin/perl`."""
    return {f"scripts/{name}.pl": "#!/usr/bin/perl\n" + text for name, text in texts.items()}


class PerlCase(testing.ServerCase):
    configuration = ROUTES

    def rte(self, name, body=None, headers=()):
        return self.ask("/rte/" + name, body, headers)

    def cgi(self, name, body=None, headers=()):
        return self.ask("/cgi/" + name, body, headers)

    def ask(self, path, body, headers):
        return self.server.get(path, headers) if body is None else self.server.post(path, body, headers)

    def texts(self, name, count=2, body=None):
        """The bodies of some requests, which must all be complete and 200."""
        found = []
        for _ in range(count):
            got = self.rte(name, body)
            self.assertEqual((got.status, got.is_complete), (200, True), got)
            found.append(got.text)
        return found

    def assert_same(self, name, body=None):
        """The script says the same under CGI, and in three requests to one engine."""
        expected = self.cgi(name, body)
        for _ in range(3):
            got = self.rte(name, body)
            self.assertEqual((got.status, got.text, got.is_complete), (expected.status, expected.text, True), got)
        return expected
