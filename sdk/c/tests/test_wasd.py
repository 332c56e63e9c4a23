"""Sources in the style of WASD, compiled unmodified with the documented command."""

import os
import subprocess
import tempfile
import unittest

import server
from test_fields import BOUNDARY, CLOSE, part
from test_requests import Case

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(server.HERE)))


class Compilation(unittest.TestCase):
    def test_the_documented_command_compiles_without_a_warning(self):
        for name in ("wasd_membuf", "wasd_stdio", "wasd_cgilib", "wasd_form"):
            with self.subTest(name), tempfile.TemporaryDirectory() as directory:
                done = subprocess.run(
                    ["cc", "-std=gnu89", "-I", "sdk/c/wasd", "-I", "sdk/c/include", f"sdk/c/tests/{name}.c", "sdk/c/build/libsluice.a", "-o", f"{directory}/script"],
                    cwd=ROOT, capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""))


class MemBuf(Case):
    def send(self, program, keys):
        variables = {f"WWW_KEY_{n}": key for n, key in enumerate(keys.split("+"), 1)}
        script = self.start(program, persistent=False, variables=variables)
        response = script.response()
        return response, script.wait()

    def test_it_sends_what_membufdemo_sends(self):
        for keys in ("2+m+1000", "2+b+1000", "1+b+100000", "1", "1+b+65536+2"):
            with self.subTest(keys):
                theirs, (status, _) = self.send("tests/wasd_membuf", keys)
                ours, _ = self.send("membufdemo", keys)
                self.assertEqual(status, 0)
                self.assertEqual(theirs.head.splitlines(), ours.head.splitlines())
                self.assertTrue(theirs.body == ours.body)

    def test_a_refused_buffer_is_an_error_response_and_an_exit_status(self):
        for answer, status in (("403 not allowed", 36), ("413 too much", 28), ("503 no memory", 292), ("400 no", 20), ("500 broken", 44)):
            script = self.start("tests/wasd_membuf", persistent=False, variables={"WWW_KEY_1": "1", "WWW_KEY_2": "b"})
            script.answers["BUFFER-BEGIN"] = answer
            response = script.response()
            self.assertEqual(response.field("Status"), "500")
            self.assertEqual(response.body, f"MemBufLibBegin() %X{status:08X}\n".encode())
            self.assertEqual(script.wait(), (status & 0xFF, f"exit with status %X{status:08X}\n"))

    def test_a_disconnect_is_exit_44(self):
        script = self.start("tests/wasd_membuf", persistent=False, variables={"WWW_KEY_1": "100", "WWW_KEY_2": "b"})
        script.on_ring = lambda response: script.ring.close()
        script.response()
        self.assertEqual(script.wait()[0], 44)

    def test_the_software_identifies_itself(self):
        self.assertIn("WASD_MEMBUF", subprocess.run([f"{server.BUILD}/tests/wasd_membuf", "/VERSION"], capture_output=True, text=True, check=True).stdout)


class Stdio(Case):
    def request(self, script, *keys, body=b""):
        variables = {f"WWW_KEY_{n}": key for n, key in enumerate(keys, 1)}
        return script.ask(variables | {"WWW_CONTENT_LENGTH": str(len(body))}, body)

    def test_a_script_with_its_own_protocol_code_works_in_both_mailboxes(self):
        for options in ({}, {"records": True}):
            with self.subTest(options):
                script = self.start("tests/wasd_stdio", **options)
                self.assertEqual(self.request(script).body, b"Usage: 1")
                response = self.request(script, "callout")
                self.assertEqual(response.body, b"before [200 OK] between [(none)] [200 /srv/path] after")
                self.assertEqual(self.request(script).body, b"Usage: 3")
                self.assertEqual(script.leave(), (0, ""))

    def test_it_may_use_the_memory_buffer(self):
        script = self.start("tests/wasd_stdio")
        expected = b"".join(bytes([n]) * 5000 for n in range(100))
        for _ in range(4):
            response = self.request(script, "buffer")
            self.assertEqual(response.field("X-mbuf"), f"/dev/fd/4 {1 << 20}")
            self.assertTrue(response.body == expected)
        script.answers["BUFFER-BEGIN"] = "413 too much"
        self.assertEqual(self.request(script, "buffer").body, b"%X0000001C")

    def test_file_names_of_openvms_are_known(self):
        response = self.request(self.start("tests/wasd_stdio"), "files", body=b"the body")
        self.assertEqual(response.body, b"1 %X00000910\nthe body\n24 a string in a descriptor\n")

    def test_odd_statuses_are_success(self):
        for status, code in ((1, 0), (0, 0), (9, 0), (44, 44), (20, 20), (0x10000002, 2), (0x10000, 1), (2320, 0x10)):
            script = self.start("tests/wasd_stdio")
            script.request({"WWW_KEY_1": "exit", "WWW_KEY_2": str(status)})
            self.assertEqual(script.wait(), (code, f"exit with status %X{status:08X}\n" if code else ""))


class CgiLib(Case):
    def test_it_serves_as_cgiplus_and_as_cgi(self):
        for options in ({}, {"records": True}):
            script = self.start("tests/wasd_cgilib", **options)
            for use in (1, 2, 3):
                self.assertEqual(script.ask({"WWW_SERVER_NAME": "a"}).body, f"{use} a nothing\n200 /srv/doc/".encode())
            self.assertEqual(script.leave(), (0, ""))
        script = self.start("tests/wasd_cgilib", persistent=False, variables={"SERVER_NAME": "b"})
        self.assertEqual(script.response().body, b"1 b nothing")
        self.assertEqual(script.wait(), (0, ""))

    def test_fields_and_files_of_a_body_become_variables(self):
        multipart = part('name="na-me"', b"value") + part('name="file"; filename="a.txt"', b"content", "Content-Type: text/csv\r\n") + CLOSE
        script = self.start("tests/wasd_form")
        for wanted in ("read", "at once"):
            kind = {"WANTED": wanted, "CONTENT_TYPE": f"multipart/form-data; boundary={BOUNDARY}"}
            response = script.ask(kind, multipart)
            self.assertEqual(response.body, b"value|content|a.txt|text/csv|none")
            self.assertEqual(response.field("Content-Type"), "text/plain; charset=utf-8")
            self.assertEqual((response.field("Expires"), response.field("Script-Control")), ("never", "X-stream-mode"))
            response = script.ask({"WANTED": wanted, "CONTENT_TYPE": "application/x-www-form-urlencoded"}, b"na%2Dme=a+b")
            self.assertEqual(response.body, b"a b||||none")
            self.assertEqual(script.ask(kind, b"broken").field("Status"), "400 Bad Request")
        self.assertEqual(script.ask({"WANTED": "x"}).body, b"||||none")
        self.assertEqual(script.leave(), (0, ""))

    def test_responses_and_coding(self):
        script = self.start("tests/wasd_form")
        self.assertEqual(script.ask({"WANTED": "redirect"}).field("Location"), "/other?a=7")
        self.assertEqual(script.ask({"WANTED": "code"}).body, b"&lt;a&amp;b&gt;|&lt;&lt;|a%20b|a+b+c|5 a b c")
        response = script.ask({"WANTED": "error"})
        self.assertRegex(response.field("Script-Control"), "^X-error-text=\"no 'file'\"; X-error-module=\"wasd_form.c\"; X-error-line=[0-9]+; X-error-vms-status=%X00000910$")


if __name__ == "__main__":
    unittest.main()
