"""The agent for LDAP under the real server, with a directory server (slapd) of the test."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import unittest

from support import AGENTS, AgentCase, WHO, basic, configuration, testing

SCHEMAS = "/etc/ldap/schema"

SLAPD = """
include {schemas}/core.schema
include {schemas}/cosine.schema
include {schemas}/inetorgperson.schema
include {schemas}/nis.schema
modulepath /usr/lib/ldap
moduleload back_mdb
moduleload ppolicy
pidfile {directory}/slapd.pid
TLSCACertificateFile {directory}/ca.pem
TLSCertificateFile {directory}/server.pem
TLSCertificateKeyFile {directory}/server.key
allow bind_anon_dn
database mdb
suffix "dc=example,dc=org"
directory {directory}/data
rootdn "cn=admin,dc=example,dc=org"
rootpw admin
overlay ppolicy
ppolicy_default "cn=default,dc=example,dc=org"
access to attrs=userPassword by anonymous auth by * none
access to dn.subtree="ou=people,dc=example,dc=org" by dn.exact="cn=web,dc=example,dc=org" read by self read by * none
access to dn.subtree="ou=secret,dc=example,dc=org" by * none
access to * by users read by * none
"""

ENTRIES = """
dn: dc=example,dc=org
objectClass: domain
dc: example

dn: cn=default,dc=example,dc=org
objectClass: organizationalRole
objectClass: pwdPolicy
cn: default
pwdAttribute: userPassword
pwdLockout: TRUE
pwdMaxFailure: 1000

dn: cn=web,dc=example,dc=org
objectClass: organizationalRole
objectClass: simpleSecurityObject
cn: web
userPassword: of the server

dn: ou=people,dc=example,dc=org
objectClass: organizationalUnit
ou: people

dn: uid=ann,ou=people,dc=example,dc=org
objectClass: inetOrgPerson
uid: ann
cn: Ann Author
sn: Author
mail: ann@example.org
userPassword: open sesame

dn: uid=eve,ou=people,dc=example,dc=org
objectClass: inetOrgPerson
uid: eve
cn: Eve
sn: Eve
mail: shared@example.org
userPassword: open sesame

dn: uid=zoe,ou=people,dc=example,dc=org
objectClass: inetOrgPerson
uid: zoe
cn: Zoe
sn: Zoe
mail: shared@example.org
userPassword: open sesame

dn: uid=odd\\2c name,ou=people,dc=example,dc=org
objectClass: inetOrgPerson
uid: odd, name
cn: odd (name)*
sn: odd
userPassword: open sesame

dn: uid=locked,ou=people,dc=example,dc=org
objectClass: inetOrgPerson
uid: locked
cn: Locked
sn: Locked
userPassword: open sesame

dn: ou=groups,dc=example,dc=org
objectClass: organizationalUnit
ou: groups

dn: cn=staff,ou=groups,dc=example,dc=org
objectClass: groupOfNames
cn: staff
member: uid=ann,ou=people,dc=example,dc=org
member: uid=odd\\2c name,ou=people,dc=example,dc=org

dn: cn=unix,ou=groups,dc=example,dc=org
objectClass: posixGroup
cn: unix
gidNumber: 1000
memberUid: eve
"""

# An entry that is on another server (RFC 3296).
REFERRAL = """
dn: ou=elsewhere,ou=people,dc=example,dc=org
objectClass: referral
objectClass: extensibleObject
ou: elsewhere
ref: ldap://127.0.0.1:{port}/ou=elsewhere,dc=example,dc=org
"""

LOCK = """
dn: uid=locked,ou=people,dc=example,dc=org
changetype: modify
add: pwdAccountLockedTime
pwdAccountLockedTime: 000001010000Z
"""


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"


def make_certificates(directory):
    """An authority, a certificate for 127.0.0.1 of it, and another authority."""
    for name in ("ca", "other"):
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-subj", f"/CN={name}", "-keyout", f"{directory}/{name}.key", "-out", f"{directory}/{name}.pem")
    run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=127.0.0.1",
        "-keyout", f"{directory}/server.key", "-out", f"{directory}/server.csr")
    with open(f"{directory}/extensions", "w", encoding="ascii") as file:
        file.write("subjectAltName=IP:127.0.0.1\n")
    run("openssl", "x509", "-req", "-in", f"{directory}/server.csr", "-CA", f"{directory}/ca.pem", "-CAkey", f"{directory}/ca.key",
        "-CAcreateserial", "-days", "2", "-extfile", f"{directory}/extensions", "-out", f"{directory}/server.pem")


def free_port():
    """A port that was free a moment ago: slapd cannot choose one."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Directory:
    """A slapd on two ports and a socket, below a temporary directory."""

    def __init__(self, referral_port):
        self.program = testing.need_program("slapd")
        testing.need_file(f"{SCHEMAS}/nis.schema")
        self.directory = tempfile.mkdtemp(prefix="sluice-ldap-")
        self.process = None
        try:
            make_certificates(self.directory)
            os.mkdir(f"{self.directory}/data")
            with open(f"{self.directory}/slapd.conf", "w", encoding="ascii") as file:
                file.write(SLAPD.format(directory=self.directory, schemas=SCHEMAS))
            with open(f"{self.directory}/entries", "w", encoding="ascii") as file:
                file.write(ENTRIES + REFERRAL.format(port=referral_port))
            run(testing.need_program("slapadd"), "-q", "-f", f"{self.directory}/slapd.conf", "-l", f"{self.directory}/entries")
            self.port, self.tls_port = free_port(), free_port()
            self.socket = f"{self.directory}/ldapi"
            self.start()
            ldif = f"{self.directory}/lock"
            with open(ldif, "w", encoding="ascii") as file:
                file.write(LOCK)
            # Through the socket, in clear text.
            run(testing.need_program("ldapmodify"), "-x", "-H", self.socket_address(), "-D", "cn=admin,dc=example,dc=org", "-w", "admin", "-f", ldif)
        except BaseException:
            self.remove()
            raise

    def socket_address(self):
        return "ldapi://" + self.socket.replace("/", "%2f")

    def start(self):
        addresses = f"ldap://127.0.0.1:{self.port}/ ldaps://127.0.0.1:{self.tls_port}/ {self.socket_address()}/"
        # With a level of its log it stays in the foreground.
        self.log = open(f"{self.directory}/log", "ab")  # pylint: disable=consider-using-with
        command = [self.program, "-d", "0", "-f", f"{self.directory}/slapd.conf", "-h", addresses]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        assert testing.wait_until(self.is_up), self.read_log()

    def is_up(self):
        for port in (self.port, self.tls_port):
            try:
                socket.create_connection(("127.0.0.1", port), 5).close()
            except OSError:
                return False
        return os.path.exists(self.socket)

    def read_log(self):
        with open(f"{self.directory}/log", encoding="utf-8", errors="replace") as log:
            return log.read()

    def stop(self):
        if self.process:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            self.process.wait(testing.DEADLINE)
            self.process = None
            self.log.close()

    def remove(self):
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


class Silent:
    """A server that accepts connections and never answers."""

    def __init__(self):
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.socket.listen(50)
        self.port = self.socket.getsockname()[1]
        self.accepted = []
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def accept(self):
        while True:
            try:
                self.accepted.append(self.socket.accept()[0])
            except OSError:
                return

    def close(self):
        # Ends the accept() of the thread.
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join()
        for accepted in self.accepted:
            accepted.close()


BASE = 'base = "ou=people,dc=example,dc=org", bind_dn = "cn=web,dc=example,dc=org", bind_password_file = "web.secret"'
GROUPS = 'group_base = "ou=groups,dc=example,dc=org"'
TEMPLATE = 'user_dn = "uid=%u,ou=people,dc=example,dc=org"'


class Ldap(AgentCase):
    @classmethod
    def setUpClass(cls):
        testing.need_file(f"{AGENTS}/build/sluice-ldap")
        cls.silent, cls.referred = Silent(), Silent()
        cls.addClassCleanup(cls.silent.close)
        cls.addClassCleanup(cls.referred.close)
        cls.ldap = Directory(cls.referred.port)
        cls.addClassCleanup(cls.ldap.remove)
        tls, plain = f"ldaps://127.0.0.1:{cls.ldap.tls_port}", f"ldap://127.0.0.1:{cls.ldap.port}"
        ca, other = f'ca_file = "{cls.ldap.directory}/ca.pem"', f'ca_file = "{cls.ldap.directory}/other.pem"'

        def ldap(server, *settings):
            return "ldap = { " + ", ".join([f'server = "{server}"', *settings]) + " }"

        cls.configuration = configuration(
            ("/search", ldap(tls, ca, BASE, GROUPS)),
            ("/quick", ldap(tls, ca, BASE, 'timeout = "1s"')),
            ("/starttls", 'agent = "ldap", ' + ldap(plain, ca, BASE)),
            ("/socket", ldap(cls.ldap.socket_address(), BASE)),
            ("/template", ldap(tls, ca, TEMPLATE, GROUPS)),
            ("/staff", ldap(tls, ca, BASE, GROUPS) + ', allow = ["group:staff"]'),
            ("/template-staff", ldap(tls, ca, TEMPLATE, GROUPS) + ', allow = ["group:staff"]'),
            ("/unix", ldap(tls, ca, BASE, GROUPS) + ', allow = ["group:unix"]'),
            ("/but-eve", ldap(tls, ca, BASE) + ', allow = ["any-user", "!user:eve"]'),
            ("/template-but-eve", ldap(tls, ca, TEMPLATE) + ', allow = ["any-user", "!user:eve"]'),
            ("/mail", ldap(tls, ca, BASE, 'filter = "(mail=%u)"', 'name_attribute = "uid"')),
            ("/wrong-ca", ldap(tls, other, BASE)),
            ("/wrong-ca-starttls", ldap(plain, other, BASE)),
            ("/wrong-name", ldap(tls.replace("127.0.0.1", "localhost"), ca, BASE)),
            ("/wrong-secret", ldap(tls, ca, BASE.replace("web.secret", "wrong.secret"))),
            ("/empty-secret", ldap(tls, ca, BASE.replace("web.secret", "empty.secret"))),
            ("/wrong-base", ldap(tls, ca, BASE.replace("ou=people", "ou=nowhere"))),
            ("/wrong-groups", ldap(tls, ca, BASE, 'group_base = "ou=secret,dc=example,dc=org"')),
            ("/down", ldap(f"ldaps://127.0.0.1:{free_port()}", ca, BASE)),
            ("/failover", "ldap = { " + f'server = ["ldaps://127.0.0.1:{free_port()}", "{tls}"], {ca}, {BASE}' + " }"),
            ("/silent", ldap(f"ldap://127.0.0.1:{cls.silent.port}", "clear_text = true", BASE, 'timeout = "1s"')),
            ("/silent-tls", ldap(f"ldaps://127.0.0.1:{cls.silent.port}", ca, BASE, 'timeout = "1s"')),
        )
        cls.files = {"who.sh": WHO, "web.secret": "of the server\n", "wrong.secret": "wrong\n", "empty.secret": "\n"}
        super().setUpClass()

    def test_users_log_in_by_a_search_or_by_a_template(self):
        for path in ("/search", "/starttls", "/socket", "/template", "/failover"):
            self.assertEqual(self.ask(path, "ann", "open sesame"), "ann|", path)
            self.assertEqual(self.ask(path, "ann", "wrong"), 401, path)
            self.assertEqual(self.ask(path, "nobody", "open sesame"), 401, path)
            self.assertEqual(self.ask(path, "locked", "open sesame"), 401, path)

    def test_an_empty_password_is_refused(self):
        # slapd of this test accepts such a bind (RFC 4513 section 5.1.2).
        for path in ("/search", "/template"):
            self.assertEqual(self.ask(path, "ann", ""), 401)

    def test_the_directory_names_the_groups(self):
        for path in ("/staff", "/template-staff"):
            self.assertEqual(self.ask(path, "ann", "open sesame"), "ann|staff")
            self.assertEqual(self.ask(path, "odd, name", "open sesame"), "odd, name|staff")
            self.assertEqual(self.ask(path, "eve", "open sesame"), 403)
        self.assertEqual(self.ask("/unix", "eve", "open sesame"), "eve|unix")
        self.assertEqual(self.ask("/unix", "ann", "open sesame"), 403)

    def test_the_name_has_the_spelling_of_the_directory(self):
        for path in ("/but-eve", "/template-but-eve"):
            self.assertEqual(self.ask(path, "ANN", "open sesame"), "ann|", path)
            for name in ("eve", "EVE", "Eve", " eve", "eve "):
                self.assertIn(self.ask(path, name, "open sesame"), [401, 403], (path, name))
        self.assertEqual(self.ask("/mail", "Ann@Example.org", "open sesame"), "ann|")

    def test_names_are_no_part_of_a_filter_or_of_the_name_of_an_entry(self):
        names = ["*", "a*", "ann)(uid=*", "*)(uid=ann", "ann)(|(uid=*", "nobody)(|(uid=ann)", "\\2a", "(", ")", "a\\"]
        names += ["ann,ou=people,dc=example,dc=org", "x+uid=ann", "ann\\,ou=people", "#616e6e", '"ann"', "uid=ann", "%u", "%d"]
        for name in names:
            for path in ("/search", "/template"):
                self.assertEqual(self.ask(path, name, "open sesame"), 401, (path, name))

    def test_several_entries_of_one_user_are_an_error(self):
        self.assertEqual(self.ask("/mail", "shared@example.org", "open sesame"), 502)
        self.assert_log("finds several entries of one user")

    def test_a_certificate_of_another_authority_or_name_gets_no_password(self):
        for path in ("/wrong-ca", "/wrong-ca-starttls", "/wrong-name"):
            self.assertEqual(self.ask(path, "ann", "open sesame"), 502, path)

    def test_a_directory_that_cannot_be_used_lets_nobody_in(self):
        for path, reason in [
            ("/wrong-secret", "bind as"),
            ("/empty-secret", "its first line is empty"),
            ("/wrong-base", "search below"),
            ("/wrong-groups", "search below"),
            ("/down", "Can't contact LDAP server"),
        ]:
            start = self.server.log_position()
            self.assertEqual(self.ask(path, "ann", "open sesame"), 502, path)
            self.server.log_line(reason, start)

    def test_a_directory_that_does_not_answer_is_given_up(self):
        for path in ("/silent", "/silent-tls"):
            self.assertIn(self.ask(path, "ann", "open sesame"), [502, 504], path)
        self.assertEqual(self.ask("/search", "eve", "open sesame"), "eve|")

    def test_a_directory_that_stops_is_given_up_and_taken_again(self):
        self.assertEqual(self.ask("/quick", "ann", "open sesame"), "ann|")
        os.kill(self.ldap.process.pid, signal.SIGSTOP)
        try:
            # Who is remembered has access, others have not.
            self.assertEqual(self.ask("/quick", "ann", "open sesame"), "ann|")
            self.assertIn(self.ask("/quick", "eve", "open sesame"), [502, 504])
        finally:
            os.kill(self.ldap.process.pid, signal.SIGCONT)
        self.assertEqual(self.ask("/quick", "eve", "open sesame"), "eve|")

    def test_referrals_are_not_followed(self):
        for path in ("/search", "/template"):
            for name in ("elsewhere", "ann2", "elsewhere,ou=elsewhere"):
                self.assertEqual(self.ask(path, name, "open sesame"), 401, (path, name))
        self.assertEqual(self.referred.accepted, [])

    def test_many_users_log_in_at_once(self):
        names = ["ann", "eve", "zoe", "odd, name"] * 8
        answers = [None] * len(names)

        def log_in(number):
            # The wrong ones are not remembered, so that each is a question.
            right = number % 2 == 0
            answers[number] = self.ask("/search", names[number], "open sesame" if right else f"wrong {number}")

        threads = [threading.Thread(target=log_in, args=(number,)) for number in range(len(names))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(answers, [f"{name}|" if number % 2 == 0 else 401 for number, name in enumerate(names)])
        self.assertLessEqual(len(self.server.scripts()), 40)

    def test_a_directory_that_was_restarted_is_connected_again(self):
        self.assertEqual(self.ask("/search", "zoe", "open sesame"), "zoe|")
        self.ldap.stop()
        self.assertEqual(self.ask("/search", "odd, name", "open sesame"), 502)
        self.ldap.start()
        self.assertEqual(self.ask("/search", "odd, name", "open sesame"), "odd, name|")

    def test_the_password_of_the_server_is_not_sent_and_not_shown(self):
        self.assertEqual(self.ask("/search", "ann", "open sesame"), "ann|")
        for process in self.server.scripts():
            for name in ("cmdline", "environ"):
                try:
                    with open(f"/proc/{process.pid}/{name}", "rb") as file:
                        content = file.read()
                except OSError:
                    continue  # it has ended
                self.assertNotIn(b"of the server", content)
                self.assertNotIn(b"open sesame", content)
        self.assertNotIn("of the server", self.server.log())
        self.assertNotIn("open sesame", self.server.log())


class Withheld(unittest.TestCase):
    def test_the_file_with_the_password_is_never_sent(self):
        testing.need_file(f"{AGENTS}/build/sluice-ldap")
        text = """
            [server]
            sdk = "@SDK@"
            [[site]]
            root = "htdocs"
              [[site.route]]
              path = "/private/*"
              access = { ldap = { server = "ldaps://127.0.0.1", base = "dc=x", bind_dn = "cn=w", bind_password_file = "htdocs/web.secret" } }
        """
        with testing.Server(text, {"htdocs/web.secret": "hidden", "htdocs/a.txt": "shown"}) as server:
            self.assertEqual(server.get("/a.txt").text, "shown")
            self.assertEqual(server.get("/web.secret").status, 404)


if __name__ == "__main__":
    unittest.main()
