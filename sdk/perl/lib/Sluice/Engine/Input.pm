# Sluice::Engine::Input: psgi.input for a request with a body: it ends after CONTENT_LENGTH bytes, and reads while they arrive.
package Sluice::Engine::Input;
use strict;
use warnings;

# Bytes read at a time for lines.
use constant BLOCK_BYTES => 65536;

# What a read dies with after the reply: the bytes that follow are those of another request.
use constant ENDED => "the request of this body has been answered\n";

# What a read dies with if the server's pipe is at its end within the body.
use constant LEFT => "the client has left within its request body\n";

sub new {
    my ($class, $handle, $bytes) = @_;
    return bless {handle => $handle, rest => $bytes, buffer => ''}, $class;
}

# Ends it with the reply, for an application that has kept it.
sub end_request {
    my ($self) = @_;
    $self->{has_ended} = 1 if $self->{rest} > 0;
    $self->{rest} = 0;
}

# Adds some bytes to the buffer. False at the end.
sub fill {
    my ($self, $wanted) = @_;
    die ENDED if $self->{has_ended};
    return 0 if $self->{rest} <= 0;
    $wanted = BLOCK_BYTES if $wanted < BLOCK_BYTES;
    $wanted = $self->{rest} if $wanted > $self->{rest};
    while (1) {
        my $count = sysread $self->{handle}, $self->{buffer}, $wanted, length $self->{buffer};
        next if !defined $count && $!{EINTR};
        # A part of a body must not be taken for all of it.
        die LEFT if !$count;
        $self->{rest} -= $count;
        return 1;
    }
}

# read($buffer, $length, $offset), as read(): up to `$length` bytes, 0 at the end. What has arrived is returned at once.
sub read {
    my ($self, undef, $length, $offset) = @_;
    $offset ||= 0;
    $self->fill($length) if $self->{buffer} eq '' && $length > 0;
    my $part = substr $self->{buffer}, 0, $length, '';
    $_[1] = '' unless defined $_[1];
    $offset += length $_[1] if $offset < 0;
    $_[1] .= "\0" x ($offset - length $_[1]) if $offset > length $_[1];
    substr($_[1], $offset) = $part;
    return length $part;
}

*sysread = \&read;

sub getline {
    my ($self) = @_;
    my $end = $/;
    if (!defined $end) {
        1 while $self->fill(1 << 20);
        return $self->take(length $self->{buffer});
    }
    if (ref $end) {
        $self->fill($$end) while length $self->{buffer} < $$end && $self->{rest} > 0;
        return $self->take($$end);
    }
    $end = "\n\n" if $end eq '';
    my $at;
    1 while ($at = index $self->{buffer}, $end) < 0 && $self->fill(0);
    return $self->take($at < 0 ? length $self->{buffer} : $at + length $end);
}

sub take {
    my ($self, $length) = @_;
    return if $self->{buffer} eq '';
    return substr $self->{buffer}, 0, $length, '';
}

sub getlines {
    my ($self) = @_;
    my @lines;
    while (defined(my $line = $self->getline)) { push @lines, $line }
    return @lines;
}

sub getc {
    my ($self) = @_;
    $self->fill(1) if $self->{buffer} eq '';
    return $self->take(1);
}

sub eof {
    my ($self) = @_;
    return $self->{buffer} eq '' && !$self->fill(1);
}

sub close   { my ($self) = @_; $self->{buffer} = ''; $self->{rest} = $self->{has_ended} = 0; return 1 }
sub opened  { return 1 }
sub binmode { return 1 }
sub fileno  { return undef }
# There is no way back in a body: Plack::Request keeps a copy of its own.
sub seek { return 0 }
sub tell { return undef }

1;
