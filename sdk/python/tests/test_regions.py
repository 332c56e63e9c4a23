"""Output regions: large replies go through shared memory, and are the same as through the mailbox."""

import unittest

import support
from support import testing

SIZES = (0, 1, 16383, 16384, 16385, 65535, 65536, 65537, 100_000, 131_071, 131_072, 131_073, 300_001)

# QUERY_STRING: a length and words.
SCRIPT = r'''#!/usr/bin/env python3
import os, sys
length, *words = os.environ["QUERY_STRING"].split("+")
length = int(length)
body = (b"0123456789abcde\n" * (length // 16 + 1))[:length]
out = sys.stdout.buffer
end = b"\r\n" if "crlf" in words else b"\n"
head = b"Content-Type: text/plain" + end
if "length" in words:
    head += b"Content-Length: %d" % length + end
if "long" in words:
    head += b"X-Long: " + b"y" * 9000 + end
if "none" not in words:
    out.write(head + end)
if "flush" in words:
    out.flush()
if "lines" in words:
    for at in range(0, length, 1000):
        out.write(body[at : at + 1000])
else:
    out.write(body)
if "fail" in words:
    raise ValueError("no luck")
'''

APP = '''
import os

def application(environ, start_response):
    length, *words = environ["QUERY_STRING"].split("+")
    body = (b"0123456789abcde\\n" * (int(length) // 16 + 1))[: int(length)]
    fields = [("Content-Type", "text/plain")]
    if "length" in words:
        fields.append(("Content-Length", length))
    write = start_response("304 Not Modified" if "304" in words else "200 OK", fields)
    if "maps" in words:
        with open("/proc/self/maps") as file:
            return [str(sum("memfd" in line for line in file)).encode() + environ.get("WWW_GATEWAY_REGION", " none").encode()]
    if "write" in words:
        write(body)
        return []
    if "parts" in words:
        return [body[:100], body[100:]]
    if "blocks" in words:
        return (body[at : at + 20000] for at in range(0, len(body), 20000))
    return [body]
'''


class Regions(testing.ServerCase):
    """The same script in two routes, one of which has no shared memory."""

    environment = {"PATH": support.PATH}
    files = {"scripts/reply.cgi": SCRIPT, "scripts/application.py": APP}

    @classmethod
    def setUpClass(cls):
        keys = 'directory = "scripts", mode = "rte", engine = "python", max = 1'
        routes = [(f"/{name}/*", f"{keys}{more}") for name, more in (("with", ""), ("without", ", memory_buffer_max = 0"), ("fork", ', fresh = "fork"'))]
        app = 'app = "application:application", ' + keys
        routes += [("/with-app/*", app), ("/without-app/*", app + ", memory_buffer_max = 0")]
        cls.configuration = '[server]\nsdk = "@SDK@"\n[[site]]\nroot = "htdocs"\n'
        cls.configuration += "".join(f'[[site.route]]\npath = "{path}"\nscript = {{ {script} }}\n' for path, script in routes)
        super().setUpClass()

    def test_scripts(self):
        for size in SIZES:
            for words in ("", "+length", "+flush", "+lines", "+crlf+length", "+long"):
                with self.subTest(size=size, words=words):
                    response = self.assert_same([f"/{way}/reply.cgi?{size}{words}" for way in ("with", "without")])
                    self.assertEqual((response.status, len(response.body)), (200, size))
        for words in ("70000+fail", "70000+none"):
            self.assert_same([f"/{way}/reply.cgi?{words}" for way in ("with", "without")])

    def test_scripts_in_processes_of_their_own(self):
        for size in (100, 65536, 131_072):
            self.assert_same([f"/{way}/reply.cgi?{size}" for way in ("without", "fork")])

    def test_applications(self):
        for size in SIZES:
            for words in ("", "+length", "+parts", "+blocks", "+write"):
                with self.subTest(size=size, words=words):
                    response = self.assert_same([f"/{way}-app/?{size}{words}" for way in ("with", "without")])
                    self.assertEqual((response.status, len(response.body)), (200, size))
        for method, words in (("HEAD", "65536"), ("HEAD", "65536+length"), ("GET", "65536+304")):
            self.assert_same([f"/{way}-app/?{words}+{method}" for way in ("with", "without")], method)

    def test_the_region_is_used_and_scripts_do_not_see_it(self):
        def maps(way):
            self.server.get(f"/{way}-app/?65536")
            return self.server.get(f"/{way}-app/?0+maps").text

        self.assertIn(maps("with"), ("1 none", "2 none"))
        self.assertEqual(maps("without"), "0 none")


if __name__ == "__main__":
    unittest.main()
