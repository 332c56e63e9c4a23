"""Applications as Debian packages them, served by the engine: DokuWiki, Adminer with SQLite. WordPress on SQLite is in the guide, by hand."""

import os
import re
import shutil
import sqlite3
import unittest
import urllib.parse

from support import ENGINE, configuration, testing

WIKI = "/usr/share/dokuwiki"
ADMINER = "/usr/share/adminer"
FORM = ("Content-Type", "application/x-www-form-urlencoded")


def cookies_of(response, before=""):
    """The Cookie field after a response that may have set some."""
    jar = dict(part.split("=", 1) for part in before.split("; ") if part)
    for field in response.field_values("Set-Cookie"):
        name, value = field.split(";")[0].split("=", 1)
        jar[name] = value
    return "; ".join(f"{name}={value}" for name, value in jar.items())


def route(path, directory, more=""):
    return f"""
  [[site.route]]
  path = "{path}"
  directory = "{directory}"
  scripts = {{ ".php" = "php" }}
  script = {{ mode = "rte", max = 2, environment = {{ TMPDIR = "@TMP@" {more} }}, php_value = {{ "session.save_path" = "@DIR@/sessions", upload_tmp_dir = "@TMP@" }} }}
"""


class DokuWiki(unittest.TestCase):
    """A copy of the package with its own pages and users, so that the test leaves the package alone."""

    def setUp(self):
        testing.need_file(ENGINE)
        testing.need_file(f"{WIKI}/doku.php")
        self.server = testing.Server(configuration(route("/wiki/*", "@DIR@/wiki")), {"sessions/x": ""})
        self.addCleanup(self.server.kill)
        self.copy()

    def copy(self):
        wiki = self.server.path("wiki")
        # Links lead to /etc and /var/lib in the package; here they become files. What another user may not read is not needed.
        for source, target in ((WIKI, wiki), ("/etc/dokuwiki", f"{wiki}/conf"), ("/var/lib/dokuwiki/lib", f"{wiki}/lib")):
            shutil.copytree(source, target, dirs_exist_ok=True, ignore_dangling_symlinks=True, ignore=self.left_out)
        for name in ("pages", "meta", "attic", "media", "media_meta", "media_attic", "cache", "index", "locks", "tmp", "log"):
            os.makedirs(f"{wiki}/data/{name}", exist_ok=True)
        self.server.write("wiki/inc/preload.php", f"<?php define('DOKU_CONF', '{wiki}/conf/'); error_reporting(E_ALL & ~E_DEPRECATED);")
        # The password is "secret".
        self.server.write("wiki/conf/users.auth.php", "admin:5ebe2294ecd0e0f08eab7690d2a6ee69:Admin:a@example.org:admin,user\n")
        self.server.write("wiki/conf/acl.auth.php", "*\t@ALL\t1\n*\t@user\t8\n")
        self.server.write("wiki/conf/local.php", "<?php $conf['useacl'] = 1; $conf['superuser'] = '@admin'; $conf['savedir'] = './data'; $conf['passcrypt'] = 'md5';")

    @staticmethod
    def left_out(directory, names):
        if os.path.basename(directory) == "lang":  # thousands of small files
            return [name for name in names if name != "en"]
        return [name for name in names if name in ("data", "acl") or not os.access(os.path.join(directory, name), os.R_OK)]

    def test_read_log_in_edit_upload(self):
        got = self.server.get("/wiki/doku.php?id=start")
        self.assertIn(got.status, (200, 404), got)
        self.assertIn("DokuWiki", got.text)
        self.assertTrue(self.server.get("/wiki/lib/exe/css.php?t=dokuwiki").body)
        self.assertEqual(self.server.get("/wiki/lib/exe/js.php?t=dokuwiki").status, 200)

        got = self.server.get("/wiki/doku.php?id=start&do=login")
        cookies = cookies_of(got)
        token = re.search(r'name="sectok" value="([^"]*)"', got.text).group(1)
        form = urllib.parse.urlencode({"sectok": token, "id": "start", "do": "login", "u": "admin", "p": "secret"})
        got = self.server.post("/wiki/doku.php?id=start&do=login", form.encode(), [FORM, ("Cookie", cookies)])
        cookies = cookies_of(got, cookies)
        got = self.server.get("/wiki/doku.php?id=start&do=edit", [("Cookie", cookies)])
        self.assertIn("wikitext", got.text)

        fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', got.text))
        form = urllib.parse.urlencode(fields | {"id": "start", "do[save]": "1", "wikitext": "====== Written through Sluice ======", "summary": "x"})
        got = self.server.post("/wiki/doku.php", form.encode(), [FORM, ("Cookie", cookies)])
        self.assertIn(got.status, (302, 303), got)
        got = self.server.get("/wiki/doku.php?id=start")
        self.assertIn("Written through Sluice", got.text)
        self.assertNotIn("Admin", re.sub(r"(?s)<head>.*?</head>", "", got.text).split("Last modified")[0], "another visitor is not logged in")
        self.assertNotIn("PHP Fatal", self.server.log())


class Adminer(unittest.TestCase):
    def test_log_in_and_query(self):
        testing.need_file(ENGINE)
        testing.need_file(f"{ADMINER}/adminer/index.php")
        index = f"""<?php
            function adminer_object() {{ class Open extends Adminer {{ function login($l, $p) {{ return true; }} }} return new Open; }}
            chdir('{ADMINER}/adminer');
            include './index.php';"""
        files = {"adminer/index.php": index, "sessions/x": ""}
        with testing.Server(configuration(route("/adminer/*", "@DIR@/adminer")), files) as server:
            database = server.path("test.db")
            sqlite3.connect(database).execute("CREATE TABLE first (a)").connection.close()
            got = server.get("/adminer/index.php")
            self.assertEqual(got.status, 200, got)
            self.assertIn("Adminer", got.text)
            cookies = cookies_of(got)
            form = {"auth[driver]": "sqlite", "auth[server]": "", "auth[username]": "u", "auth[password]": "", "auth[db]": database}
            got = server.post("/adminer/index.php", urllib.parse.urlencode(form).encode(), [FORM, ("Cookie", cookies)])
            self.assertEqual(got.status, 302, got)
            cookies = cookies_of(got, cookies)
            path = "/adminer/index.php?sqlite=&username=u&" + urllib.parse.urlencode({"db": database})
            got = server.get(path + "&sql=", [("Cookie", cookies)])
            self.assertIn("SQL command", got.text)
            token = re.search(r"name=['\"]token['\"] value=['\"]([^'\"]*)", got.text).group(1)
            form = {"query": "CREATE TABLE t (a); INSERT INTO t VALUES (40 + 2); SELECT a AS answer FROM t", "token": token, "limit": ""}
            got = server.post(path + "&sql=", urllib.parse.urlencode(form).encode(), [FORM, ("Cookie", cookies)])
            self.assertIn(">42", got.text)
            self.assertNotIn("PHP Fatal", server.log())


if __name__ == "__main__":
    unittest.main()
