"""Unmodified scripts: they say the same under CGI and in an engine, and what they do wrong concerns one request."""

import unittest

from common import HEAD, ROUTES, PerlCase, scripts

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class Scripts(PerlCase):
    files = scripts(
        plain=HEAD + 'print "$ENV{REQUEST_METHOD} $ENV{QUERY_STRING} ", __FILE__, " ", __LINE__, " $0 @ARGV\\n";',
        strict="use strict;\nuse warnings;\n" + HEAD + 'my $x = shift || "none"; print $x; print STDOUT join ",", sort grep { /^(REQUEST|SCRIPT_NAME)/ } keys %ENV;',
        data=HEAD + 'print while <DATA>; print tell(DATA) > 0 ? "end" : "start";\n__END__\nfirst\nsecond\n',
        data_utf8="use utf8;" + HEAD + 'binmode STDOUT, ":utf8"; my $l = <DATA>; chomp $l; print length $l;\n__DATA__\näöü\n',
        heredoc=HEAD + 'print <<"EOT";\n__END__\ntext\nEOT\nprint "after";\n=pod\n\nuntil the end',
        comment=HEAD + 'print "x" # no end of line',
        windows=(HEAD + 'print "a\\n";\nprint <<EOT;\nb\nEOT\n').replace("\n", "\r\n"),
        exits=HEAD + 'print "before"; eval { exit 0; }; print "after";',
        exits_deep=HEAD + 'print "a"; sub f { eval { eval "exit"; print "b" }; print "c" } f(); print "d"; END { print "end $?" }',
        exit_in_sort=HEAD + 'print "a"; my @l = eval { sort { exit 0 } 3, 2, 1 }; print "b";',
        exit_in_handler=HEAD + 'print "a"; $SIG{USR1} = sub { exit }; eval { kill USR1 => $$; sleep 5 }; print "b";',
        core_exit=HEAD + 'print "a"; CORE::exit(0);',
        exit_in_begin='BEGIN { print "Content-Type: text/plain\\n\\nbegin"; exit }',
        end_blocks='my $n = 1; END { print "one $n " } END { print "two " } ' + HEAD + "$n++; exit 0;",
        begin=HEAD + 'BEGIN { $main::x = 1 } BEGIN { $y = "b" } print $y; print __PACKAGE__ ne "" ? 1 : 0;',
        begin_request="BEGIN { $q = $ENV{QUERY_STRING} }" + HEAD + "print $q;",
        constant="use constant {Q => $ENV{QUERY_STRING}};" + HEAD + "print Q;",
        caller="main() unless caller; sub main { " + HEAD + 'print "main ", (caller(0))[3] =~ /main$/ ? 1 : 0, defined caller(1) ? 1 : 0; }',
        children=HEAD + '$ENV{SPECIAL} = "yes"; print "1"; system "echo 2; echo 3 >&1"; print "4\\n"; print `echo "\\$SPECIAL"`; open my $p, "|-", "cat" or die; print $p "piped"; close $p;',
        forks=HEAD + 'print "parent "; if (my $p = fork) { waitpid $p, 0; print $? >> 8 } else { print "child "; exit 7 } ',
        fork_falls=HEAD + '$| = 1; my $p = fork; if ($p) { waitpid $p, 0 } print $p ? "parent" : "child "; END { print "end " }',
        sys=HEAD.replace("print", "syswrite STDOUT,") + 'syswrite STDOUT, "x" x 10; my $n = sysread STDIN, my $b, 100; syswrite STDOUT, "$n$b"; print sysread STDIN, $b, 100;',
        slurp=HEAD + 'local $/; my $b = <STDIN>; print length $b, eof(STDIN) ? "end" : "more";',
        child_reads=HEAD + 'print "got "; system "cat"; system "wc -c";',
        warns="#\n" + HEAD + 'warn "careful"; print STDERR "noted\\n"; print "x";',
        dies=HEAD + 'print "part"; die "it broke\\nsecond line\\n";',
        dies_late=HEAD + '$| = 1; print "x" x 100; die "too late\\n";',
        dies_object=HEAD + 'die { code => 5 };',
        dies_hook='$SIG{__DIE__} = sub { print "Status: 500\\nContent-Type: text/plain\\n\\nhook: $_[0]"; exit 0 }; die "x\\n";',
        status="exit 3;",
        status_reply="print \"Status: 404 Not Found\\nContent-Type: text/plain\\n\\nno\"; exit 1;",
        empty="",
        syntax=HEAD + "print 'a'\nprint 'b' if;\n",
        carp='use CGI::Carp qw(fatalsToBrowser); use CGI; my $q = CGI->new; die "shown";',
        switch=HEAD + "my $x; print 'a' . $x; print $^W;",
        killed=HEAD + '$| = 1; print "x"; kill KILL => $$; sleep 60;',
        execs=HEAD + '$| = 1; print "x\\n"; exec "echo", "done";',
        cgi="use CGI qw(:standard); print header('text/plain'), join ',', map { my $n = $_; map { \"$n=$_\" } multi_param($n) } sort(param());",
        pragma="use CGI qw(-nosticky -no_xhtml :standard); print header('text/plain'), textfield('a'), ' ', br();",
        upload="use CGI; my $q = CGI->new; my $f = $q->upload('f'); local $/; my $d = <$f>; print $q->header('text/plain'), length $d, ' ', $q->param('f') . '', ' ', $q->param('t');",
        library="use FindBin; use lib \"$FindBin::Bin/lib\"; use Local::Module; " + HEAD + "print Local::Module::name(), ' ', Local::Module::next_number() > 0, ' ', $FindBin::Script;",
        findbin="use FindBin qw($Bin $Script);" + HEAD + 'print $Bin =~ /scripts$/ ? 1 : 0, $Script;',
        dots=HEAD + 'require "./part.pl"; require "lib/Local/Module.pm" if 0; print part(); do "./part.pl"; print part();',
        formats="our ($n, $v) = ('name', 5);\nformat STDOUT =\n@<<<<< @>>>\n$n, $v\n.\n" + HEAD + "write;",
        tainted=HEAD + "print ${^TAINT};",
        headers="print \"Status: 201 Created\\nX-One: 1\\nX-Two: 2\\nContent-Type: text/plain\\n\\nbody\";",
        redirect='print "Location: http://example.com/x\\n\\n";',
        nph='print "HTTP/1.0 299 Fine\\nContent-Type: text/plain\\n\\nnph";',
        large=HEAD + 'print "0123456789abcdef" x 4096 for 1 .. 32;',
        packages="package Counter; our $n = 0; sub new { bless {n => ++$n} } package main; " + HEAD + "print Counter->new->{n}, Counter->new->{n};",
        prototypes=HEAD + "sub apply(&@) { my ($c, @l) = @_; map { $c->($_) } @l } print apply { $_[0] * 2 } 1, 2; ",
        callouts=HEAD + '$| = 1; print "$ENV{CGIPLUSESC}\\nNOOP:\\n$ENV{CGIPLUSEOT}\\n"; open my $in, "<", $ENV{CGIPLUSIN} or die; my $a = <$in>; print "answer $a";',
        cgiplus=HEAD + 'print exists $ENV{CGIPLUSEOF} ? "cgiplus" : "cgi";',
        locals=HEAD + 'local $| = 1; local $/ = undef; local $, = "-"; print 1, 2;',
        sig_die="use strict; local $SIG{__DIE__} = sub { print STDERR 'seen' }; eval { die 'x' };" + HEAD + 'print $@ =~ /^x at/ ? 1 : 0;',
    ) | {
        "scripts/warn.pl": "#!/usr/bin/perl -w\n" + HEAD + "my $x; print 'a' . $x; print $^W;",
        "scripts/taint.pl": "#!/usr/bin/perl -wT\n" + HEAD + "print 'ok';",
        "scripts/part.pl": "sub part { 'part' } 1;\n",
        "scripts/lib/Local/Module.pm": "package Local::Module; my $n = 0; sub name { __PACKAGE__ } sub next_number { ++$n } 1;\n",
        "scripts/other/lib/Local/Other.pm": "package Local::Other; sub name { 'other' } 1;\n",
        "scripts/other/script.pl": "#!/usr/bin/perl\nuse FindBin; use lib \"$FindBin::Bin/lib\"; use Local::Other;" + HEAD + 'require "./part.pl"; print Local::Other::name(), part();',
        "scripts/other/part.pl": "sub part { 'other part' } 1;\n",
    }

    def test_same_as_cgi(self):
        names = """strict data data_utf8 heredoc comment windows exits exits_deep exit_in_begin begin caller children forks warns
            findbin library formats tainted headers redirect nph large packages prototypes dots locals sig_die status_reply end_blocks""".split()
        for name in names:
            with self.subTest(name):
                self.assert_same(name + ".pl")

    def test_names_and_lines(self):
        path = self.server.path("scripts/plain.pl")
        self.assertEqual(self.texts("plain.pl?a=b"), [f"GET a=b {path} 3 {path} \n"] * 2)

    def test_bodies(self):
        for name in ("slurp", "sys", "child_reads"):
            for body in (b"a", b"x" * 60_000):
                with self.subTest(name, size=len(body)):
                    self.assert_same(name + ".pl", body)
        for size in (65_536, 65_537, 5_000_000):
            with self.subTest(size=size):
                self.assertEqual(self.texts("slurp.pl", 2, b"y" * size), [f"{size}end"] * 2)

    def test_a_body_is_read_while_it_arrives(self):
        self.server.write("scripts/stream.pl", "#!/usr/bin/perl\n$| = 1; " + HEAD + 'while (sysread STDIN, my $b, 100) { print "[$b]" } print "end";')
        with self.server.connect() as client:
            client.send("POST /rte/stream.pl HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nfirst")
            self.assertEqual(client.head().status, 200)
            client.read_body_until(b"[first]")
            client.send("secon")
            self.assertIn(b"[secon]end", client.read_body_until(b"end"))

    def test_exit_where_the_request_cannot_be_left(self):
        for name in ("exit_in_sort", "exit_in_handler", "core_exit"):
            with self.subTest(name):
                for _ in range(2):
                    got = self.rte(name + ".pl")
                    self.assertEqual((got.status, got.text, got.is_complete), (200, "a", True))

    def test_child_that_falls_off_the_end(self):
        self.assertEqual(sorted(self.cgi("fork_falls.pl").text.split()), sorted(self.texts("fork_falls.pl", 1)[0].split()))
        self.assertEqual(self.texts("plain.pl?")[0].split()[0], "GET")

    def test_code_that_runs_at_compilation_and_looks_at_the_request(self):
        for name in ("begin_request", "constant"):
            for query in ("one", "two"):
                self.assertEqual(self.texts(f"{name}.pl?{query}"), [query] * 2)

    def test_cgi_module(self):
        for query in ("a=1;b=2&a=3", "", "c=%C3%A9"):
            self.assertEqual(self.rte("cgi.pl?" + query).text, self.cgi("cgi.pl?" + query).text)
        self.assertEqual(self.rte("cgi.pl", b"x=1&y=2", FORM).text, "x=1,y=2")
        self.assertEqual(self.rte("cgi.pl").text, "")
        for _ in range(2):
            self.assertEqual(self.rte("pragma.pl?a=5").text, self.cgi("pragma.pl?a=5").text)
            self.rte("cgi.pl?a=1")

    def test_uploads(self):
        for size in (10, 300_000):
            parts = b'--B\r\nContent-Disposition: form-data; name="f"; filename="n.txt"\r\n\r\n' + b"d" * size
            body = parts + b'\r\n--B\r\nContent-Disposition: form-data; name="t"\r\n\r\ntext\r\n--B--\r\n'
            got = self.rte("upload.pl", body, {"Content-Type": "multipart/form-data; boundary=B"})
            self.assertEqual(got.text, f"{size} n.txt text")

    def test_libraries_of_two_directories(self):
        for _ in range(2):
            self.assertEqual(self.texts("dots.pl", 1), ["partpart"])
            self.assertEqual(self.texts("other/script.pl", 1), ["otherother part"])

    def test_callouts(self):
        self.assertEqual(self.texts("callouts.pl"), ["answer 200 OK\n"] * 2)
        self.assertEqual(self.texts("cgiplus.pl"), ["cgi"] * 2)

    def test_switches(self):
        start = self.server.log_position()
        self.assertEqual(self.texts("warn.pl", 1), ["a1"])
        self.server.log_line("Use of uninitialized value", start)
        self.assertEqual(self.texts("switch.pl", 1), ["a0"])
        self.assertEqual(self.texts("taint.pl"), ["ok"] * 2)
        self.server.log_line("the switch -T has no effect", start)


class Failures(PerlCase):
    files = Scripts.files

    def tearDown(self):
        self.assertEqual(self.texts("cgiplus.pl"), ["cgi"] * 2)

    def assert_failed(self, name, message, status=502):
        for _ in range(2):
            start = self.server.log_position()
            got = self.rte(name)
            self.assertEqual(got.status, status, got)
            self.assertIn(message, got.text)
            self.server.log_line(message, start)

    def test_die(self):
        self.texts("plain.pl?")
        before = [process.pid for process in self.server.scripts()]
        self.assert_failed("dies.pl", "it broke")
        self.assert_failed("dies_object.pl", "HASH(0x")
        self.assertEqual([process.pid for process in self.server.scripts()], before)

    def test_die_within_the_body(self):
        # The server waits for more of the body before it sends the head: then it can still answer 502.
        got = self.rte("dies_late.pl")
        self.assertFalse(got.status == 200 and got.is_complete, got)

    def test_compilation_error_and_its_repair(self):
        self.assert_failed("syntax.pl", "syntax error at")
        path = self.server.path("scripts/syntax.pl")
        with open(path) as file:
            text = file.read()
        try:
            self.server.write("scripts/syntax.pl", "#!/usr/bin/perl\n" + HEAD + "print 'fixed';")
            self.assertEqual(self.rte("syntax.pl").text, "fixed")
            self.server.write("scripts/syntax.pl", "#!/usr/bin/perl\n" + HEAD + "print 'changed again';")
            self.assertEqual(self.rte("syntax.pl").text, "changed again")
        finally:
            self.server.write("scripts/syntax.pl", text)

    def test_status_without_a_reply(self):
        self.assert_failed("status.pl", "exit status 3")
        self.assertEqual(self.rte("empty.pl").status, 502)

    def test_pages_of_the_script_itself(self):
        for _ in range(2):
            got = self.rte("carp.pl")
            self.assertEqual(got.status, 500)
            self.assertIn("shown at", got.text)
            got = self.rte("dies_hook.pl")
            self.assertEqual((got.status, got.text), (500, "hook: x\n"))

    def test_killed_process(self):
        got = self.rte("killed.pl")
        self.assertFalse(got.is_complete and got.status == 200)

    def test_missing_script(self):
        self.assertEqual(self.rte("nothing.pl").status, 404)


class WithoutTheNativePart(Scripts):
    """The same with an engine that has not been compiled."""

    @classmethod
    def setUpClass(cls):
        cls.configuration = ROUTES.replace('environment = { TMPDIR', 'environment = { SLUICE_NATIVE = "0", TMPDIR')
        super().setUpClass()

    def test_large_body_is_removed_from_the_pipe(self):
        self.assertEqual(self.texts("plain.pl?", 1, b"x" * 200_000)[0].split()[0], "POST")
        self.assertEqual(self.texts("slurp.pl", 1, b"abc"), ["3end"])


if __name__ == "__main__":
    unittest.main()
