"""What the tests of the agents share: a site whose pages need a user, and requests with a name and a password."""

import base64
import os
import sys

AGENTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(AGENTS, ".."))
import testing  # noqa: E402

# Prints what a script knows of the user.
WHO = """#!/bin/sh
printf 'Content-Type: text/plain\\n\\n%s|%s' "$REMOTE_USER" "$AUTH_GROUP"
"""


def configuration(*routes):
    """Routes from their paths and the values of `access`; each path has the script of WHO."""
    text = '[server]\nsdk = "@SDK@"\n[[site]]\nroot = "htdocs"\n'
    for path, access in routes:
        text += f'[[site.route]]\npath = "{path}"\naccess = {{ failures = 1000, {access} }}\n'
    return text + '[[site.route]]\npath = "/*"\nscript = { file = "who.sh" }\n'


def basic(name, password):
    """The field with a name and a password (RFC 7617)."""
    return [("Authorization", "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode())]


class AgentCase(testing.ServerCase):
    """Tests with one server. `ask` is a request with a name and a password; a new password each time, where it is wrong, is not needed,
    because wrong ones are never remembered."""

    files = {"who.sh": WHO}

    def ask(self, path, name, password):
        got = self.server.get(path, basic(name, password))
        return got.text if got.status == 200 else got.status

    def assert_log(self, text):
        self.server.log_line(text)
