# The library without a server: text, forms, responses under an ordinary CGI server.
use strict;
use warnings;
use Test::More;
use File::Temp qw(tempfile);

my ($handle, $body) = tempfile(UNLINK => 1);

# Runs code in a process of its own, as a CGI server does. Returns its output.
sub cgi {
    my ($code, $input, %environment) = @_;
    open my $file, '>', $body or die;
    print $file $input;
    close $file;
    local @ENV{keys %environment} = values %environment;
    local $ENV{CONTENT_LENGTH} = length $input;
    my @include = map { "-I$_" } @INC;
    open my $pipe, '-|', 'sh', '-c', 'exec "$0" "$@" < ' . $body, $^X, @include, '-MSluice', '-e', $code or die;
    local $/;
    return scalar <$pipe>;
}

is cgi('Sluice::accept(); Sluice::respond("text/plain"); print Sluice::parameter("a"), Sluice::accept() ? 1 : 0', '', QUERY_STRING => 'a=%41+b'),
    "Content-Type: text/plain\n\nA b0", 'accept is true once';
is cgi('Sluice::accept(); print join ",", map { $_, Sluice::parameters($_) } Sluice::parameter_names()', 'c=3&a=4', QUERY_STRING => 'a=1&b=2',
    CONTENT_TYPE => 'application/x-www-form-urlencoded'), 'a,1,4,b,2,c,3', 'fields of query and body in their order';
is cgi('Sluice::accept(); my ($code, $text) = Sluice::callout("NOOP:"); print "$code $text"', ''), '0 the server has no callouts', 'no callouts';
is cgi('Sluice::accept(); print Sluice::buffer_begin(1000) ? 1 : 0', ''), '0', 'no memory buffer';
is cgi('Sluice::accept(); Sluice::redirect("/x"); ', ''), "Status: 302\nLocation: /x\n\n", 'redirect';
require Sluice;
is Sluice::escape_html(q(<&>"')), '&lt;&amp;&gt;&quot;&#39;', 'escape_html';
is Sluice::url_decode(Sluice::url_encode(join '', map chr, 0 .. 255)), join('', map chr, 0 .. 255), 'every byte is coded and decoded';

done_testing;
