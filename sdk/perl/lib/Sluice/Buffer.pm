# Sluice::Buffer: the memory buffer: the ring through the native part, or without it the plain buffer in two halves.
package Sluice::Buffer;
use strict;
use warnings;
use Sluice::Engine::Channel ();

my ($kind, $size, $is_flushed, $total, $failed);
my ($file, $half, $waiting);    # plain: the buffer, the half that is filled next, callouts without their answers

eval { local $SIG{__DIE__}; require Sluice::Native } unless ($ENV{SLUICE_NATIVE} // '') eq '0';

sub is_active { return defined $kind }

# After a request that has not ended its buffer: the end of the response has ended it for the server.
sub forget {
    Sluice::Native::ring_close() if ($kind || '') eq 'ring';
    undef $kind;
    undef $file;
}

# Bytes in the buffer; 0 with $! if there is none.
sub begin {
    my ($bytes) = @_;
    die "Sluice::buffer_begin: a buffer is in use\n" if defined $kind;
    my $kilobytes = int((($bytes || 0) + 1023) / 1024);
    my $shape = defined &Sluice::Native::ring_attach ? ' ring' : '';
    my ($code, $text) = Sluice::callout("BUFFER-BEGIN: ${kilobytes}k$shape");
    return 0 unless $code == 200 && $text =~ /^(\S+) (\d+)/;
    ($size, $total, $is_flushed, $failed) = ($2, 0, 0, 0);
    if ($shape) {
        return 0 if Sluice::Native::ring_attach(4, $size) < 0;
        $kind = 'ring';
    }
    else {
        open $file, '+<&', 4 or return 0;
        binmode $file;
        ($half, $waiting) = (0, 0);
        $kind = 'plain';
    }
    return $size;
}

# Sends data through the buffer. False if the client has left.
sub put {
    die "Sluice::buffer_write: no buffer\n" unless defined $kind;
    return 0 if $failed;
    if (!$is_flushed) {
        Sluice::flush();
        $is_flushed = 1;
    }
    if ($kind eq 'ring') {
        if (Sluice::Native::ring_write($_[0]) < 0) {
            $failed = 1;
            return 0;
        }
        $total += length $_[0];
        return 1;
    }
    for (my $done = 0 ; $done < length $_[0] ;) {
        my $part = put_half($_[0], $done);
        return 0 unless $part;
        $done += $part;
    }
    return 1;
}

# Fills one half while the server sends the other.
sub put_half {
    my $done  = $_[1];
    my $room  = int $size / 2;
    my $bytes = length($_[0]) - $done;
    $bytes = $room if $bytes > $room;
    # The half that is filled now was sent by the callout before the last.
    return 0 if $waiting > 1 && !settle();
    sysseek $file, $half * $room, 0;
    for (my $written = 0 ; $written < $bytes ;) {
        my $count = syswrite $file, $_[0], $bytes - $written, $done + $written;
        return fail() unless $count;
        $written += $count;
    }
    Sluice::Engine::Channel::write_mailbox(Sluice::Engine::Channel::callout("BUFFER-WRITE: $bytes " . $half * $room)) or return fail();
    $waiting++;
    $half  = 1 - $half;
    $total += $bytes;
    return $bytes;
}

sub settle {
    my $answer = Sluice::Engine::Channel::read_answer();
    $waiting--;
    return defined $answer && $answer =~ /^200/ ? 1 : fail();
}

sub fail {
    $failed = 1;
    return 0;
}

# Waits until everything is sent. False if it was not.
sub end {
    return 0 unless defined $kind;
    my $was = $kind;
    if ($was eq 'plain') {
        while ($waiting) { settle() }
    }
    undef $kind;
    undef $file;
    if ($was eq 'ring') {
        Sluice::flush() unless $is_flushed;
        return 0 if Sluice::Native::ring_close() < 0;
    }
    return 0 if $failed;
    my ($code, $text) = Sluice::callout('BUFFER-END:');
    return $code == 200 && $text == $total ? 1 : 0;
}

1;
