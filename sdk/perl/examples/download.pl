#!/usr/bin/perl
# A large download through the memory buffer: ?mb=100. Where the server gives no buffer, it is written to standard output.
use strict;
use warnings;
use Sluice;

my $block = join '', map { chr($_ % 256) } 0 .. 65535;

while (Sluice::accept()) {
    my $megabytes = Sluice::parameter('mb', 10);
    if ($megabytes !~ /^\d{1,5}\z/) {
        Sluice::fail(400, 'mb must be a number');
    }
    else {
        Sluice::header('Content-Length', $megabytes << 20);
        # Before the head is written.
        my $has_buffer = Sluice::buffer_begin(4 << 20);
        Sluice::respond('application/octet-stream');
        for (1 .. $megabytes * 16) {
            # False: the client has left.
            last unless $has_buffer ? Sluice::buffer_write($block) : Sluice::write($block);
        }
        Sluice::buffer_end() if $has_buffer;
    }
    Sluice::finish();
}
