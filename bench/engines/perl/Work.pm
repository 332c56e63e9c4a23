package Work;

# The work of every form of the application: script, CGIplus, PSGI. Each form only reads the request and sends the reply.
use strict;
use warnings;

my $line  = join('', map { chr(33 + $_ % 90) } 0 .. 62) . "\n";
my $block = 65536;

sub text {
    my ($size) = @_;
    return substr($line x ($size / length($line) + 1), 0, $size);
}

# One line for each field: its name, and the length of its value in letters.
sub form {
    my ($body) = @_;
    my $reply = '';
    for my $field (split /[&;]/, $body) {
        my ($name, $value) = split /=/, $field, 2;
        for ($name, $value) {
            $_ = '' unless defined;
            tr/+/ /;
            s/%([0-9A-Fa-f]{2})/chr hex $1/ge;
            utf8::decode($_);
        }
        $reply .= "$name: " . length($value) . "\n";
    }
    utf8::encode($reply);
    return $reply;
}

# The number of bytes of the body, and the last eight of them. `read` as of `psgi.input`.
sub upload {
    my ($read, $length) = @_;
    my ($count, $last) = (0, '');
    while ($count < $length) {
        my $got = $read->(my $buffer, $length - $count < $block ? $length - $count : $block) or last;
        $count += $got;
        $last = substr($last . $buffer, -8);
    }
    return "$count $last\n";
}

# The body of the reply to a request.
sub reply {
    my ($request, $read) = @_;
    return text($request->{QUERY_STRING} || 0) if $request->{REQUEST_METHOD} ne 'POST';
    my $length = $request->{CONTENT_LENGTH} || 0;
    return upload($read, $length) if $request->{CONTENT_TYPE} ne 'application/x-www-form-urlencoded';
    my $body = '';
    while (length($body) < $length) {
        $read->(my $buffer, $length - length($body)) or last;
        $body .= $buffer;
    }
    return form($body);
}

1;
