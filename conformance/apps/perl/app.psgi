# The behaviours as a PSGI application. PATH_INFO names one.
use strict;
use warnings;
use Cwd qw(getcwd);

my %behaviour;

sub text {
    my ($body, $status, @headers) = @_;
    return [$status // 200, ['Content-Type' => 'text/plain; charset=utf-8', @headers], [$body]];
}

# A streaming response: calls the code with a writer.
sub streamed {
    my ($type, $code, @headers) = @_;
    return sub {
        my $writer = $_[0]->([200, ['Content-Type' => $type, @headers]]);
        $code->($writer);
        $writer->close;
    };
}

sub wait_at_gate {
    open my $gate, '<', "$ENV{PROBE_DIR}/gate" or die "gate: $!\n";
    return scalar <$gate>;
}

$behaviour{variables} = sub {
    my $env = shift;
    text(join '', map { exists $env->{$_} ? "$_=$env->{$_}\n" : "$_ is absent\n" } split ' ', $env->{HTTP_X_NAMES});
};
$behaviour{fields} = sub {
    my $env = shift;
    text("$env->{HTTP_X_TWICE}\n$env->{HTTP_COOKIE}\n",
        200, 'X-Twice', 'one', 'X-Twice', 'two', 'Set-Cookie', 'a=1', 'Set-Cookie', 'b=2; Path=/');
};
$behaviour{echo} = sub {
    my $env = shift;
    streamed('application/octet-stream', sub {
        my $writer = shift;
        while ($env->{'psgi.input'}->read(my $data, 65536)) { $writer->write($data) }
    }, 'X-Content-Length' => $env->{CONTENT_LENGTH} || 0);
};
$behaviour{to_and_fro} = sub {
    my $env = shift;
    streamed('text/plain', sub {
        my $writer = shift;
        for my $number (1, 2) {
            my $got = 0;
            while ($got < 65536 and my $more = $env->{'psgi.input'}->read(my $data, 65536 - $got)) { $got += $more }
            $writer->write("part $number: $got bytes\n");
        }
    });
};
$behaviour{stream} = sub {
    streamed('text/plain', sub {
        my $writer = shift;
        $writer->write("first\n");
        $writer->write(wait_at_gate());
    });
};
$behaviour{client_redirect} = sub { text('', 302, Location => 'https://example.org/elsewhere?a=1') };
$behaviour{document_redirect} = sub { text("It is elsewhere.\n", 303, Location => 'https://example.org/new') };
$behaviour{status}     = sub { text("a document\n", $_[0]{QUERY_STRING}) };
$behaviour{large_head} = sub {
    my $env = shift;
    text(length($env->{HTTP_X_LARGE}) . ' ' . length($env->{QUERY_STRING}) . "\n",
        200, map { ("X-Field-$_" => 'v' x 300) } 1 .. $env->{HTTP_X_COUNT});
};
$behaviour{empty}      = sub { text('') };
$behaviour{no_content} = sub { [204, [], []] };
$behaviour{short}      = sub { text("short\n", 200, 'Content-Length' => 100) };
$behaviour{die_before} = sub { kill KILL => $$ };

# Goes on when the client has got the first half.
sub half {
    my $code = shift;
    return streamed('text/plain', sub {
        $_[0]->write("half\n");
        wait_at_gate();
        $code->();
    });
}

$behaviour{die_within}   = sub { half(sub { kill KILL => $$ }) };
$behaviour{error_before} = sub { die "an error $_[0]{QUERY_STRING}\n" };
$behaviour{error_within} = sub {
    my $env = shift;
    half(sub { die "an error $env->{QUERY_STRING}\n" });
};
$behaviour{endless} = sub { select undef, undef, undef, 0.01 while 1 };
$behaviour{errors}  = sub {
    $_[0]{'psgi.errors'}->print("a line $_[0]{QUERY_STRING}\n");
    text($$);
};
$behaviour{process}   = sub { text($$) };
$behaviour{directory} = sub { text(getcwd() . "\n" . scalar(@ARGV) . " arguments\n") };
$behaviour{look}      = sub {
    my $env = shift;
    text(join '', map { "$_=" . ($env->{$_} // 'None') . "\n" }
            qw(REQUEST_METHOD QUERY_STRING CONTENT_LENGTH CONTENT_TYPE HTTP_X_LEFT HTTP_COOKIE));
};
$behaviour{leave} = sub { text("left\n", 404, 'X-Left' => 'here') };
$behaviour{bulk}  = sub {
    streamed('text/plain', sub {
        my $writer = shift;
        $writer->write("$$\n");
        $writer->write('x' x 65536) while 1;
    });
};
$behaviour{silent} = sub {
    streamed('text/plain', sub {
        my $writer = shift;
        $writer->write("$$\n");
        $writer->write(wait_at_gate());
    });
};

my $application = sub {
    my $env = shift;
    my ($name) = $env->{PATH_INFO} =~ m{^/([a-z-]+)};
    $name =~ tr/-/_/;
    return $behaviour{$name}->($env);
};
$application;
