#!/usr/bin/perl
# Keeps a number in memory. As CGIplus it is a variable of this script. Under RTE the variables of a script begin again with each request, and
# uses() is the count of the engine's process; as CGI each request has a process of its own and gets 1.
use strict;
use warnings;
use Sluice;

my $count = 0;
while (Sluice::accept()) {
    $count = Sluice::is_persistent() ? $count + 1 : Sluice::uses();
    Sluice::header('Cache-Control', 'no-store');
    Sluice::respond('text/plain; charset=utf-8');
    Sluice::write("$count\n");
    Sluice::finish();
}
