#!/usr/bin/perl
# Writes MEGABYTES+b or MEGABYTES+m (the query) in blocks of 64 kB: to the memory buffer, or to the mailbox.
use strict;
use warnings;

my $block = 'x' x 65536;
my ($megabytes, $channel) = split /\+/, $ENV{QUERY_STRING};
my $blocks = $megabytes * 16;
if ($channel eq 'b') {
    require Sluice;
    Sluice::accept();
    Sluice::buffer_begin(4 * 1024 * 1024);
    Sluice::header('Content-Type', 'application/octet-stream');
    Sluice::respond();
    Sluice::buffer_write($block) for 1 .. $blocks;
    Sluice::buffer_end();
} else {
    binmode STDOUT;
    print "Content-Type: application/octet-stream\r\n\r\n";
    print $block for 1 .. $blocks;
}
