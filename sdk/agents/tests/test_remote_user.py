"""Applications that leave passwords to the server and rely on REMOTE_USER, unmodified: Django, Mercurial, Radicale, AWStats. (git is in
crates/sluice/tests/config/guides.rs.)"""

import os
import subprocess
import unittest

from support import basic, testing

# The password of everybody is "open sesame".
USERS = "".join(f"{name}:$2y$05$abcdefghijklmnopqrstuupx2xBUC4954936wVIjyyPHmUBFu0wCW\n" for name in ("ann", "bob"))

DJANGO = '''
import os
import django
from django.conf import settings
settings.configure(
    ALLOWED_HOSTS=["*"], SECRET_KEY="x" * 50, ROOT_URLCONF=__name__, USE_TZ=True,
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ["DATABASE"]}},
    MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware", "django.contrib.auth.middleware.AuthenticationMiddleware",
                "django.contrib.auth.middleware.RemoteUserMiddleware"],
    AUTHENTICATION_BACKENDS=["django.contrib.auth.backends.RemoteUserBackend"],
)
django.setup()
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path

def who(request):
    user = request.user
    return HttpResponse(f"{user.username or 'nobody'} {user.is_authenticated} {user.pk}", content_type="text/plain")

urlpatterns = [path("private", who), path("open", who)]
call_command("migrate", verbosity=0)
application = get_wsgi_application()
'''

HGWEB = """#!/usr/bin/python3
import os
from mercurial import demandimport
demandimport.enable()
from mercurial.hgweb import hgweb, wsgicgi
wsgicgi.launch(hgweb(b"@DIR@/repository"))
"""

HGRC = """[web]
push_ssl = false
allow-push = ann
allow_read = ann, bob
"""

RADICALE = """[auth]
type = remote_user
[rights]
type = owner_only
[storage]
filesystem_folder = @DIR@/collections
"""

AWSTATS = """
LogFile="@DIR@/access.log"
LogType=W
LogFormat=1
SiteDomain="example.com"
HostAliases="localhost"
DNSLookup=0
DirData="@DIR@/data"
DirLang="/usr/share/awstats/lang"
AllowAccessFromWebToAuthenticatedUsersOnly=1
AllowAccessFromWebToFollowingAuthenticatedUsers="ann"
"""

# The system's Python has the packages of the applications.
PATH = os.pathsep.join(["/usr/bin", "/bin", os.environ["PATH"]])

EVENT = b"""BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//test//EN
BEGIN:VEVENT
UID:1@example.com
DTSTAMP:20240101T000000Z
DTSTART:20240101T100000Z
SUMMARY:secret
END:VEVENT
END:VCALENDAR
"""


class RemoteUser(testing.ServerCase):
    """All of them in one server, each below a path of its own that needs a user; Django also below one that does not."""

    configuration = """
        [server]
        sdk = "@SDK@"
        [[site]]
        root = "htdocs"
          [[site.route]]
          path = "/*"
          access = { users = "users" }
          [[site.route]]
          path = "/django/open"
          access = false
          [[site.route]]
          path = "/open-awstats/*"
          access = false
          [[site.route]]
          path = "/django/*"
          script = { directory = "django", app = "accounts:application", mode = "rte", engine = "python", max = 1, environment = { DATABASE = "@DIR@/db.sqlite3" } }
          [[site.route]]
          path = "/hg/*"
          script = { file = "hgweb.py" }
          [[site.route]]
          path = "/radicale/*"
          script = { directory = "radicale", app = "calendars:application", mode = "rte", engine = "python", max = 1, environment = { RADICALE_CONFIG = "@DIR@/radicale.conf", TMPDIR = "@TMP@" } }
          [[site.route]]
          path = "/awstats/*"
          script = { directory = "awstats" }
          [[site.route]]
          path = "/open-awstats/*"
          script = { directory = "awstats" }
    """
    files = {
        "users": USERS,
        "django/accounts.py": DJANGO,
        "hgweb.py": HGWEB,
        "radicale.conf": RADICALE,
        "radicale/calendars.py": "from radicale import application\n",
        "awstats/awstats.test.conf": AWSTATS,
    }

    environment = {"PATH": PATH}

    def need_module(self, name):
        found = subprocess.run(["/usr/bin/python3", "-c", f"import {name}"], stderr=subprocess.DEVNULL, check=False)
        if found.returncode != 0:
            testing.missing(f"Python module {name}")

    def ask(self, path, name=None, method="GET", body=None, headers=()):
        fields = [*(basic(name, "open sesame") if name else ()), *headers]
        return self.server.request(method, path, fields, body)

    def test_django_takes_the_user_of_each_request(self):
        self.need_module("django")
        self.assertEqual(self.ask("/django/private").status, 401)
        first = self.ask("/django/private", "ann")
        self.assertEqual((first.status, first.text.split()[:2]), (200, ["ann", "True"]), first)
        cookie = [("Cookie", first.field("Set-Cookie").split(";")[0])]
        again = self.ask("/django/private", "ann", headers=cookie)
        self.assertEqual(again.text, first.text, "the same account")
        # The session of one user is no proof for another one, nor for nobody.
        self.assertEqual(self.ask("/django/private", "bob", headers=cookie).text.split()[0], "bob")
        self.assertEqual(self.ask("/django/open", headers=cookie).text.split()[0], "nobody")

    def test_no_field_of_a_request_names_the_user(self):
        self.need_module("django")
        for field in ("Remote-User", "REMOTE_USER", "X-Remote-User", "Auth-User"):
            self.assertEqual(self.ask("/django/open", headers=[(field, "ann")]).text.split()[0], "nobody", field)
            self.assertEqual(self.ask("/django/private", "bob", headers=[(field, "ann")]).text.split()[0], "bob", field)

    def hg(self, *arguments, name=None):
        environment = {"PATH": os.environ["PATH"], "HOME": self.server.path("home"), "HGRCPATH": "", "HGUSER": "test", "HGPLAIN": "1"}
        if name:
            arguments += ("--config", "auth.a.prefix=*", "--config", f"auth.a.username={name}", "--config", "auth.a.password=open sesame",
                          "--config", "auth.a.schemes=http")
        done = subprocess.run(["hg", "--noninteractive", *arguments], env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def test_mercurial_lets_only_its_users_push(self):
        testing.need_program("hg")
        repository, clone = self.server.path("repository"), self.server.path("clone")
        self.assertEqual(self.hg("init", repository)[0], 0)
        self.server.write("repository/.hg/hgrc", HGRC)
        host, port = self.server.address
        url = f"http://{host}:{port}/hg/"
        self.assertNotEqual(self.hg("clone", url, clone)[0], 0, "a clone without a password")
        self.assertEqual(self.hg("clone", url, clone, name="bob"), (0, "no changes found\nupdating to branch default\n0 files updated, 0 files merged, 0 files removed, 0 files unresolved\n"))
        self.server.write("clone/a.txt", "a change\n")
        self.assertEqual(self.hg("-R", clone, "commit", "-A", "-m", "first")[0], 0)
        status, output = self.hg("-R", clone, "push", url, name="bob")
        self.assertNotEqual(status, 0, output)
        self.assertIn("authorization failed", output)
        status, output = self.hg("-R", clone, "push", url, name="ann")
        self.assertEqual(status, 0, output)
        self.assertIn("first", self.hg("-R", repository, "log")[1])

    def test_radicale_gives_each_user_their_own_calendar(self):
        self.need_module("radicale")
        calendar = b'<?xml version="1.0"?><C:mkcalendar xmlns:C="urn:ietf:params:xml:ns:caldav" xmlns:D="DAV:"/>'
        path = "/radicale/ann/calendar/"
        self.assertEqual(self.ask(path, method="PROPFIND").status, 401)
        made = self.ask(path, "ann", "MKCALENDAR", calendar)
        self.assertEqual(made.status, 201, made)
        put = self.ask(path + "1.ics", "ann", "PUT", EVENT, [("Content-Type", "text/calendar")])
        self.assertEqual(put.status, 201, put)
        self.assertIn("SUMMARY:secret", self.ask(path + "1.ics", "ann").text)
        for method in ("GET", "DELETE", "PROPFIND"):
            got = self.ask(path + "1.ics", "bob", method)
            self.assertIn(got.status, (403, 404), got)
        self.assertEqual(self.ask(path + "1.ics", "ann", "DELETE").status, 200)

    def test_awstats_shows_statistics_to_the_users_of_its_configuration(self):
        with open(testing.need_file("/usr/lib/cgi-bin/awstats.pl"), "rb") as file:
            self.server.write("awstats/awstats.pl", file.read(), 0o755)
        os.makedirs(self.server.path("data"), exist_ok=True)
        self.server.write("access.log", '192.0.2.1 - - [01/Mar/2024:10:00:00 +0000] "GET /a.html HTTP/1.1" 200 10 "-" "Mozilla/5.0"\n')
        query = "awstats.pl?config=test&year=2024&month=03&framename=mainright"
        self.assertIn("Statistics", self.ask(f"/awstats/{query}", "ann").text)
        self.assertIn("User 'bob' is not allowed", self.ask(f"/awstats/{query}", "bob").text)
        self.assertEqual(self.ask(f"/awstats/{query}").status, 401)
        self.assertIn("only allowed from an authenticated session", self.ask(f"/open-awstats/{query}").text)


if __name__ == "__main__":
    unittest.main()
