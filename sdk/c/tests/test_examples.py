"""The five examples under the real server, as CGI and as CGIplus."""

import os
import sys
import unittest

import server

sys.path.insert(0, os.path.join(server.HERE, "../.."))
import testing  # noqa: E402

BOUNDARY = "----bound"
FORM = (
    f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="name"\r\n\r\n<Zoë>\r\n'
    f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\nContent-Type: text/plain\r\n\r\n'
).encode()
FORM_END = f"\r\n--{BOUNDARY}--\r\n".encode()
KIND = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}


class Examples(testing.ServerCase):
    configuration = f"""
        [limits]
        body_size = "300MiB"
        [[site]]
        root = "htdocs"
          [[site.route]]
          path = "/cgi/*"
          script = {{ directory = "{server.BUILD}/examples", mode = "cgi", environment = {{ TMPDIR = "@TMP@" }} }}
          [[site.route]]
          path = "/cgiplus/*"
          script = {{ directory = "{server.BUILD}/examples", mode = "cgiplus", max = 1, environment = {{ TMPDIR = "@TMP@" }} }}
    """

    def both(self, path):
        return [self.server.get(f"/{mode}/{path}") for mode in ("cgi", "cgiplus")]

    def test_hello(self):
        for response in self.both("hello"):
            self.assertEqual((response.status, response.field("Content-Type")), (200, "text/plain; charset=utf-8"))
            self.assertIn("Hello, 127.0.0.1.\nThis process has answered ", response.text)

    def test_counter(self):
        self.assertEqual([self.server.get("/cgiplus/counter").text for _ in range(3)], ["1\n", "2\n", "3\n"])
        self.assertTrue(self.server.get("/cgi/counter").text.startswith("1\nRequest"))

    def test_form(self):
        content = b"first <line>\n" + os.urandom(3_000_000)
        for mode in ("cgi", "cgiplus", "cgiplus"):
            path = f"/{mode}/form"
            self.assertIn('enctype="multipart/form-data"', self.server.get(path).text)
            response = self.server.request("POST", path, KIND, FORM + content + FORM_END)
            self.assertEqual((response.status, response.is_complete), (200, True), response)
            self.assertIn("<dt>name<dd>&lt;Zoë&gt;", response.text)
            self.assertIn(f"<dt>a.txt<dd>{len(content)} bytes of text/plain, begins with <code>first &lt;line&gt;", response.text)
            self.assertEqual(self.server.request("POST", path, KIND, FORM).status, 400)

    def test_form_that_is_too_large(self):
        with self.server.connect() as client:
            client.request("POST", "/cgiplus/form", KIND, chunks=[FORM, *[bytes(1 << 20)] * 101, FORM_END])
            self.assertEqual(client.response().status, 413)
        self.assertIn('name="note"', self.server.get("/cgiplus/form").text)

    def test_download(self):
        expected = b"".join(bytes([n]) * 65536 for n in range(48))
        for response in self.both("download?mb=3"):
            self.assertEqual((response.field("X-Buffer"), response.field("Content-Length")), ("yes", str(3 << 20)))
            self.assertTrue(response.is_complete and response.body == expected)
        for response in self.both("download?mb=-1"):
            self.assertEqual(response.status, 400)

    def test_events(self):
        for mode in ("cgi", "cgiplus"):
            response = self.server.get(f"/{mode}/events?count=2&pause=0", {"Last-Event-ID": "7"})
            self.assertEqual(response.field("Content-Type"), "text/event-stream")
            lines = response.text.splitlines()
            self.assertEqual([lines[0], lines[1], lines[4], lines[5]], ["event: tick", "id: 8", "event: tick", "id: 9"])
        with self.server.connect() as client:
            client.get("/cgiplus/events?pause=60000").head()
            self.assertIn(b"id: 1\n", client.read_body_until(b"\n\n"), "the first one is sent at once")


if __name__ == "__main__":
    unittest.main()
