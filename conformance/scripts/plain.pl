#!/usr/bin/env perl
# The behaviours as a CGI script in Perl that uses no library. PATH_INFO names one.
use strict;
use warnings;
use Cwd qw(getcwd);

our $left;

sub variable { return $ENV{ $_[0] } }

sub text_head { print map({ "$_\n" } 'Content-Type: text/plain; charset=utf-8', @_), "\n" }

sub flush_out { local $| = 1; print '' }

sub variables {
    text_head();
    for my $name (split ' ', variable('HTTP_X_NAMES')) {
        print exists $ENV{$name} ? "$name=$ENV{$name}\n" : "$name is absent\n";
    }
}

sub fields {
    text_head('X-Twice: one', 'X-Twice: two', 'Set-Cookie: a=1', 'Set-Cookie: b=2; Path=/');
    print variable('HTTP_X_TWICE'), "\n", variable('HTTP_COOKIE'), "\n";
}

sub echo {
    my $rest = variable('CONTENT_LENGTH') || 0;
    print "Content-Type: application/octet-stream\nX-Content-Length: $rest\n\n";
    flush_out();
    binmode STDIN;
    binmode STDOUT;
    while ($rest > 0) {
        my $got = read STDIN, my $data, $rest < 65536 ? $rest : 65536;
        die "$rest bytes are missing\n" unless $got;
        $rest -= $got;
        print $data;
    }
}

sub to_and_fro {
    text_head();
    for my $number (1, 2) {
        my $got = read STDIN, my $data, 65536;
        print "part $number: $got bytes\n";
        flush_out();
    }
}

sub wait_at_gate {
    open my $gate, '<', variable('PROBE_DIR') . '/gate' or die "gate: $!\n";
    return scalar <$gate>;
}

sub stream {
    text_head();
    print "first\n";
    flush_out();
    print wait_at_gate();
}

sub local_redirect { print "Location: /target.txt?from=script\n\n" }

sub client_redirect { print "Location: https://example.org/elsewhere?a=1\n\n" }

sub document_redirect {
    text_head('Status: 303 See Other', 'Location: https://example.org/new');
    print "It is elsewhere.\n";
}

sub status {
    text_head('Status: ' . variable('QUERY_STRING') . ' Its Own Words');
    print "a document\n";
}

sub large_head {
    text_head(map { "X-Field-$_: " . 'v' x 300 } 1 .. variable('HTTP_X_COUNT'));
    print length(variable('HTTP_X_LARGE')), ' ', length(variable('QUERY_STRING')), "\n";
}

sub empty { text_head() }

sub no_content { print "Status: 204 No Content\n\n" }

sub nothing { }

sub nph { print "HTTP/1.1 299 Its Own\r\nContent-Type: text/plain\r\nX-Nph: yes\r\n\r\nwith its own head\n" }

sub short {
    text_head('Content-Length: 100');
    print "short\n";
}

sub die_before { kill KILL => $$ }

# Goes on when the client has got this.
sub half {
    text_head();
    print "half\n";
    flush_out();
    wait_at_gate();
}

sub die_within {
    half();
    kill KILL => $$;
}

sub exit_before { exit 3 }

sub exit_within {
    text_head();
    print "before\n";
    exit;
}

sub error_before { die 'an error ', variable('QUERY_STRING'), "\n" }

sub error_within {
    half();
    die 'an error ', variable('QUERY_STRING'), "\n";
}

sub endless { select undef, undef, undef, 0.01 while 1 }

sub errors {
    text_head();
    print $$;
    print STDERR 'a line ', variable('QUERY_STRING'), "\n";
}

sub process {
    text_head();
    print $$;
}

sub directory {
    text_head();
    print getcwd(), "\n", scalar @ARGV, " arguments\n";
}

sub look {
    text_head();
    for my $name (qw(REQUEST_METHOD QUERY_STRING CONTENT_LENGTH CONTENT_TYPE HTTP_X_LEFT HTTP_COOKIE LEFT)) {
        print "$name=", variable($name) // 'None', "\n";
    }
    printf "global=%s directory=%s umask=%o\n", $left // 'None', getcwd(), umask;
}

sub leave {
    $left = 'by another request';
    $ENV{LEFT} = $left;
    chdir '/';
    umask 7;
    text_head('Status: 404 Not Found', 'X-Left: here');
    print "left\n";
}

sub bulk {
    text_head();
    print "$$\n";
    flush_out();
    while (1) { print 'x' x 65536 or die "the client is gone\n" }
}

sub silent {
    text_head();
    print "$$\n";
    flush_out();
    print wait_at_gate();
}

my ($name) = variable('PATH_INFO') =~ m{^/([a-z-]+)};
$name =~ tr/-/_/;
__PACKAGE__->can($name)->();
