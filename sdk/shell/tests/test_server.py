"""sluice.sh and its examples under the real server: as CGI and CGIplus, in dash and in bash."""

import os
import shutil
import sys
import unittest

SHELL = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(SHELL, ".."))
import testing  # noqa: E402

BOUNDARY = "----bound"
KIND = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
URLENCODED = {"Content-Type": "application/x-www-form-urlencoded"}


def part(disposition, content=b""):
    return f"--{BOUNDARY}\r\nContent-Disposition: form-data; {disposition}\r\n\r\n".encode() + content + b"\r\n"


CLOSE = f"--{BOUNDARY}--\r\n".encode()

LOOP = '. "$SLUICE_SHELL/sluice.sh"\nwhile sluice_accept; do\n%s\ndone\n'
SCRIPTS = {
    "variables": 'sluice_respond text/plain\nsluice_variable SCRIPT_NAME\nprintf "%s|%s|%s|%s|" "$REPLY" "${QUERY_STRING-none}" "${HTTP_X_A-none}" "${CGIPLUSEOF-none}"\n'
    "if sluice_is_persistent; then echo persistent; else echo once; fi",
    "body": "sluice_respond application/octet-stream\nsluice_body_read",
    "part": "sluice_respond text/plain\nsluice_body_read 3",
    "form": 'if sluice_upload f; then\nsluice_respond text/plain\nmv "$SLUICE_UPLOAD_PATH" "$TMPDIR/kept"\nprintf "%s" "$SLUICE_UPLOAD_BYTES"\nelse\nsluice_fail\nfi',
    "paths": 'sluice_upload f\nsluice_respond text/plain\nprintf "%s\\n" "$SLUICE_UPLOAD_PATH"',
    "killed": "sluice_upload f\nkill -KILL $$",
    "redirect": "sluice_redirect /variables 303",
    "local": "sluice_redirect '/x y?a=b'",
    "callouts": 'sluice_map_path /a.txt\nfile=$REPLY\nsluice_map_file "$file"\nsluice_respond text/plain\nprintf "%s %s" "$file" "$REPLY"\nsluice_notice "one\ntwo"\n'
    'sluice_lifetime 5m\nprintf " %s" "$REPLY"\nsluice_callout NOOP:\nprintf " %s %s" "$SLUICE_CODE" "$REPLY"\nsluice_callout NONSENSE: || printf " %s" "$?"',
    "large": "sluice_respond text/plain\nfor x in 1 2 3 4; do head -c 1000000 /dev/zero | tr '\\0' x; done",
    "buffer": "sluice_buffer_begin 131072\nsize=$REPLY\nsluice_header X-Size \"$size\"\nsluice_respond text/plain\nseq 1 200000 | sluice_buffer_write\nprintf 'end\\n' | sluice_buffer_write\n"
    "sluice_buffer_end\nprintf '%s' \"$REPLY\"",
    "two_buffers": "sluice_buffer_begin 1\n! sluice_buffer_begin 1 || exit 9\nsluice_respond text/plain\nprintf no | sluice_buffer_write || printf refused",
}


def configuration():
    routes = []
    for shell in ("dash", "bash"):
        for mode in ("cgi", "cgiplus"):
            for name, directory in (("", "scripts"), ("examples/", f"{SHELL}/examples")):
                routes.append(f"""
          [[site.route]]
          path = "/{name}{shell}/{mode}/*"
          script = {{ directory = "{directory}", mode = "{mode}", max = 1, interpreters = {{ ".sh" = "{shell}" }},
            environment = {{ SLUICE_SHELL = "{SHELL}/build-or-source", TMPDIR = "@TMP@" }} }}""")
    return '[limits]\nbody_size = "300MiB"\n[[site]]\nroot = "htdocs"\n' + "".join(routes)


class Case(testing.ServerCase):
    # One directory with the library and its program, as `make install` makes it.
    configuration = configuration().replace(f"{SHELL}/build-or-source", "@DIR@/library")
    files = {f"scripts/{name}.sh": LOOP % text for name, text in SCRIPTS.items()} | {"htdocs/a.txt": "text"}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        os.mkdir(cls.server.path("library"))
        for name in ("sluice.sh", "build/sluice-form"):
            shutil.copy(f"{SHELL}/{name}", cls.server.path("library"))

    def everywhere(self, modes=("cgi", "cgiplus")):
        return [f"/{shell}/{mode}" for shell in ("dash", "bash") for mode in modes]

    def uploads(self):
        return [name for name in os.listdir(self.server.temporary) if name.startswith("sluice-upload-")]


class Records(testing.ServerCase):
    """The same in a record mailbox, where each write is a record."""

    configuration = """
        [[site]]
        root = "htdocs"
          [[site.route]]
          path = "/*"
          script = { directory = "scripts", mode = "cgiplus", mailbox = "record", max = 1, interpreters = { ".sh" = "dash" },
            environment = { SLUICE_SHELL = "SOURCE", TMPDIR = "@TMP@" } }
    """.replace("SOURCE", SHELL)
    files = {f"scripts/{name}.sh": LOOP % SCRIPTS[name] for name in ("variables", "callouts", "buffer", "large")} | {"htdocs/a.txt": "text"}

    def test_heads_callouts_and_the_memory_buffer(self):
        for _ in range(2):
            self.assertEqual(self.server.get("/variables.sh?a=1").text, "/variables.sh|a=1|none|none|\npersistent\n")
            self.assertIn(" 300", self.server.get("/callouts.sh").text)
            response = self.server.get("/buffer.sh")
            self.assertTrue(response.is_complete and response.text.startswith("1\n2\n"), response)
            self.assertIn("200000\nend\n", response.text)


class Scripts(Case):
    def test_variables_of_a_request_are_gone_in_the_next(self):
        for place in self.everywhere():
            kind = "once" if place.endswith("cgi") else "persistent"
            first = self.server.get(f"{place}/variables.sh?a=$(id)", {"X-A": "`id`"})
            self.assertEqual(first.text, f"{place}/variables.sh|a=$(id)|`id`|none|{kind}\n")
            self.assertEqual(self.server.get(f"{place}/variables.sh").text, f"{place}/variables.sh||none|none|{kind}\n")

    def test_bodies_are_binary_and_end_where_they_end(self):
        content = bytes(range(256)) * 3000
        for place in self.everywhere():
            response = self.server.request("POST", f"{place}/body.sh", (), content)
            self.assertTrue(response.is_complete and response.body == content)
            self.assertEqual(self.server.request("POST", f"{place}/part.sh", (), b"abcdef" * 1000).body, b"abc")
            self.assertEqual(self.server.request("POST", f"{place}/part.sh", (), b"xyz").body, b"xyz")
            self.assertEqual(self.server.get(f"{place}/body.sh").body, b"")

    def test_uploads_are_files_that_a_script_may_move(self):
        content = bytes(range(256)) * 8000
        for place in self.everywhere():
            response = self.server.request("POST", f"{place}/form.sh", KIND, part('name="f"; filename="x"', content) + CLOSE)
            self.assertEqual((response.status, response.text), (200, str(len(content))))
            kept = os.path.join(self.server.temporary, "kept")
            with open(kept, "rb") as file:
                self.assertTrue(file.read() == content)
            os.unlink(kept)
        testing.wait_until(lambda: not self.uploads())

    def test_uploads_are_removed_however_the_script_ends(self):
        body = part('name="f"; filename="x"', b"1") + CLOSE
        for place in self.everywhere():
            path = self.server.request("POST", f"{place}/paths.sh", KIND, body).text.strip()
            self.assertTrue(path.startswith(self.server.temporary), path)
            self.assertIn(self.server.request("POST", f"{place}/killed.sh", KIND, body).status, (502, 200))
        testing.wait_until(lambda: not self.uploads())

    def test_malformed_and_large_bodies_are_refused(self):
        for place in self.everywhere():
            for body, status in ((b"x", 400), (part('name="a"'), 400), (part('name="a"') * 1001 + CLOSE, 413), (part('name="a"', b"\0") + CLOSE, 400),
                                 (part('name="a"', b"x" * (9 << 20)) + CLOSE, 413)):
                self.assertEqual(self.server.request("POST", f"{place}/form.sh", KIND, body).status, status, body[:100])
            self.assertEqual(self.server.request("POST", f"{place}/form.sh", URLENCODED, b"a=" + b"x" * (9 << 20)).status, 413)
            self.assertEqual(self.server.request("POST", f"{place}/form.sh", KIND, part('name="f"; filename=x', b"1") + CLOSE).status, 200)
        os.unlink(os.path.join(self.server.temporary, "kept"))
        testing.wait_until(lambda: not self.uploads())

    def test_redirects(self):
        for place in self.everywhere():
            response = self.server.get(f"{place}/redirect.sh")
            self.assertEqual((response.status, response.field("Location")), (303, "/variables"))
            self.assertEqual(self.server.get(f"{place}/local.sh").status, 302)

    def test_callouts(self):
        for place in self.everywhere():
            response = self.server.get(f"{place}/callouts.sh")
            self.assertEqual(response.text, f"{self.server.path('htdocs/a.txt')} /a.txt 300 200 OK 1", place)
        self.server.log_line("one two")

    def test_the_memory_buffer(self):
        expected = "".join(f"{number}\n" for number in range(1, 200001)) + "end\n"
        for place in self.everywhere():
            for _ in range(2):
                response = self.server.get(f"{place}/buffer.sh")
                self.assertEqual(int(response.field("X-Size")) % 65536, 0)
                self.assertTrue(response.text == expected + str(len(expected)), response)
            self.assertEqual(self.server.get(f"{place}/two_buffers.sh").status, 200)

    def test_large_output(self):
        for place in self.everywhere():
            self.assertEqual(self.server.get(f"{place}/large.sh").body, b"x" * 4_000_000)


class Examples(Case):
    def test_hello(self):
        for place in self.everywhere():
            self.assertIn("Hello, 127.0.0.1.\nThis process has answered ", self.server.get(f"/examples{place}/hello.sh").text)

    def test_counter(self):
        for place in self.everywhere(["cgiplus"]):
            self.assertEqual([self.server.get(f"/examples{place}/counter.sh").text for _ in range(3)], ["1\n", "2\n", "3\n"])

    def test_form(self):
        body = part('name="name"', "<Zoë> $(id)".encode()) + part('name="file"; filename="a.txt"', b"123456789") + CLOSE
        for place in self.everywhere():
            path = f"/examples{place}/form.sh"
            self.assertIn('enctype="multipart/form-data"', self.server.get(path).text)
            text = self.server.request("POST", path, KIND, body).text
            self.assertIn("<dt>name=&lt;Zoë&gt; $(id)\n", text)
            self.assertIn("<dt>a.txt: 9 bytes of text/plain, checksum 930766865\n", text)
            self.assertIn("<dt>name=a b\n", self.server.request("POST", path, URLENCODED, b"name=a+b").text)
            self.assertEqual(self.server.request("POST", path, KIND, b"x").status, 400)

    def test_download(self):
        for place in self.everywhere():
            response = self.server.get(f"/examples{place}/download.sh?mb=9")
            self.assertEqual((response.status, response.field("X-Buffer"), response.is_complete), (200, "yes", True))
            self.assertTrue(response.body == bytes(9 << 20))
            self.assertEqual(self.server.get(f"/examples{place}/download.sh?mb=x").status, 400)

    def test_events(self):
        for place in self.everywhere():
            lines = self.server.get(f"/examples{place}/events.sh?count=2&pause=0", {"Last-Event-ID": "7"}).text.splitlines()
            self.assertEqual([lines[0], lines[1], lines[4], lines[5]], ["event: tick", "id: 8", "event: tick", "id: 9"])


if __name__ == "__main__":
    unittest.main()
