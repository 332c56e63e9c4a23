"""Real applications, unmodified: gitweb and AWStats give the same pages under RTE as under CGI. And fork mode."""

import os
import re
import shutil
import subprocess
import unittest

from common import HEAD, PerlCase, scripts, testing

GIT = {"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.com",
       "GIT_AUTHOR_DATE": "2024-01-02T03:04:05Z", "GIT_COMMITTER_DATE": "2024-01-02T03:04:05Z", "GIT_CONFIG_GLOBAL": "/dev/null"}

ROUTES = """
    [server]
    sdk = "@SDK@"
    [[site]]
    root = "htdocs"
      [[site.route]]
      path = "/rte/*"
      script = { directory = "scripts", mode = "rte", engine = "perl", max = 1, environment = { GITWEB_CONFIG = "@DIR@/gitweb.conf", TMPDIR = "@TMP@" } }
      [[site.route]]
      path = "/cgi/*"
      script = { directory = "scripts", mode = "cgi", environment = { GITWEB_CONFIG = "@DIR@/gitweb.conf", TMPDIR = "@TMP@" } }
      [[site.route]]
      path = "/fork/*"
      script = { directory = "scripts", mode = "rte", engine = "perl", fresh = "fork", max = 1, environment = { TMPDIR = "@TMP@" } }
"""


class Applications(PerlCase):
    configuration = ROUTES
    files = scripts(first=HEAD)

    def assert_same_page(self, name, query, expected):
        """The page is the same in both modes, except for what names the time, the process or the route."""
        pages = []
        for mode in ("cgi", "rte", "rte"):
            got = self.server.get(f"/{mode}/{name}?{query}")
            self.assertEqual((got.status, got.is_complete), (200, True), got)
            text = re.sub(r"\d+\.\d+ (seconds|s)\b|generated in.*|\d\d:\d\d(:\d\d)?|took.*", "", got.text.replace(f"/{mode}/", "/MODE/"))
            self.assertIn(expected, text)
            pages.append(text)
        self.assertEqual(pages[1], pages[0])
        self.assertEqual(pages[2], pages[0])

    def test_gitweb(self):
        source = testing.need_file("/usr/share/gitweb/gitweb.cgi")
        testing.need_perl("CGI")
        shutil.copy(source, self.server.path("scripts/gitweb.cgi"))
        os.chmod(self.server.path("scripts/gitweb.cgi"), 0o755)
        repository = self.server.path("repositories/one.git")
        os.makedirs(repository)

        def git(*words, directory=repository):
            subprocess.run(["git", "-C", directory, *words], env=os.environ | GIT, check=True, capture_output=True)

        git("init", "-q", "-b", "main")
        for number in (1, 2):
            with open(f"{repository}/file.txt", "w") as file:
                file.write(f"content{number} <é>\n")
            git("add", "file.txt")
            git("commit", "-q", "-m", f"change {number}")
        self.server.write("gitweb.conf", f'$projectroot = "{self.server.path("repositories")}"; $site_name = "A site"; our $omit_owner = 1; 1;\n')
        for query, expected in (("", "one.git"), ("p=one.git/.git", "change 2"), ("p=one.git/.git;a=log", "change 1"), ("p=one.git/.git;a=blob;f=file.txt;hb=HEAD", "content2"),
                                ("p=one.git/.git;a=commitdiff;h=HEAD", "file.txt"), ("p=one.git/.git;a=tree", "file.txt")):
            with self.subTest(query):
                self.assert_same_page("gitweb.cgi", query, expected)

    def test_awstats(self):
        source = testing.need_file("/usr/lib/cgi-bin/awstats.pl")
        shutil.copy(source, self.server.path("scripts/awstats.pl"))
        log = "".join(f'192.0.2.{n % 5 + 1} - - [0{n % 9 + 1}/Mar/2024:10:00:0{n % 10} +0000] "GET /page{n % 7}.html HTTP/1.1" 200 {n * 10} "-" "Mozilla/5.0"\n' for n in range(60))
        self.server.write("access.log", log)
        os.makedirs(self.server.path("data"))
        self.server.write("scripts/awstats.test.conf", f"""
LogFile="{self.server.path('access.log')}"
LogType=W
LogFormat=1
SiteDomain="example.com"
HostAliases="localhost"
DNSLookup=0
DirData="{self.server.path('data')}"
DirCgi="/cgi-bin"
DirIcons="/icon"
AllowToUpdateStatsFromBrowser=0
DirLang="/usr/share/awstats/lang"
""")
        updated = subprocess.run(["perl", self.server.path("scripts/awstats.pl"), "-config=test", "-update", f"-configdir={self.server.path('scripts')}"],
                                 capture_output=True, text=True, env=os.environ | {"GATEWAY_INTERFACE": ""})
        self.assertIn("new qualified records", updated.stdout, updated.stdout + updated.stderr)
        for query in ("config=test&year=2024&month=03&framename=mainright", "config=test&year=2024&month=03&output=urldetail&framename=mainright"):
            with self.subTest(query):
                self.assert_same_page("awstats.pl", query, "page")


class ForkMode(PerlCase):
    configuration = ROUTES
    files = scripts(
        counts=HEAD + "our $n; $Kept::n++; $main::x++; print ++$n, $Kept::n, $main::x; use Heavy; Heavy::change(); print Heavy::value();",
        uses=HEAD + "use Sluice; print Sluice::uses();",
        chdirs=HEAD + 'chdir "/"; $SIG{TERM} = "IGNORE"; close STDIN; open STDERR, ">/dev/null"; print "ok"',
        killed=HEAD + '$| = 1; print "x" x 100; kill KILL => $$; sleep 60;',
        killed_early="kill KILL => $$; sleep 60;",
        dies="die 'in the child';",
        exits="use POSIX; POSIX::_exit(3);",
        execs=HEAD + '$| = 1; print "x "; exec "echo", "done";',
        body=HEAD + "local $/; my $b = <STDIN>; print length $b;",
        ends=HEAD + "END { print 'end' } exit 0;",
        random=HEAD + "print rand;",
    ) | {"scripts/Heavy.pm": "package Heavy; our $loads; my $v = 1; $loads++; sub change { $v++ } sub value { $v . $loads } 1;\n"}

    @classmethod
    def setUpClass(cls):
        cls.files = {name: text.replace("use Heavy;", 'use FindBin; use lib $FindBin::Bin; use Heavy;') for name, text in cls.files.items()}
        super().setUpClass()

    def fork(self, name, body=None):
        return self.ask(f"/fork/{name}.pl", body, ())

    def test_nothing_stays(self):
        self.assertEqual([self.fork("counts").text for _ in range(3)], ["11121"] * 3)
        self.assertEqual([self.fork("chdirs").text for _ in range(3)], ["ok"] * 3)
        self.assertEqual(len({self.fork("random").text for _ in range(4)}), 4)
        self.assertEqual([self.fork("uses").text for _ in range(2)], ["1"] * 2, "the process of a request has served no other")

    def test_replies(self):
        for size in (5, 60_000, 2_000_000):
            self.assertEqual(self.fork("body", b"x" * size).text, str(size))
        self.assertEqual(self.fork("ends").text, "end")
        self.assertEqual(self.fork("execs").text, "x done\n")

    def test_failures_end_the_child_only(self):
        self.fork("ends")
        before = [process.pid for process in self.server.scripts()]
        for name, message in (("killed_early", "killed by signal 9"), ("dies", "in the child"), ("exits", "exit status 3")):
            with self.subTest(name):
                start = self.server.log_position()
                self.assertEqual(self.fork(name).status, 502)
                self.server.log_line(message, start)
        got = self.fork("killed")
        self.assertFalse(got.status == 200 and got.is_complete, got)
        self.assertEqual(self.fork("ends").text, "end")
        self.assertEqual([process.pid for process in self.server.scripts()], before)


if __name__ == "__main__":
    unittest.main()
