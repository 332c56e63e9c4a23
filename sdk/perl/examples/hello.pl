#!/usr/bin/perl
# A greeting. The same file works under CGI, CGIplus and RTE.
use strict;
use warnings;
use Sluice;

while (Sluice::accept()) {
    my $name = Sluice::parameter('name', 'world');
    Sluice::respond('text/plain; charset=utf-8');
    Sluice::write("Hello, $name.\n");
    Sluice::finish();
}
