#!/usr/bin/env perl
# The behaviours as a script in Perl on the library: CGI, CGIplus and RTE by the same source. PATH_INFO names one.
use strict;
use warnings;
use Cwd qw(getcwd);
use Sluice;

sub variable { return Sluice::variable(@_) }

sub text_head {
    Sluice::header(split /: /, $_, 2) for @_;
    Sluice::respond('text/plain; charset=utf-8');
}

sub variables {
    text_head();
    for my $name (split ' ', variable('HTTP_X_NAMES')) {
        my $value = variable($name);
        Sluice::write(defined $value ? "$name=$value\n" : "$name is absent\n");
    }
}

sub fields {
    text_head('X-Twice: one', 'X-Twice: two', 'Set-Cookie: a=1', 'Set-Cookie: b=2; Path=/');
    Sluice::write(variable('HTTP_X_TWICE') . "\n" . variable('HTTP_COOKIE') . "\n");
}

sub echo {
    Sluice::header('X-Content-Length', variable('CONTENT_LENGTH') || 0);
    Sluice::respond('application/octet-stream');
    while (length(my $data = Sluice::body_read(65536) // '')) {
        Sluice::write($data);
    }
}

sub to_and_fro {
    text_head();
    for my $number (1, 2) {
        my $got = 0;
        while ($got < 65536 and length(my $data = Sluice::body_read(65536 - $got) // '')) {
            $got += length $data;
        }
        Sluice::write("part $number: $got bytes\n");
        Sluice::flush();
    }
}

sub wait_at_gate {
    open my $gate, '<', "$ENV{PROBE_DIR}/gate" or die "gate: $!\n";
    return scalar <$gate>;
}

sub stream {
    text_head();
    Sluice::write("first\n");
    Sluice::flush();
    Sluice::write(wait_at_gate());
}

sub events {
    Sluice::event("one\ntwo", 'first', 1);
    chomp(my $line = wait_at_gate());
    Sluice::event($line);
}

# A head of its own: redirect() sends the client there.
sub local_redirect { print "Location: /target.txt?from=script\n\n" }

sub client_redirect { Sluice::redirect('https://example.org/elsewhere?a=1') }

sub document_redirect {
    Sluice::status(303);
    text_head('Location: https://example.org/new');
    Sluice::write("It is elsewhere.\n");
}

sub status {
    Sluice::status(variable('QUERY_STRING'));
    text_head();
    Sluice::write("a document\n");
}

sub fail {
    Sluice::header('X-Dropped', 'yes');
    Sluice::fail(variable('QUERY_STRING'), 'not now');
}

sub large_head {
    text_head(map { "X-Field-$_: " . 'v' x 300 } 1 .. variable('HTTP_X_COUNT'));
    Sluice::write(length(variable('HTTP_X_LARGE')) . ' ' . length(variable('QUERY_STRING')) . "\n");
}

sub empty { text_head() }

sub no_content {
    Sluice::status(204);
    Sluice::respond();
}

sub nothing { }

sub nph { print "HTTP/1.1 299 Its Own\r\nContent-Type: text/plain\r\nX-Nph: yes\r\n\r\nwith its own head\n" }

sub short {
    text_head('Content-Length: 100');
    Sluice::write("short\n");
}

sub die_before { kill KILL => $$ }

# Goes on when the client has got this.
sub half {
    text_head();
    Sluice::write("half\n");
    Sluice::flush();
    wait_at_gate();
}

sub die_within {
    half();
    kill KILL => $$;
}

sub exit_before { exit 3 }

sub exit_within {
    text_head();
    Sluice::write("before\n");
    exit;
}

sub error_before { die 'an error ', variable('QUERY_STRING'), "\n" }

sub error_within {
    half();
    error_before();
}

sub endless { select undef, undef, undef, 0.01 while 1 }

sub errors {
    text_head();
    Sluice::write($$);
    print STDERR 'a line ', variable('QUERY_STRING'), "\n";
}

sub process {
    text_head();
    Sluice::write($$);
}

sub directory {
    text_head();
    Sluice::write(getcwd() . "\n" . scalar(@ARGV) . " arguments\n");
}

sub look {
    text_head();
    for my $name (qw(REQUEST_METHOD QUERY_STRING CONTENT_LENGTH CONTENT_TYPE HTTP_X_LEFT HTTP_COOKIE)) {
        Sluice::write("$name=" . (variable($name) // 'None') . "\n");
    }
    my @names = Sluice::parameter_names();
    Sluice::write('parameters: ' . @names . "\n");
}

sub leave {
    Sluice::status(404);
    text_head('X-Left: here');
    Sluice::write("left\n");
}

sub bulk {
    text_head();
    Sluice::write("$$\n");
    Sluice::flush();
    while (1) { Sluice::write('x' x 65536) }
}

sub silent {
    text_head();
    Sluice::write("$$\n");
    Sluice::flush();
    Sluice::write(wait_at_gate());
}

sub form {
    text_head();
    for my $name (qw(a b c)) {
        Sluice::write("$name: " . join('|', Sluice::parameters($name)) . "\n");
    }
    Sluice::write(Sluice::parameter('a') . ' ' . Sluice::parameter('missing', 'absent') . "\n");
}

sub upload {
    text_head();
    my $file;
    for my $name (qw(f g)) {
        $file = Sluice::upload($name);
        Sluice::write("$file->{name}|$file->{filename}|$file->{type}|$file->{size}\n");
    }
    open my $content, '<:raw', $file->{path} or die "$file->{path}: $!\n";
    while (read $content, my $data, 65536) { Sluice::write($data) }
}

sub form_limit {
    return Sluice::fail($@->status) unless eval { Sluice::parameter('a'); 1 };
    text_head();
}

sub quoted {
    text_head();
    Sluice::write(Sluice::parameter('a"b'), "\n", Sluice::upload('f"g')->{filename}, "\n");
}

sub loop {
    text_head();
    Sluice::write("$$ ", Sluice::is_persistent() ? 'yes' : 'no', ' ', Sluice::uses());
}

sub coding {
    my $text = "<a href=\"x\">'&amp;\xc3\xbc</a> 100%";
    text_head();
    for my $coded (Sluice::escape_html($text), Sluice::url_encode($text), Sluice::url_decode('%3Ca%3E+%C3%BC+%zz%')) {
        Sluice::write("$coded\n");
    }
}

sub callouts {
    text_head();
    for my $request ('MAP-PATH: /file.txt', 'MAP-FILE: /etc/passwd', 'NONSENSE: x', 'LIFETIME: 1h', 'NOOP:') {
        my ($code, $text) = Sluice::callout($request);
        Sluice::write("$code $text\n");
    }
    Sluice::notice('a notice ' . variable('QUERY_STRING'));
}

sub block { return chr(ord('a') + $_[0] % 26) x 65536 }

sub ask {
    my ($code, $text) = Sluice::callout($_[0]);
    die "$_[0]: $code $text\n" unless $code == 200;
}

sub buffer_plain {
    ask('BUFFER-BEGIN: 128k');
    text_head();
    open my $buffer, '+<:raw', $ENV{CGIPLUSBUF} or die "$ENV{CGIPLUSBUF}: $!\n";
    for my $number (0 .. variable('QUERY_STRING') - 1) {
        my $offset = $number % 2 * 65536;
        sysseek $buffer, $offset, 0;
        syswrite $buffer, block($number);
        ask("BUFFER-WRITE: 65536 $offset");
    }
    Sluice::callout('BUFFER-END:');
}

sub buffer {
    Sluice::buffer_begin(1 << 20) or die "no memory buffer\n";
    text_head();
    Sluice::buffer_write(block($_)) || die "the memory buffer: $!\n" for 0 .. variable('QUERY_STRING') - 1;
    Sluice::buffer_end() or die "the end of the memory buffer\n";
}

sub buffer_gone {
    Sluice::buffer_begin(1 << 20);
    text_head();
    1 while Sluice::buffer_write(block(0));
    open my $event, '>', "$ENV{PROBE_DIR}/event" or die "event: $!\n";
    print $event "gone: $!\n";
    close $event;
}

while (Sluice::accept()) {
    my ($name) = variable('PATH_INFO') =~ m{^/([a-z-]+)};
    $name =~ tr/-/_/;
    __PACKAGE__->can($name)->();
    Sluice::finish();
}
