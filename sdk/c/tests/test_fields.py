"""Responses, forms, uploads, coding, and callouts with names."""

import os
import subprocess
import tempfile
import unittest

import server
from test_requests import Case

BOUNDARY = "----bound"


def part(disposition, content=b"", fields=""):
    return f"--{BOUNDARY}\r\nContent-Disposition: form-data; {disposition}\r\n{fields}\r\n".encode() + content + b"\r\n"


CLOSE = f"--{BOUNDARY}--\r\n".encode()


class Forms(Case):
    def setUp(self):
        self.script = self.start("tests/forms")

    def send(self, probe, body=b"", query="", kind="application/x-www-form-urlencoded", **variables):
        known = {"PROBE": probe, "QUERY_STRING": query, "CONTENT_TYPE": kind} | variables
        return self.script.ask({name: value for name, value in known.items() if value is not None}, body)

    def form(self, body=b"", query="", kind="application/x-www-form-urlencoded", **variables):
        return self.send("form", body, query, kind, **variables).body

    def multipart(self, body, **variables):
        return self.form(body, kind=f"multipart/form-data; boundary={BOUNDARY}", **variables)

    def test_fields_of_the_query_and_the_body_come_in_order(self):
        self.assertEqual(self.form(b"c=3&a=4", "a=1&b=2"), b"a=1;b=2;c=3;a=4;")
        self.assertEqual(self.form(query="a=1&b=2"), b"a=1;b=2;")
        self.assertEqual(self.form(b"a=b", kind="text/plain"), b"")
        self.assertEqual(self.form(b"a=b", kind="application/x-www-form-urlencoded; charset=utf-8"), b"a=b;")
        self.assertEqual(self.form(query="one+two&flag"), b"one two=;flag=;")

    def test_every_kind_of_urlencoding(self):
        for sent, expected in (
            (b"a=b+c%20d", b"a=b c d;"), (b"a", b"a=;"), (b"a=&=b", b"a=;=b;"), (b"&&a=1&&", b"a=1;"), (b"a=b=c", b"a=b=c;"),
            (b"%61=%62", b"a=b;"), (b"a=%", b"a=%;"), (b"a=%4", b"a=%4;"), (b"a=%4g", b"a=%4g;"), (b"a=%00b", b"a=\0b;"),
            (b"a=%0d%0A", b"a=\r\n;"), (b"a=1;b=2", b"a=1;b=2;"), ("a=ö".encode(), "a=ö;".encode()),
        ):
            self.assertEqual(self.form(sent), expected, sent)

    def test_fields_are_found_by_their_whole_names(self):
        response = self.send("lookup", b"a=1&b=2&a=3&a%00c=4&A=5", WANTED="a")
        self.assertEqual(response.body, b"0=1 1=3 1 none")
        self.assertEqual(self.send("lookup", b"aa=1", WANTED="a").body, b"(none) none")

    def test_limits(self):
        self.assertEqual(self.form(b"a&" * 1000).count(b";"), 1000)
        self.assertEqual(self.form(b"a&" * 1001), b"EFBIG 0")
        self.assertEqual(self.form(query="a=&" * 1001), b"EFBIG 0")
        self.assertEqual(self.form(CONTENT_LENGTH=str(9 << 20)), b"EFBIG 0")
        many = b"".join(part('name="a"') for _ in range(1001)) + CLOSE
        self.assertEqual(self.multipart(many), b"EFBIG 0")
        self.assertEqual(self.multipart(part('name="f"; filename="x"', b"12345") * 2 + CLOSE, LIMIT="9"), b"EFBIG 0")
        self.assertNotEqual(self.multipart(part('name="f"; filename="x"', b"12345") * 2 + CLOSE, LIMIT="10"), b"EFBIG 0")

    def test_a_field_of_a_multipart_body_is_bounded_too(self):
        script = self.start("tests/forms", persistent=False, variables={
            "PROBE": "form", "CONTENT_TYPE": f"multipart/form-data; boundary={BOUNDARY}", "CONTENT_LENGTH": str(10 << 20)}, body=None, open_body=True)
        script.feed(part('name="a"')[:-2] + b"x" * (9 << 20))
        self.assertEqual(script.response().body, b"EFBIG 0")

    def test_multipart_fields_and_files(self):
        body = part('name="a"', b"1") + part('name="f"; filename="x y.txt"', b"\0data\r\n", "Content-Type: text/csv\r\n")
        body += part('name="a"', b"\r\n--") + part('name="e"; filename=""') + part("name=f; filename=plain", b"") + CLOSE
        self.assertEqual(self.multipart(body), b"a=1;a=\r\n--;f|x y.txt|text/csv|7|1|\0data\r\n;f|plain|text/plain|0|1|;")
        self.assertEqual(self.multipart(b"preamble\r\n" + part('name="a"', b"1") + CLOSE + b"epilogue" * 100), b"a=1;")
        self.assertEqual(self.multipart(CLOSE), b"")
        self.assertEqual(self.multipart(f"--{BOUNDARY}\r\nContent-Disposition: form-data; name=a\r\n\r\n".encode() + CLOSE), b"a=;")

    def test_file_names_lose_their_directories(self):
        for sent, expected in (
            ("../../etc/passwd", "passwd"), ("C:\\docs\\a.txt", "a.txt"), ("..", ""), ("a/..", ""), ("a\\\"b.txt", 'a"b.txt'), ("ö.txt", "ö.txt"),
            ("a%22b", 'a"b'), (".hidden", ".hidden"), ("a/", ""),
        ):
            got = self.multipart(part(f'name="f"; filename="{sent}"', b"1") + CLOSE)
            self.assertEqual(got, f"f|{expected}|text/plain|1|1|1;".encode() if expected else b"", sent)

    def test_malformed_bodies_are_refused(self):
        whole = part('name="a"', b"1")
        cases = [
            b"", b"x", whole, whole + b"--" + BOUNDARY.encode(), whole + f"--{BOUNDARY}-".encode(), whole + f"--{BOUNDARY}x\r\n".encode() + CLOSE,
            whole.replace(b"\r\n", b"\n") + CLOSE, whole.replace(b"; name=", b"; id=") + CLOSE, part('name="a"; name="b"') + CLOSE, part('name="a') + CLOSE,
            part('name="a"; filename=x; filename=y') + CLOSE, part('name="a"', fields="Content-Disposition: form-data; name=b\r\n") + CLOSE,
            part('name="a"', fields="Content-Transfer-Encoding: base64\r\n") + CLOSE, part('name="a\0b"') + CLOSE, part('name="a\x01b"') + CLOSE,
            part('name="a"', fields="no colon\r\n") + CLOSE, part('name="a"', fields=": x\r\n") + CLOSE, part('name="a"', fields="X: " + "y" * 9000 + "\r\n") + CLOSE,
            part('name="a"', fields="X: y\r\n" * 3000) + CLOSE, part('name="a" x') + CLOSE, f"--{BOUNDARY}\r\n\r\n1\r\n".encode() + CLOSE,
            whole.replace(b"form-data", b"attachment") + CLOSE, whole.replace(b"form-data;", b"form-datax;") + CLOSE,
        ]
        for body in cases:
            self.assertEqual(self.multipart(body), b"EBADMSG 0", body[:200])
        for kind in ("multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=" + "x" * 71, "multipart/form-data; boundary=a; boundary=b",
                     'multipart/form-data; boundary="a'):
            self.assertEqual(self.form(whole + CLOSE, kind=kind), b"EBADMSG 0", kind)
        self.assertEqual(self.form(whole + CLOSE, kind=f'Multipart/Form-Data; charset=x; BOUNDARY="{BOUNDARY}"'), b"a=1;")

    def test_a_body_that_ends_early_is_refused(self):
        for kind, body in (("application/x-www-form-urlencoded", b"a=1"), (f"multipart/form-data; boundary={BOUNDARY}", part('name="a"'))):
            script = self.start("tests/forms", persistent=False, body=body,
                                variables={"PROBE": "form", "CONTENT_TYPE": kind, "CONTENT_LENGTH": "100000"})
            self.assertEqual(script.response().body, b"EBADMSG 0")

    def test_after_the_script_has_read_from_the_body_there_is_no_form(self):
        self.assertEqual(self.form(b"a=1", TOUCH="1"), b"EALREADY 0")
        self.assertEqual(self.form(query="a=1", kind=None, TOUCH="1"), b"a=1;")

    def test_nothing_of_a_form_reaches_the_next_request(self):
        self.form()
        descriptors = os.listdir(f"/proc/{self.script.pid}/fd")
        self.multipart(part('name="a"', b"1") + part('name="f"; filename="x"', b"x" * 100_000) + CLOSE)
        self.assertEqual(self.form(), b"")
        self.assertEqual(self.form(b"a&" * 1001), b"EFBIG 0")
        self.assertEqual(self.form(b"b=2"), b"b=2;")
        self.assertEqual(os.listdir(f"/proc/{self.script.pid}/fd"), descriptors, "uploads are closed")

    def test_uploads_leave_no_name_and_can_be_saved(self):
        with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryDirectory() as other:
            self.script = self.start("tests/forms", environment={"TMPDIR": directory})
            content = bytes(range(256)) * 1000
            body = part('name="f"; filename="x"', content) + CLOSE
            for place in (directory, other, "/dev/shm"):
                path = os.path.join(place, f"sluice-test-{os.getpid()}")
                try:
                    kind = f"multipart/form-data; boundary={BOUNDARY}"
                    self.assertEqual(self.send("save", body, kind=kind, WANTED=path).body, b"saved")
                    with open(path, "rb") as file:
                        self.assertTrue(file.read() == content)
                    self.assertEqual(self.send("save", body, kind=kind, WANTED=path).body, b"EEXIST")
                finally:
                    os.unlink(path)
            self.assertEqual((os.listdir(directory), os.listdir(other)), ([], []))
            self.assertEqual(self.send("save", body, kind=kind, WANTED=f"{directory}/no/x").body, b"ENOENT")

    def test_each_error_has_its_status(self):
        self.assertEqual(self.send("fail", b"a&" * 1001).field("Status"), "413 Content Too Large")
        self.assertEqual(self.send("fail", b"x", kind="multipart/form-data; boundary=x").field("Status"), "400 Bad Request")
        response = self.send("fail", WANTED="404", TEXT="nothing here")
        self.assertEqual((response.field("Status"), response.field("Content-Type"), response.body),
                         ("404 Not Found", "text/plain; charset=utf-8", b"404 Not Found\nnothing here\n"))


class Responses(Case):
    def calls(self, *calls, **variables):
        script = self.start("tests/forms")
        response = script.ask({"PROBE": "call", "WANTED": "/".join(calls)} | variables)
        return response, script.leave()[1]

    def test_a_head_is_written_once_and_by_itself_if_it_was_begun(self):
        response, errors = self.calls("status 201", "header X-A: b", "respond text", "respond text", "write body")
        self.assertEqual((response.head, response.body, errors), (b"Status: 201 Created\nX-A:  b\nContent-Type: text", b"body", ""))
        response, _ = self.calls("status 404", "write body")
        self.assertEqual((response.head, response.body), (b"Status: 404 Not Found\nContent-Type: text/html; charset=utf-8", b"body"))
        response, _ = self.calls("status 204")
        self.assertEqual(response.output, b"Status: 204 No Content\n\n")
        response, _ = self.calls("write a", "write b")
        self.assertEqual(response.output, b"ab", "a script may print its head itself")
        response, _ = self.calls("header Content-Type: a", "respond b")
        self.assertEqual(response.head, b"Content-Type:  a")

    def test_a_header_cannot_be_split(self):
        response, errors = self.calls("header X-A: b\\Set-Cookie: c", "header X A: b", "header : b", "header X-B: " + "y" * 1000, "status 99", "status 600", "respond")
        self.assertEqual(response.head.count(b"\n"), 1)
        self.assertEqual(errors, "header X-A EINVAL\nheader X A EINVAL\nheader  EINVAL\nstatus 99 EINVAL\nstatus 600 EINVAL\n")

    def test_after_the_head_nothing_of_it_can_change(self):
        _, errors = self.calls("respond", "status 404", "header A: b", "fail 404 x", "redirect 302 x")
        self.assertEqual(errors, "status 404 EALREADY\nheader A EALREADY\nfail 404 x EALREADY\nredirect 302 x EALREADY\n")

    def test_redirects(self):
        response, _ = self.calls("header Set-Cookie: a=b", "redirect 303 other?a=b")
        self.assertEqual(response.head, b"Set-Cookie:  a=b\nLocation: other?a=b\nContent-Type: text/plain; charset=utf-8".join([b"Status: 303 See Other\n", b""]))
        self.assertEqual(self.calls("redirect 000 x")[0].field("Status"), "302 Found")
        self.assertEqual(self.calls("redirect 200 x", "redirect 302 ")[1], "redirect 200 x EINVAL\nredirect 302  EINVAL\n")

    def test_failures_drop_the_fields(self):
        response, _ = self.calls("header Set-Cookie: a=b", "header Content-Type: image", "fail 503 later")
        self.assertEqual(response.output, b"Status: 503 Service Unavailable\nContent-Type: text/plain; charset=utf-8\n\n503 Service Unavailable\nlater\n")

    def test_events(self):
        response, _ = self.calls("event one\\two\\", "event three", NAME="n", ID="7")
        self.assertEqual(response.head, b"Cache-Control: no-store\nX-Accel-Buffering: no\nContent-Type: text/event-stream")
        self.assertEqual(response.body, b"event: n\nid: 7\ndata: one\ndata: two\ndata: \n\nevent: n\nid: 7\ndata: three\n\n")
        response, errors = self.calls("event x", NAME="a\rb")
        self.assertEqual((response.output, errors), (b"", "event x EINVAL\n"))

    def test_one_response_is_reset_for_the_next(self):
        script = self.start("tests/forms")
        script.ask({"PROBE": "call", "WANTED": "status 404/header X-A: b/respond"})
        self.assertEqual(script.ask({"PROBE": "call", "WANTED": "respond"}).head, b"Content-Type: text/html; charset=utf-8")

    def test_in_a_record_mailbox_large_writes_are_several_records(self):
        script = self.start("tests/forms", records=True)
        response = script.ask({"PROBE": "call", "WANTED": "respond text/plain/write " + "x" * 3000, "WWW_GATEWAY_MRS": "1000"})
        self.assertEqual(response.body, b"x" * 3000)

    def test_coding(self):
        script = self.start("tests/forms")
        for text, expected in (("<a href=\"x\">'&", b"&lt;a href=&quot;x&quot;&gt;&#39;&amp; %3Ca%20href%3D%22x%22%3E%27%26 14:<a href=\"x\">'&"),
                               ("a+b%20%41%", b"a+b%20%41% a%2Bb%2520%2541%25 6:a b A%"), ("", b"  0:")):
            self.assertEqual(script.ask({"PROBE": "code", "WANTED": text}).body, expected)

    def test_callouts_with_names(self):
        script = self.start("tests/forms")
        response = script.ask({"PROBE": "callouts", "WANTED": "/x"})
        self.assertEqual(response.body, b"0 0 0 0 0 /srv/doc/ /doc/a /srv 0 ")
        self.assertIn("!NOTICED: one two three", response.callouts)
        self.assertNotIn("!WATCH: seen by watchers", response.callouts)
        watched = script.ask({"PROBE": "callouts", "WANTED": "/x", "WATCH_SCRIPT": "1"})
        self.assertIn("!WATCH: seen by watchers", watched.callouts)
        script.answers["MAP-PATH"] = "404 there is none"
        self.assertTrue(script.ask({"PROBE": "callouts", "WANTED": "/x"}).body.endswith(b" -1 ENOENT"))
        script = self.start("tests/forms", plain=True, persistent=False, variables={"PROBE": "callouts", "WANTED": "/x"})
        self.assertTrue(script.response().body.startswith(b"-1 -1 -1 -1 0 "))
        self.assertEqual(script.wait(), (0, "one two three\n"))


class Fuzz(unittest.TestCase):
    def test_the_multipart_parser_withstands_mutated_bodies(self):
        seconds = os.environ.get("FUZZ_SECONDS", "2")
        for _ in range(20):
            done = subprocess.run([f"{server.BUILD}/tests/fuzz_multipart", seconds], capture_output=True, check=False)
            # The sanitizer of older compilers finds no room in some address spaces (vm.mmap_rnd_bits = 32): another process gets another one.
            if b"Shadow memory range" not in done.stderr:
                break
        self.assertEqual(done.returncode, 0, done.stderr.decode("utf-8", "replace") + repr(done.stdout))


if __name__ == "__main__":
    unittest.main()
