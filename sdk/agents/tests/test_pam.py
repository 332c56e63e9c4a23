"""The agent for PAM under the real server, with services of the test and modules that every system has."""

import os
import subprocess
import tempfile
import unittest

from support import AGENTS, AgentCase, WHO, basic, configuration, testing

# Asked by pam_exec with the password on its standard input, and by which phase of PAM: accounts with special properties.
CHECK = """#!/bin/sh
if [ "$PAM_TYPE" = account ]; then
  case $PAM_USER in
  locked) exit 1 ;;
  esac
  exit 0
fi
password=$(tr -d '\\0')
case $PAM_USER in
# pam_exec gives it a session of its own, so that it must end by itself.
hangs) parent=$PPID; while kill -0 $parent 2>&-; do sleep 0.05; done ;;
crashes) kill -SEGV $PPID ;;
esac
echo "a module prints: 100 GROUP forged"
[ "$password" = "open sesame" ] && echo "$PAM_USER $PAM_RHOST" >> @DIR@/asked
"""

# A program that fails is an error of the system for pam_exec.
EXEC = """auth [success=1 default=ignore] pam_exec.so quiet expose_authtok @DIR@/check.sh
auth requisite pam_deny.so
auth required pam_permit.so
account [success=1 default=ignore] pam_exec.so quiet @DIR@/check.sh
account requisite pam_deny.so
account required pam_permit.so
"""
MATRIX = "auth required {0} passdb=@DIR@/passdb\naccount required {0} passdb=@DIR@/passdb\n"
# A module that asks twice: for a password, and for another one.
TWICE = "auth required pam_exec.so quiet expose_authtok @DIR@/check.sh\nauth required {0} passdb=@DIR@/passdb verbose\naccount required pam_permit.so\n"


def matrix():
    """The module of libpam-wrapper whose users are in a file."""
    for directory in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"):
        path = f"{directory}/pam_wrapper/pam_matrix.so"
        if os.path.exists(path):
            return path
    return testing.missing("pam_matrix.so (package libpam-wrapper)")


class PamCase(AgentCase):
    @classmethod
    def setUpClass(cls):
        testing.need_file(f"{AGENTS}/build/sluice-pam")
        super().setUpClass()


class Exec(PamCase):
    configuration = configuration(
        ("/page", 'agent = "pam", pam = { service = "own", directory = "pam.d", timeout = "3s" }'),
        ("/group", 'pam = { service = "own", directory = "pam.d" }, allow = ["group:forged"]'),
        ("/denied", 'pam = { service = "denies", directory = "pam.d" }'),
        ("/broken", 'pam = { service = "broken", directory = "pam.d" }'),
        ("/lost", 'pam = { service = "lost", directory = "pam.d" }'),
        ("/unreadable", 'pam = { service = "unreadable", directory = "pam.d" }'),
        ("/permitted", 'pam = { service = "permits", directory = "pam.d" }'),
    )
    files = {
        "who.sh": WHO,
        "check.sh": CHECK,
        "pam.d/own": EXEC,
        "pam.d/denies": "auth required pam_deny.so\naccount required pam_deny.so\n",
        "pam.d/broken": "auth required pam_no_such_module.so\naccount required pam_permit.so\n",
        "pam.d/permits": "auth required pam_permit.so\naccount required pam_permit.so\n",
        "pam.d/unreadable": "auth required pam_debug.so auth=authinfo_unavail\naccount required pam_permit.so\n",
        "pam.d/lost": "auth required pam_deny.so\n",
    }

    def test_a_right_password_is_accepted_and_the_modules_know_the_address(self):
        self.assertEqual(self.ask("/page", "ann", "open sesame"), "ann|")
        with open(self.server.path("asked"), encoding="utf-8") as asked:
            self.assertIn("ann 127.0.0.1\n", asked.readlines())

    def test_what_a_module_prints_is_no_answer(self):
        self.assertEqual(self.ask("/group", "ann", "open sesame"), 403)

    def test_wrong_passwords_and_locked_accounts_are_refused_alike(self):
        for name, password in [("ann", "wrong"), ("ann", "open sesame "), ("locked", "open sesame"), ("ann", "")]:
            self.assertEqual(self.ask("/page", name, password), 401, (name, password))
        self.assertEqual(self.ask("/denied", "ann", "open sesame"), 401)

    def test_names_that_could_be_files_or_options_are_refused(self):
        for name in ["../ann", "a/b", "-x", ".", ".."]:
            self.assertEqual(self.ask("/permitted", name, "open sesame"), 401, name)

    def test_root_is_never_accepted(self):
        self.assertEqual(self.ask("/permitted", "root", "open sesame"), 401)

    def test_an_account_of_the_system_has_its_groups(self):
        self.assertEqual(self.ask("/permitted", "daemon", "open sesame"), "daemon|")

    def test_an_account_whose_hash_cannot_be_read_is_refused_as_an_unknown_name_is(self):
        self.assertEqual(self.ask("/unreadable", "daemon", "open sesame"), 401)
        self.assert_log("must be in the group that may read /etc/shadow")
        self.assertEqual(self.ask("/unreadable", "ann", "open sesame"), 502, "no account of this machine: a service is down")

    def test_tokens_are_not_for_it(self):
        self.assertEqual(self.server.get("/page", [("Authorization", "Bearer abc")]).status, 401)

    def test_a_broken_service_lets_nobody_in(self):
        self.assertEqual(self.ask("/broken", "ann", "open sesame"), 502)
        self.assert_log("PAM: ")

    def test_a_service_whose_file_is_removed_has_not_the_rules_of_others(self):
        os.remove(self.server.path("pam.d/lost"))
        self.assertEqual(self.ask("/lost", "ann", "open sesame"), 502)
        self.assert_log("there is no file of the service lost")

    def test_a_module_that_crashes_or_hangs_ends_only_its_question(self):
        self.assertEqual(self.ask("/page", "crashes", "open sesame"), 502)
        self.assertEqual(self.ask("/page", "hangs", "open sesame"), 504)
        self.assertEqual(self.ask("/page", "bob", "open sesame"), "bob|")

    def test_no_process_shows_the_password(self):
        # A question that hangs, so that its process can be seen.
        with self.server.connect() as client:
            client.get("/page", basic("hangs", "visible7"))
            self.assertTrue(testing.wait_until(lambda: len(self.server.processes()) >= 2))
            for process in self.server.processes():
                for name in ("cmdline", "environ"):
                    try:
                        with open(f"/proc/{process.pid}/{name}", "rb") as file:
                            self.assertNotIn(b"visible7", file.read())
                    except OSError:
                        pass  # it has ended
            self.assertEqual(client.response().status, 504)
        self.assertNotIn("visible7", self.server.log())


class Matrix(PamCase):
    @classmethod
    def setUpClass(cls):
        module = matrix()
        cls.configuration = configuration(
            ("/page", 'pam = { service = "matrix", directory = "pam.d" }'),
            ("/other", 'pam = { service = "second", directory = "pam.d" }'),
            ("/twice", 'pam = { service = "twice", directory = "pam.d" }'),
        )
        cls.files = {
            "who.sh": WHO,
            "check.sh": CHECK,
            "passdb": "ann:open sesame:matrix\nbob:open sesame:second\nann:another:twice\n",
            "pam.d/matrix": MATRIX.format(module),
            "pam.d/second": MATRIX.format(module),
            "pam.d/twice": TWICE.format(module),
        }
        super().setUpClass()

    def test_each_service_has_its_users(self):
        self.assertEqual(self.ask("/page", "ann", "open sesame"), "ann|")
        self.assertEqual(self.ask("/page", "bob", "open sesame"), 401)
        self.assertEqual(self.ask("/other", "bob", "open sesame"), "bob|")
        self.assertEqual(self.ask("/other", "ann", "open sesame"), 401)
        self.assertEqual(self.ask("/page", "ann", "wrong"), 401)

    def test_a_second_question_has_no_answer(self):
        self.assertIn(self.ask("/twice", "ann", "open sesame"), [401, 502])


class Check(unittest.TestCase):
    def check(self, text, *directories):
        """The messages of `sluice check` about this configuration."""
        with tempfile.TemporaryDirectory() as directory:
            for name in ("htdocs", *directories):
                os.mkdir(f"{directory}/{name}")
            with open(f"{directory}/sluice.toml", "w", encoding="ascii") as file:
                file.write(text)
            checked = subprocess.run([testing.binary(), "check", "-c", f"{directory}/sluice.toml"], capture_output=True, text=True, check=False)
            self.assertNotEqual(checked.returncode, 0)
            return checked.stderr + checked.stdout

    def test_a_service_without_a_file_is_reported(self):
        said = self.check('[[site]]\nroot = "htdocs"\n[[site.route]]\npath = "/a/*"\naccess = { pam = { service = "sluice-no-such" } }\n')
        self.assertIn('the service "sluice-no-such" has no file (/etc/pam.d/sluice-no-such)', said)

    def test_installed_agents_are_found(self):
        with tempfile.TemporaryDirectory() as directory:
            # Without the variables of the make that runs this test.
            environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name != "MFLAGS"}
            subprocess.run(["make", "-s", "-C", AGENTS, "install", f"DESTDIR={directory}"], check=True, env=environment, stdout=subprocess.DEVNULL)
            installed = f"{directory}/usr/local/lib/sluice"
            testing.need_file(f"{installed}/agents/sluice-ldap")
            text = f'[server]\nsdk = "{installed}"\n' + configuration(("/page", 'ldap = { server = "ldaps://127.0.0.1", base = "dc=b" }')).split("\n", 2)[2]
            with testing.Server(text, {"who.sh": WHO}) as server:
                self.assertEqual(server.get("/page").status, 401)

    def test_an_agent_that_is_not_built_is_reported(self):
        text = '[server]\nsdk = "empty"\n[[site]]\nroot = "htdocs"\n[[site.route]]\npath = "/a/*"\naccess = { ldap = { server = "ldaps://a", base = "dc=b" } }\n'
        self.assertIn("the agent for LDAP is not there", self.check(text, "empty"))


if __name__ == "__main__":
    unittest.main()
