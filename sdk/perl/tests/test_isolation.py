"""Nothing of one request reaches the next: each test asks one process twice or more."""

import unittest

from common import HEAD, PerlCase, scripts, testing


class Isolation(PerlCase):
    files = scripts(
        environment=HEAD + 'print $ENV{LEFT} // "none", " ", $ENV{REQUEST_METHOD}; $ENV{LEFT} = 1; $ENV{REQUEST_METHOD} = "X"; delete $ENV{PATH};'
        + 'print " ", qx(echo "\\$LEFT") =~ s/\\n//r;',
        path=HEAD + "print $ENV{PATH} ? 1 : 0; delete $ENV{PATH};",
        globals=HEAD + "our ($x, @x, %x); our $y = $y + 1; no strict; print $x++, scalar(@x), scalar(keys %x), $y; push @x, 1; $x{a} = 1;"
        + '${"made"}++; print ${"made"}; ${"Other::made"}; sub f { $z++ } print f(); *{"new"} = sub { 1 }; print defined &late ? 1 : 0; eval "sub late { 1 }";',
        initial="BEGIN { our @list = (1, [2]); our %map = (a => {b => 1}); our $n = 5 }" + HEAD
        + 'our (@list, %map, $n); print "@{$list[1]} $map{a}{b} $n ", scalar(@list); push @list, 1; $list[1][0] = 9; $map{a}{b} = 9; $n = 9;',
        closure=HEAD + "my $n = 0; my @all; sub add { $n += shift; push @all, $n } add(1); add(2); print $n, scalar @all;",
        block=HEAD + "{ my $n = 10; sub next_number { return $n++ } } print next_number(), next_number();",
        begin_block="BEGIN { my $n = 10; sub next_number { return $n++ } }" + HEAD + "print next_number(), next_number();",
        state=HEAD + 'use feature "state"; sub count { state $n = 0; state @seen; push @seen, 1; return ++$n . @seen } print count(), count();',
        directory=HEAD + 'use Cwd; print getcwd() =~ m{/scripts$} ? "same" : getcwd(); chdir "/tmp";',
        files=HEAD + 'use POSIX (); print join ",", map { -e "/proc/self/fd/$_" ? $_ : () } 3 .. 60; open FH, "<", $0; open our $g, "<", $0;'
        + 'POSIX::open("/dev/null"); POSIX::dup(0); opendir DIR, "."; pipe R, W;',
        locale=HEAD + 'use POSIX qw(setlocale LC_ALL); print setlocale(LC_ALL); setlocale(LC_ALL, "C.UTF-8"); ',
        umask=HEAD + "printf '%o', umask; umask 0;",
        signals=HEAD + 'print join ",", map { $_ // "none" } @SIG{qw(USR1 INT __WARN__ __DIE__ CHLD)}; $SIG{$_} = sub { 1 } for qw(USR1 INT __WARN__ __DIE__); $SIG{CHLD} = "IGNORE";',
        blocked=HEAD + 'use POSIX qw(:signal_h); my $old = POSIX::SigSet->new; sigprocmask(SIG_BLOCK, POSIX::SigSet->new(SIGUSR1), $old); print $old->ismember(SIGUSR1);',
        alarm=HEAD + "print alarm 100;",
        timer=HEAD + "use Time::HiRes qw(setitimer getitimer ITIMER_REAL ITIMER_VIRTUAL); print scalar getitimer($_) for ITIMER_REAL, ITIMER_VIRTUAL; setitimer($_, 100) for ITIMER_REAL, ITIMER_VIRTUAL;",
        special=HEAD + 'my @v = map { defined $_ ? $_ : "undef" } $/, $\\, $,, $", $;, $|, $^W, $_, $~, $=; print join "|", map { s/[^ -~]/sprintf "%02x", ord/ger } @v;'
        + '$/ = undef; $, = "x"; $" = "y"; $; = "z"; $| = 1; $^W = 1; $_ = 5; $~ = "F"; $= = 3; $\\ = "!";',
        selected=HEAD + 'open our $null, ">", "/dev/null"; select $null; print "lost";',
        layers='binmode STDOUT, ":utf8"; binmode STDIN, ":utf8"; binmode STDERR, ":encoding(UTF-16)"; ' + HEAD + 'print "\\x{e9}", join ",", PerlIO::get_layers(STDERR);',
        plain=HEAD + 'print "\\xe9", join ",", map { PerlIO::get_layers($_) } *STDIN, *STDOUT, *STDERR;',
        closed=HEAD + 'print "x"; close STDOUT; close STDERR; close STDIN;',
        redirected=HEAD + 'print "x"; open STDOUT, ">", "/dev/null"; open STDERR, ">&", \\*STDOUT; print "lost";',
        tied='package T; sub TIEHANDLE { bless {} } sub PRINT { 1 } package main;' + HEAD + 'print "x"; tie *STDOUT, "T"; print "lost";',
        unread=HEAD + 'print scalar <STDIN>;',
        temporary=HEAD + 'use File::Temp qw(tempfile tempdir); my ($h, $name) = tempfile(UNLINK => 1); my $d = tempdir(CLEANUP => 1); print -e $name && -d $d ? "there" : "gone";',
        inc=HEAD + 'print scalar(@INC), scalar grep { /added/ } @INC; push @INC, "/added"; unshift @INC, "/added2";',
        random=HEAD + "print rand(1); srand 42;",
        arguments=HEAD + 'print scalar(@ARGV), " $0" =~ m{/arguments.pl$} ? "ok" : $0; push @ARGV, 1; $0 = "other";',
        time=HEAD + "print $^T >= time - 5 ? 'now' : 'old';",
        handles=HEAD + '$| = 1; open PIPE, "|cat"; print PIPE "written "; print "first "; package Last; our $object = bless []; sub DESTROY { print "destroyed" }',
        background=HEAD + '$| = 1; if (my $p = fork) { print "$p $$" } else { sleep 600; exit } ',
        background_session=HEAD + 'use POSIX "setsid"; pipe R, W; if (my $p = fork) { <R>; print "$p $$" } else { setsid(); open STDOUT, ">/dev/null"; open STDERR, ">/dev/null"; syswrite W, "x\\n"; close W; sleep 600; exit } ',
        main=HEAD + 'BEGIN { $main::set = 5 } $main::n++; $::m++; push @main::list, 1; $main::set++; sub own { "own" } print "$main::n$::m", scalar(@main::list), $main::set, main::own(), &::own; print eval { main::none(); 1 } ? "" : $@ =~ /^Undefined subroutine &main::none called at .*main.pl line 3/ ? 1 : $@',
        isa=HEAD + "our @ISA; push @ISA, 'Other'; print scalar @ISA;",
        required=HEAD + 'require "./library.pl"; our $setting; print helper(), $setting; $setting = "changed";',
    ) | {"scripts/library.pl": "our $setting = 'set'; sub helper { return 'help' } 1;\n"}

    def assert_each(self, name, expected, count=3):
        self.assertEqual(self.texts(name + ".pl", count), [expected] * count)

    def test_environment(self):
        self.assert_each("environment", "none GET 1")
        self.assert_each("path", "1")

    def test_package_variables_and_subroutines(self):
        self.assert_each("globals", "0001100")

    def test_names_of_the_package_main(self):
        self.assert_each("main", "1116ownown1")

    def test_values_from_compilation_are_put_back(self):
        self.assert_each("initial", "2 1 5 2")

    def test_variables_of_named_subroutines(self):
        self.assert_each("closure", "32")
        self.assert_each("block", "1011")
        self.assert_each("begin_block", "1011")
        self.assert_each("state", "1122")

    def test_working_directory(self):
        self.assert_each("directory", "same")

    def test_open_files(self):
        first, *rest = self.texts("files.pl", 4)
        self.assertEqual(rest, [first] * 3)

    def test_locale(self):
        first, *rest = self.texts("locale.pl", 3)
        self.assertEqual(rest, [first] * 2)

    def test_umask(self):
        first, *rest = self.texts("umask.pl", 3)
        self.assertEqual(rest, [first] * 2)
        self.assertNotEqual(first, "0")

    def test_signal_handlers(self):
        self.assert_each("signals", "none,none,none,none,none")
        self.assert_each("blocked", "0")

    def test_timers(self):
        self.assert_each("alarm", "0")
        self.assert_each("timer", "00")

    def test_special_variables_and_selected_handle(self):
        self.assert_each("special", "0a|undef|undef| |1c|0|0|undef|STDOUT|60")
        self.assert_each("selected", "")

    def test_handles_and_layers(self):
        for name, expected in (("layers", "é"), ("closed", "x"), ("redirected", "x"), ("tied", "x")):
            with self.subTest(name):
                self.assertTrue(self.texts(name + ".pl", 1)[0].startswith(expected))
                got = self.rte("plain.pl")
                self.assertEqual(got.body, b"\xe9" + b"unix,perlio,unix,perlio,unix,perlio")

    def test_unread_body(self):
        self.assertEqual(self.texts("unread.pl", 3, b"first\nsecond\nthird"), ["first\n"] * 3)
        large = b"line\n" + b"x" * 3_000_000
        self.assertEqual(self.texts("unread.pl", 3, large), ["line\n"] * 3)
        self.assertEqual(self.texts("unread.pl", 1), [""])

    def test_temporary_files(self):
        self.assert_each("temporary", "there")

    def test_include_path(self):
        first, *rest = self.texts("inc.pl", 3)
        self.assertEqual(rest, [first] * 2)

    def test_random_numbers(self):
        self.assertEqual(len(set(self.texts("random.pl", 5))), 5)

    def test_arguments_and_time(self):
        self.assert_each("arguments", "0ok")
        self.assert_each("time", "now")
        self.assert_each("isa", "1")

    def test_what_a_program_does_at_its_end_belongs_to_the_reply(self):
        for text in self.texts("handles.pl", 3):
            self.assertEqual(sorted(text.replace("destroyed", " destroyed ").split()), ["destroyed", "first", "written"])

    def test_children_that_still_run(self):
        def run(name):
            return [[int(number) for number in text.split()] for text in self.texts(name, 2)]

        (first, engine), (second, again) = run("background.pl")
        self.assertEqual(engine, again)
        # The engine does not kill one with a session of its own: it ends after the reply, and the server kills what it has left.
        (third, engine), (fourth, another) = run("background_session.pl")
        self.assertNotEqual(engine, another)
        for pid in (first, second, third, fourth):
            testing.wait_gone(pid)

    def test_required_file_without_a_package(self):
        self.assert_each("required", "helpset")


if __name__ == "__main__":
    unittest.main()
