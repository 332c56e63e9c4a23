"""sluice.sh without a server: coding, responses and what happens to text of clients, in dash and in bash."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SHELL = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(SHELL, ".."))
import testing  # noqa: E402

SHELLS = [[name] for name in ("dash", "bash") if shutil.which(name)]

# Texts that a shell would run, expand or split if it were given the chance.
HOSTILE = (
    "$(touch pwned)", "`touch pwned`", "; touch pwned", "\n touch pwned\n", "*", "/*", "~", "$HOME", "${HOME}", "'; touch pwned; '", '"; touch pwned; "', "a b  c",
    "\\", "\\$(x)", "-n", "-e", "%s%n", "&& touch pwned", "| touch pwned", "> pwned", "$((1/0))", "\\0101", "!!", "ö ü", "a\x1eb", "[a-z]", "\t", "x\n\n",
)


def encode(text):
    return "".join(f"%{byte:02X}" for byte in text.encode())


class Library(unittest.TestCase):
    def run_script(self, text, shell=("dash",), variables=None, body=b"", status=0, arguments=()):
        environment = {"PATH": os.environ["PATH"], "SLUICE_SHELL": SHELL + "/build", "LC_ALL": "C.UTF-8"} | (variables or {})
        with tempfile.TemporaryDirectory() as directory:
            script = f'set -eu\n. "{SHELL}/sluice.sh"\n{text}\n'
            done = subprocess.run([*shell, "-c", script, "sh", *arguments], cwd=directory, env=environment | {"TMPDIR": directory}, input=body, capture_output=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (status, b""), (shell, text, done.stdout))
            # Uploads are removed by a process of their own, a moment later.
            testing.wait_until(lambda: not any(name.startswith("sluice-upload-") for name in os.listdir(directory)))
            self.assertEqual(os.listdir(directory), [], "something of the input was run")
        return done.stdout

    def test_decoding_and_encoding(self):
        decoded = {
            "a+b%20c": "a b c", "%": "%", "%%": "%%", "%4": "%4", "%4g%41": "%4gA", "%00x": "%00x", "%e2%82%ac": "€", "%0A": "\n", "%25%34%31": "%41",
            "%*": "%*", "a%%41": "a%A", "": "", "%7F%01": "\x7f\x01", "%41%": "A%",
        }
        texts = [*HOSTILE, *("x" * 100 + text for text in HOSTILE), "".join(map(chr, range(1, 127))), "€ß"]
        for shell in SHELLS:
            got = self.run_script('for text; do sluice_url_decode "$text"; printf "%s\\000" "$REPLY"; done', shell, arguments=decoded)
            self.assertEqual(got.decode().split("\0")[:-1], list(decoded.values()), shell)
            both = 'for text; do sluice_url_encode "$text"; printf "%s\\000" "$REPLY"; sluice_url_decode "$REPLY"; printf "%s\\000" "$REPLY"; done'
            got = self.run_script(both, shell, arguments=texts).decode().split("\0")[:-1]
            self.assertEqual(got[1::2], texts, shell)
            for encoded in got[0::2]:
                self.assertRegex(encoded, r"^[A-Za-z0-9._~%-]*$")

    def test_long_texts_take_little_time_of_the_processor(self):
        calls = (
            'ulimit -t 20; text=$(head -c 60000 | tr x +); sluice_url_decode "$text"; printf "%s " "${#REPLY}"\n'
            'sluice_url_encode "$text"; printf "%s " "${#REPLY}"; sluice_url_decode "$REPLY"; [ "$REPLY" = "$text" ]\n'
            "sluice_escape_html \"$(printf %s \"$text\" | tr + \"'\")\"; printf '%s' \"${#REPLY}\""
        )
        for shell in SHELLS:
            self.assertEqual(self.run_script(calls, shell, body=b"x" * 60000), b"60000 180000 300000", shell)

    def test_html_is_escaped(self):
        for shell in SHELLS:
            for command in ('sluice_escape_html "$TEXT"; printf "%s\\n" "$REPLY"', 'printf "%s\\n" "$TEXT" | sluice_escape_html'):
                got = self.run_script(command, shell, {"TEXT": "<a href=\"x\">'&amp;\\&*"})
                self.assertEqual(got, b"&lt;a href=&quot;x&quot;&gt;&#39;&amp;amp;\\&amp;*\n")

    def test_text_of_clients_is_never_run_or_expanded(self):
        show = r'''sluice_accept; sluice_parameter a; printf '%s\000' "$REPLY"
            sluice_parameter "$TEXT"; printf '%s\000' "$REPLY"; sluice_parameter_at 0; printf '%s\000' "$SLUICE_NAME"
            sluice_variable "$TEXT" none || printf '%s\000' "$?$REPLY"; sluice_variable TEXT; printf '%s\000' "$REPLY"'''
        for shell in SHELLS:
            for text in HOSTILE:
                query = f"{encode(text)}=1&a={encode(text)}"
                got = self.run_script(show, shell, {"QUERY_STRING": query, "TEXT": text})
                self.assertEqual(got.decode().split("\0")[:-1], [text, "1", text, "1none", text], shell)
            for text in ("1a", "", "a-b", "ä", "a=b", "PATH;", "a$b"):
                self.run_script('! sluice_variable "$TEXT" || exit 3', shell, {"TEXT": text})

    def test_text_of_clients_in_bodies_is_never_run_either(self):
        show = 'sluice_accept; sluice_parameter a; printf "%s" "$REPLY"'
        for shell in SHELLS:
            for text in HOSTILE[::2] if shell == ["bash"] else HOSTILE[1::2]:
                urlencoded = f"a={encode(text)}".encode()
                long = urlencoded + b"&x=" + b"y" * 70_000
                multipart = b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n' + text.encode() + b"\r\n--b--\r\n"
                for body, kind in ((urlencoded, "application/x-www-form-urlencoded"), (long, "application/x-www-form-urlencoded"), (multipart, "multipart/form-data; boundary=b")):
                    variables = {"CONTENT_TYPE": kind, "CONTENT_LENGTH": str(len(body))}
                    if "\x1e" in text and body is not urlencoded:
                        self.assertEqual(self.run_script("sluice_accept; sluice_parameter a || printf %s $?$SLUICE_ERROR", shell, variables, body), b"2400")
                        continue
                    self.assertEqual(self.run_script(show, shell, variables, body), text.encode(), (shell, kind))

    def test_file_names_of_clients_are_never_run(self):
        show = 'sluice_accept; sluice_upload f; printf "%s|%s|%s" "$SLUICE_UPLOAD_FILE_NAME" "$SLUICE_UPLOAD_TYPE" "$(cat "$SLUICE_UPLOAD_PATH")"; sluice_finish'
        for shell in SHELLS:
            for name in ("$(touch pwned)", "`touch pwned`", "-rf", "*", "a b", "; rm x"):
                body = f'--b\r\nContent-Disposition: form-data; name="f"; filename="{name}"\r\nContent-Type: $(x)\r\n\r\ndata\r\n--b--\r\n'.encode()
                got = self.run_script(show, shell, {"CONTENT_TYPE": "multipart/form-data; boundary=b", "CONTENT_LENGTH": str(len(body))}, body)
                self.assertEqual(got, f"{name}|$(x)|data".encode())

    def test_heads_cannot_be_split(self):
        for shell in SHELLS:
            got = self.run_script('sluice_accept; ! sluice_header X "$TEXT"; ! sluice_header "$TEXT" x; ! sluice_redirect "$TEXT"; ! sluice_event a "$TEXT"; ! sluice_respond "$TEXT"; '
                                  "sluice_header X-A b; sluice_respond text/plain; sluice_write ok", shell, {"TEXT": "a\r\nSet-Cookie: b"})
            self.assertEqual(got, b"X-A: b\nContent-Type: text/plain\n\nok")

    def test_responses(self):
        for shell in SHELLS:
            for calls, expected in (
                ("sluice_respond; sluice_respond", b"Content-Type: text/html; charset=utf-8\n\n"),
                ("sluice_status 404; sluice_write x", b"Status: 404 Not Found\nContent-Type: text/html; charset=utf-8\n\nx"),
                ("sluice_status 204; sluice_finish", b"Status: 204 No Content\n\n"),
                ("sluice_redirect /a 303", b"Status: 303 See Other\nLocation: /a\nContent-Type: text/plain; charset=utf-8\n\n/a\n"),
                ("sluice_header X y; sluice_fail 403 no", b"Status: 403 Forbidden\nContent-Type: text/plain; charset=utf-8\n\n403 Forbidden\nno\n"),
                ("sluice_fail", b"Status: 500 Internal Server Error\nContent-Type: text/plain; charset=utf-8\n\n500 Internal Server Error\n"),
                ("sluice_respond t; ! sluice_fail 500; ! sluice_status 404; ! sluice_header a b", b"Content-Type: t\n\n"),
                ("sluice_event a; sluice_event '' n 1", b"Cache-Control: no-store\nX-Accel-Buffering: no\nContent-Type: text/event-stream\n\ndata: a\n\nevent: n\nid: 1\ndata: \n\n"),
            ):
                self.assertEqual(self.run_script("sluice_accept; " + calls, shell), expected, (shell, calls))

    def test_bounds(self):
        for shell in SHELLS:
            got = self.run_script("sluice_accept; sluice_parameter_count || sluice_fail", shell, {"QUERY_STRING": "a=&" * 1001})
            self.assertTrue(got.startswith(b"Status: 413 "), got)
            body = b"a=1"
            short = {"CONTENT_TYPE": "application/x-www-form-urlencoded", "CONTENT_LENGTH": "100"}
            self.assertTrue(self.run_script("sluice_accept; sluice_parameter_count || sluice_fail", shell, short, body).startswith(b"Status: 400 "))

    def test_options_and_ifs_of_the_script_stay(self):
        for shell in SHELLS:
            got = self.run_script('IFS=x; set -f; sluice_accept; sluice_parameter a; case $- in *f*) printf "%s" "$IFS$REPLY" ;; esac\nunset IFS; set +f; sluice_url_decode "a%20*"; '
                                  'case $- in *f*) ;; *) printf "%s" "${IFS-unset}" ;; esac; set -- $REPLY; printf " $#"', shell, {"QUERY_STRING": "a=1"})
            self.assertEqual(got, b"x1unset 2")


if __name__ == "__main__":
    unittest.main()
