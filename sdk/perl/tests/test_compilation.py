"""Code that runs while a script is compiled: it must not give the first request's values to the next."""

import unittest

from common import HEAD, PerlCase, scripts


class Compilation(PerlCase):
    reading = {
        "on_a_line": "use strict; use constant Q => $ENV{QUERY_STRING};\n" + HEAD + "print Q",
        "own_line": "use constant Q => $ENV{QUERY_STRING};\n" + HEAD + "print Q",
        "begin": "our $q; BEGIN { $q = $ENV{QUERY_STRING} }\n" + HEAD + "print $q",
        "block": "use constant Q => do { my $x = 1; $ENV{QUERY_STRING} };\n" + HEAD + "print Q",
        "called": "sub who { $ENV{QUERY_STRING} } use constant Q => who();\n" + HEAD + "print Q",
        "library": "use Sluice; use constant Q => Sluice::variable('QUERY_STRING');\n" + HEAD + "print Q",
        "all": "my %copy; BEGIN { %copy = map { $_ => $ENV{$_} } keys %{ $main::{ENV} } }\n" + HEAD + "print $copy{QUERY_STRING}",
        "exists": "our $q; BEGIN { $q = exists $ENV{HTTP_X_USER} ? 'named' : 'nobody' }\n" + HEAD + "print $q, $ENV{HTTP_X_USER} // ''",
        "host": "our $q; BEGIN { $q = $ENV{SERVER_NAME} }\n" + HEAD + "print $q eq $ENV{SERVER_NAME} ? $ENV{QUERY_STRING} : 'old'",
    }
    files = scripts(
        **reading,
        kept="our $path; BEGIN { $path = $ENV{SCRIPT_FILENAME}; our $n = ++$Compiled::count }\n" + HEAD + 'our $n; print "$n$Compiled::count"',
        sets="BEGIN { $ENV{PATH} = '/bin'; $ENV{ADDED} = 'a b'; delete $ENV{TMPDIR}; our $n = ++$Sets::count; $child = qx(echo \\$ADDED) }\n" + HEAD
        + "our ($n, $child); print join '|', @ENV{qw(PATH ADDED)}, exists $ENV{TMPDIR} ? 1 : 0, qx(echo \\$ADDED) =~ s/\\n//r, $child =~ s/\\n//r, $Sets::count",
        leaves="BEGIN { $ENV{ADDED} = 'x'; exit if $ENV{QUERY_STRING} eq 'exit'; die 'broken' if $ENV{QUERY_STRING} eq 'die' }\n" + HEAD
        + "print tied %ENV ? 'tied' : 'plain', $ENV{ADDED}",
        large="use constant Q => $ENV{QUERY_STRING};\nmy %h = map { $_ => $_ x 100 } 1 .. 500; sub look { return $h{$_[0]} } sub other { my $s = sub { look(3) . Q }; $s->() }\n"
        + 'END { my $x = other() } open my $f, "<", "/proc/self/statm";' + HEAD + "print +(split ' ', <$f>)[1] * 4, length other()",
        ends="use constant Q => $ENV{QUERY_STRING}; { package Last; our @ISA = 'Base'; sub new { bless [] } sub text { $ENV{QUERY_STRING} . 'gone ' } package Base; sub DESTROY { print $_[0]->text } }\n" + HEAD
        + "my $first = Last->new; our $second = Last->new; sub used { return $first } my @list = Last->new; { my $c = Last->new } used();",
        plain=HEAD + "print tied %ENV ? 'tied' : 'plain', exists $ENV{ADDED} ? 1 : 0",
    )

    def test_variables_of_the_request(self):
        for name in self.reading:
            for user in ("ann", "bob", "eve"):
                with self.subTest(name):
                    if name == "exists":
                        self.assertEqual(self.rte("exists.pl").text, "nobody")
                        self.assertEqual(self.rte("exists.pl", headers={"X-User": user}).text, "named" + user)
                    else:
                        self.assertEqual(self.rte(f"{name}.pl?{user}").text, user)

    def test_script_that_is_compiled_each_time_does_not_grow(self):
        sizes = [int(self.rte(f"large.pl?{n}").text[:-2]) for n in range(150)]
        self.assertLess(sizes[-1] - sizes[50], 1000)

    def test_objects_of_such_a_script_are_destroyed_with_their_methods(self):
        for query in ("a", "b", "c"):
            got = self.rte(f"ends.pl?{query}")
            self.assertEqual((got.status, got.text), (200, f"{query}gone " * 4))

    def test_script_that_reads_what_is_always_the_same_is_kept(self):
        self.assertEqual(self.texts("kept.pl", 3), ["11"] * 3)

    def test_variables_that_are_set(self):
        self.assertEqual(self.texts("sets.pl", 3), ["/bin|a b|0|a b|a b|1"] * 3)
        self.assertEqual(self.texts("plain.pl", 1), ["plain0"])

    def test_exit_and_die(self):
        for query, status in (("exit", None), ("die", 502)):
            got = self.rte(f"leaves.pl?{query}")
            self.assertIn(got.status, (status,) if status else (200, 502))
            self.assertEqual(self.texts("plain.pl", 1), ["plain0"])
            self.assertEqual(self.texts("leaves.pl", 2), ["plainx"] * 2)


if __name__ == "__main__":
    unittest.main()
