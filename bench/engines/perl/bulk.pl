#!/usr/bin/perl
# Writes MEGABYTES+b or MEGABYTES+m (the query) in pieces of 64 kB: to the memory buffer, or to the mailbox.
use strict;
use warnings;

my $piece = 'x' x 65536;
my ($megabytes, $channel) = split /\+/, $ENV{QUERY_STRING};
my $pieces = $megabytes * 16;
if ($channel eq 'b') {
    require Sluice;
    Sluice::buffer_begin(4 * 1024 * 1024);
    Sluice::header('Content-Type', 'application/octet-stream');
    Sluice::respond();
    Sluice::buffer_write($piece) for 1 .. $pieces;
    Sluice::buffer_end();
} else {
    binmode STDOUT;
    print "Content-Type: application/octet-stream\r\n\r\n";
    print $piece for 1 .. $pieces;
}
