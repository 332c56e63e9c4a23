"""What the tests of the PHP engine share: a server with a route for scripts, and scripts that answer in JSON."""

import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../.."))
import testing

ENGINE = os.path.join(os.path.dirname(HERE), "build", "sluice-php")

# One process, so that a second request certainly meets what the first has left.
ROUTE = """
  [[site.route]]
  path = "/rte/*"
  script = { directory = "rte", mode = "rte", engine = "php", max = 1, environment = { TMPDIR = "@TMP@" }, php_value = {
    upload_tmp_dir = "@TMP@", "session.save_path" = "@DIR@/sessions" } }
"""
SERVER = """
[server]
sdk = "@SDK@"
"""


def configuration(*routes):
    return SERVER + '[[site]]\nroot = "htdocs"\n' + "".join(routes or (ROUTE,))


class PhpCase(testing.ServerCase):
    configuration = configuration()

    @classmethod
    def setUpClass(cls):
        testing.need_file(ENGINE)
        # Scripts write sessions there.
        cls.files = dict(cls.files) | {"sessions/.keep": ""}
        super().setUpClass()

    def php(self, code, method="GET", query="", body=None, headers=()):
        """Runs this code, and decodes its output as JSON. A new file each time is a new script in the same process."""
        name = self.script(code)
        got = self.server.request(method, f"/rte/{name}{query}", headers, body)
        self.assertEqual(got.status, 200, got)
        return json.loads(got.text)

    def script(self, code, name=None):
        type(self).count = getattr(type(self), "count", 0) + 1
        name = name or f"test{self.count}.php"
        self.server.write(f"rte/{name}", "<?php " + code)
        return name

    def get(self, code, **more):
        return self.server.get("/rte/" + self.script(code), **more)


def multipart(fields, files):
    """A body and its media type. fields: (name, value); files: (name, filename, type, content)."""
    mark = b"----------------mark"
    parts = [b'--%s\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (mark, n.encode(), v.encode()) for n, v in fields]
    parts += [
        b'--%s\r\nContent-Disposition: form-data; name="%s"; filename="%s"\r\nContent-Type: %s\r\n\r\n%s\r\n'
        % (mark, n.encode(), f.encode(), t.encode(), c)
        for n, f, t, c in files
    ]
    return b"".join(parts) + b"--%s--\r\n" % mark, "multipart/form-data; boundary=" + mark.decode()
