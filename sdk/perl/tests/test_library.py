"""The library Sluice: each script with the same source under CGI, CGIplus and RTE, with the native part and without it."""

import os
import unittest

from common import PerlCase, testing

MODES = ("cgi", "cgiplus", "rte")


def routes(native):
    """The examples and the scripts of this test in each mode."""
    environment = f'{{ PERL5LIB = "@SDK@/perl/shim:@SDK@/perl/build/dist/blib/arch:@SDK@/perl/lib", TMPDIR = "@TMP@", SLUICE_NATIVE = "{native}" }}'
    text = '[server]\nsdk = "@SDK@"\n[[site]]\nroot = "htdocs"\n'
    for place, directory in (("own", "scripts"), ("example", "@SDK@/perl/examples")):
        for mode in MODES:
            engine = 'engine = "perl", ' if mode == "rte" else ""
            text += f'[[site.route]]\npath = "/{place}/{mode}/*"\n'
            text += f'script = {{ directory = "{directory}", mode = "{mode}", {engine}max = 1, environment = {environment} }}\n'
    return text


START = "#!/usr/bin/perl\nuse strict; use warnings; use Sluice qw(:all);\n"
LOOP = START + "while (Sluice::accept()) { "
END = " finish() }"


class Library(PerlCase):
    native = "1"
    files = {
        f"scripts/{name}.pl": text
        for name, text in {
            "variables": LOOP + 'respond("text/plain"); Sluice::write(join "|", variable("request_method"), variable("www_query_string"), variable("none", "default"), {variables()}->{REQUEST_METHOD});' + END,
            "parameters": LOOP + 'my @p = map { my $n = $_; "$n=" . join ",", parameters($n) } parameter_names(); respond("text/plain"); Sluice::write(join("|", @p), "|", parameter("a", "no"), "|", parameter("zz", "no"));' + END,
            "body": LOOP + 'my ($n, $b) = (0); while (length($b = body_read(1000))) { $n += length $b } respond("text/plain"); Sluice::write($n);' + END,
            "unread": LOOP + 'my $b = body_read(5); respond("text/plain"); Sluice::write($b);' + END,
            "upload": LOOP + 'my $r = eval { my ($u) = uploads("f"); my $p = $u->{path}; open my $h, "<", $p or die; local $/; my $d = <$h>;'
            + 'respond("text/plain"); Sluice::write("$u->{filename} $u->{type} $u->{size} ", length $d, " ", parameter("t") // "none"); 1 }; if (!$r) { my $e = $@; die $e unless ref $e; fail($e->status, $e->text) }' + END,
            "limit": LOOP + 'upload_limit(1000); my $r = eval { uploads(); 1 }; fail($@->status, $@->text) unless $r; respond("text/plain"); Sluice::write("fits");' + END,
            "memory": LOOP + 'my @v = parameters("a"); open my $f, "<", "/proc/self/status" or die; my ($peak) = map { /^VmHWM:\\s*(\\d+)/ } <$f>;'
            + 'respond("text/plain"); Sluice::write("a=", join(",", @v), $peak < 200_000 ? " small" : " $peak kB");' + END,
            "killed": LOOP + 'uploads(); kill 9, $$; sleep 60;' + END,
            "given": LOOP + 'use File::Copy "copy"; my ($u) = uploads("f"); my $n = qx(wc -c < $u->{path}) + 0; my $to = "$ENV{TMPDIR}/copy$$";'
            + 'copy($u->{path}, $to) or die; respond("text/plain"); Sluice::write("$n ", -s $to); unlink $to;' + END,
            "head": LOOP + 'status(201); header("X-One", 1); header("X-One", 2); respond("text/css"); respond("text/html"); Sluice::write("x");' + END,
            "inject": LOOP + 'my $r = eval { header("X", "a\\nSet-Cookie: b"); 1 }; respond("text/plain"); Sluice::write($r ? "set" : "refused");' + END,
            "redirect": LOOP + 'redirect("https://example.com/x");' + END,
            "redirect_here": LOOP + 'redirect("/y");' + END,
            "redirect200": LOOP + 'my $done = eval { redirect("/y", 200); 1 }; fail(400, "refused") unless $done;' + END,
            "redirect301": LOOP + 'redirect("/y", 301);' + END,
            "fail": LOOP + 'fail(404, "no such thing");' + END,
            "default": LOOP + 'Sluice::write("x");' + END,
            "callouts": LOOP + 'my @a = callout("NOOP:"); my $f = map_path("/index.html"); respond("text/plain"); Sluice::write("@a ", defined $f ? $f : "none", " ", (callout("HTTP-STATUS:"))[0], " ", notice("a note\\nof two lines"));' + END,
            "text": LOOP + 'respond("text/plain"); Sluice::write(escape_html(q(<a href="x">\'&)), " ", url_encode("a b/\\xc3\\xa9~"), " ", url_decode("a+b%2F%c3%a9%"));' + END,
            "buffer": LOOP + 'my $size = buffer_begin(1 << 20); header("X-Size", $size); respond("application/octet-stream"); my $d = join "", map { chr($_ % 251) } 1 .. 65536;'
            + "for (1 .. variable('QUERY_STRING')) { buffer_write($d) or last } buffer_end();" + END,
            "mixed": LOOP + 'buffer_begin(8192); respond("text/plain"); buffer_write("first " x 10000); buffer_end(); Sluice::write("last");' + END,
            "events": LOOP + 'event("one\\ntwo", "name", 5); event("");' + END,
            "persistent": LOOP + 'respond("text/plain"); Sluice::write(is_persistent(), " ", uses());' + END,
            "empty": LOOP + END,
            "fast": "#!/usr/bin/perl\nuse CGI::Fast; my $n = 0; while (my $q = CGI::Fast->new) { $n++; print $q->header('text/plain'), 'turn ', $n, ' ', scalar $q->param('a'), ' ', $ENV{QUERY_STRING}; }",
            "fcgi": "#!/usr/bin/perl\nuse FCGI; my $n = 0; my $r = FCGI::Request(); while ($r->Accept >= 0) { $n++; local $/; my $b = <STDIN>; print \"Content-Type: text/plain\\n\\n$n \", length($b // ''); last if $ENV{QUERY_STRING} eq 'last'; die 'broken' if $ENV{QUERY_STRING} eq 'die' } print 'after the loop';",
            "fcgi_fork": '#!/usr/bin/perl\nuse FCGI; my $r = FCGI::Request(); while ($r->Accept >= 0) { my $p = fork // die; next unless $p; waitpid $p, 0;'
            + 'print "Content-Type: text/plain\\n\\nwhole" } exit;',
        }.items()
    }
    FORM = {"Content-Type": "application/x-www-form-urlencoded"}
    MULTIPART = {"Content-Type": 'multipart/form-data; boundary="B o"'}

    @classmethod
    def setUpClass(cls):
        cls.configuration = routes(cls.native)
        super().setUpClass()

    def each(self, name, body=None, headers=(), status=200, modes=MODES):
        """The response in each mode, twice in those that stay."""
        for mode in modes:
            for _ in range(1 if mode == "cgi" else 3):
                with self.subTest(name, mode=mode):
                    got = self.ask(f"/own/{mode}/{name}", body, headers)
                    self.assertEqual((got.status, got.is_complete), (status, True), got)
                    yield got

    def assert_each(self, name, text, body=None, headers=()):
        for got in self.each(name, body, headers):
            self.assertEqual(got.text, text)

    def test_variables(self):
        self.assert_each("variables.pl?x=1", "GET|x=1|default|GET")

    def test_parameters(self):
        self.assert_each("parameters.pl?a=1&b=x+y%26&a=2", "a=1,2|b=x y&|1|no")
        self.assert_each("parameters.pl?a=1", "a=1,2|c=3;4|1|no", b"a=2&c=3;4", self.FORM)
        self.assert_each("parameters.pl?key+word", "|no|no")

    def test_body(self):
        for size in (0, 1, 100_000):
            self.assert_each("body.pl", str(size), b"x" * size)
        self.assert_each("unread.pl", "01234", b"0123456789" * 30_000)

    def multipart(self, size, text=b"text"):
        part = b'--B o\r\nContent-Disposition: form-data; name="f"; filename="C:\\dir\\a \\"b\\".txt"\r\nContent-Type: text/x\r\n\r\n' + b"\r\n-" * (size // 3)
        return b"preamble\r\n" + part + b'\r\n--B o\r\nContent-Disposition: form-data; name="t"\r\n\r\n' + text + b"\r\n--B o--\r\nepilogue"

    def test_uploads_and_their_removal(self):
        for size in (0, 3, 900_000):
            self.assert_each("upload.pl", f'a "b".txt text/x {size} {size} text', self.multipart(size), self.MULTIPART)
        self.assertEqual(os.listdir(self.server.temporary), [])

    def test_killed_script_leaves_no_file_behind(self):
        list(self.each("killed.pl", self.multipart(900_000), self.MULTIPART, 502))
        self.assertEqual(os.listdir(self.server.temporary), [])

    def test_programs_of_a_script_read_an_upload(self):
        self.assert_each("given.pl", "900000 900000", self.multipart(900_000), self.MULTIPART)

    def test_names_of_uploads(self):
        for name, expected in ((b"..", ""), (b".", ""), (b"a/..", ""), (b"..\\x", "x")):
            body = self.multipart(3).replace(b'C:\\dir\\a \\"b\\".txt', name)
            self.assert_each("upload.pl", f"{expected} text/x 3 3 text", body, self.MULTIPART)

    def test_many_empty_fields(self):
        self.assert_each("memory.pl", "a=,1 small", b"a" + b"&" * 8_000_000 + b"a=1", self.FORM)
        for body, headers in (
            (b"=&" * 1001, self.FORM),
            (b'--B o\r\nContent-Disposition: form-data; name=""; filename=""\r\n\r\n\r\n' * 1001 + b"--B o--", self.MULTIPART),
        ):
            list(self.each("limit.pl", body, headers, 413))
        list(self.each("limit.pl", b"--B o\r\nX: y\r\n\r\n\r\n" * 1001 + b"--B o--", self.MULTIPART, 400))  # no part has a name

    def test_bounds_of_fields(self):
        for name, body, headers, status in (
            ("upload.pl", self.multipart(3, b"x" * 9_000_000), self.MULTIPART, 413),
            ("upload.pl", b"&".join(b"n=1" for _ in range(1001)), self.FORM, 413),
            ("limit.pl", self.multipart(3000), self.MULTIPART, 413),
            ("limit.pl", self.multipart(3)[:-40], self.MULTIPART, 400),
            ("limit.pl", b"x", {"Content-Type": "multipart/form-data"}, 400),
        ):
            list(self.each(name, body, headers, status))
        self.assert_each("limit.pl", "fits", self.multipart(900), self.MULTIPART)
        self.assertEqual(os.listdir(self.server.temporary), [])

    def test_responses(self):
        for got in self.each("head.pl", status=201):
            self.assertEqual((got.field_values("X-One"), got.field("Content-Type"), got.text), (["1", "2"], "text/css", "x"))
        self.assert_each("inject.pl", "refused")
        for got in self.each("redirect.pl", status=302):
            self.assertEqual(got.field("Location"), "https://example.com/x")
        list(self.each("redirect301.pl", status=301))
        list(self.each("redirect_here.pl", status=302))
        list(self.each("redirect200.pl", status=400))
        for got in self.each("fail.pl", status=404):
            self.assertEqual(got.text, "404 Not Found\nno such thing\n")
        for got in self.each("default.pl"):
            self.assertEqual((got.field("Content-Type"), got.text), ("text/html; charset=utf-8", "x"))
        for got in self.each("events.pl"):
            self.assertEqual((got.field("Content-Type"), got.text), ("text/event-stream", "event: name\nid: 5\ndata: one\ndata: two\n\ndata: \n\n"))

    def test_callouts(self):
        path = self.server.path("htdocs/index.html")
        self.assert_each("callouts.pl", f"200 OK {path} 200 1")

    def test_text(self):
        self.assert_each("text.pl", "&lt;a href=&quot;x&quot;&gt;&#39;&amp; a%20b%2F%C3%A9~ a b/é%")

    def test_memory_buffer(self):
        block = bytes(n % 251 for n in range(1, 65537))
        for count in (0, 1, 200):
            for got in self.each(f"buffer.pl?{count}"):
                self.assertTrue(got.body == block * count, len(got.body))
                self.assertGreater(int(got.field("X-Size")), 0)
        self.assert_each("mixed.pl", "first " * 10000 + "last")

    def test_a_client_that_leaves_the_memory_buffer(self):
        for mode in ("cgiplus", "rte"):
            with self.server.connect() as client:
                client.get(f"/own/{mode}/buffer.pl?100000")
                client.head()
                client.reset()
            self.assertEqual(self.ask(f"/own/{mode}/mixed.pl", None, ()).text[-4:], "last")

    def test_persistence(self):
        self.assertEqual([got.text for got in self.each("persistent.pl", modes=("cgi",))], ["0 1"])
        self.assertEqual([got.text for got in self.each("persistent.pl", modes=("cgiplus",))], ["1 1", "1 2", "1 3"])
        first, second, third = [got.text.split() for got in self.each("persistent.pl", modes=("rte",))]
        self.assertEqual((first[0], int(third[1]) - int(first[1])), ("0", 2))

    def test_examples(self):
        for mode in MODES:
            with self.subTest(mode):
                self.assertEqual(self.server.get(f"/example/{mode}/hello.pl?name=you").text, "Hello, you.\n")
                form = self.multipart(30).replace(b'name="f"', b'name="file"')
                self.assertIn("<dt>a &quot;b&quot;.txt<dd>30 bytes of text/x, begins with ",
                              self.server.post(f"/example/{mode}/form.pl", form, self.MULTIPART).text)
                counts = [int(self.server.get(f"/example/{mode}/counter.pl").text) for _ in range(3)]
                self.assertEqual([count - counts[0] for count in counts], [0, 0, 0] if mode == "cgi" else [0, 1, 2])
                self.assertEqual(len(self.server.get(f"/example/{mode}/download.pl?mb=3").body), 3 << 20)
                self.assertEqual(self.server.get(f"/example/{mode}/events.pl?count=1").text.count("event: time"), 1)

    def test_cgi_fast(self):
        testing.need_perl("CGI::Fast")
        self.assertEqual(self.server.get("/own/cgi/fast.pl?a=1").text, "turn 1 1 a=1")
        for mode in ("cgiplus", "rte"):
            for turn in (1, 2, 3):
                self.assertEqual(self.server.get(f"/own/{mode}/fast.pl?a={turn}").text, f"turn {turn} {turn} a={turn}")
        # Another script ends the loop, and the next request begins a new one.
        self.assertEqual(self.server.get("/own/rte/default.pl").text, "x")
        self.assertEqual(self.server.get("/own/rte/fast.pl?a=9").text, "turn 1 9 a=9")

    def test_child_does_not_go_on_with_the_loop(self):
        for _ in range(3):
            self.assertEqual(self.server.get("/own/rte/fcgi_fork.pl").text, "whole")

    def test_fcgi_loops(self):
        for turn in (1, 2, 3):
            self.assertEqual(self.server.post("/own/rte/fcgi.pl", b"x" * turn).text, f"{turn} {turn}")
        self.assertEqual(self.server.get("/own/rte/fcgi.pl?last").text.startswith("4 0"), True)
        self.assertEqual(self.server.get("/own/rte/fcgi.pl?die").status, 502)
        self.assertEqual(self.server.get("/own/rte/fcgi.pl").text, "1 0")


class WithoutTheNativePart(Library):
    """What the native part has a part in."""

    native = "0"
    test_parameters = test_bounds_of_fields = test_responses = test_text = test_examples = test_cgi_fast = test_persistence = None


if __name__ == "__main__":
    unittest.main()
