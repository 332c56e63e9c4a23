#!/usr/bin/perl
# Counts the requests of its process. Under CGI it is always 1; under CGIplus the variable stays; under RTE variables of a script begin
# again with each request, and uses() is the count of the engine's process.
use strict;
use warnings;
use Sluice;

my $count = 0;
while (Sluice::accept()) {
    $count++;
    Sluice::respond('text/plain; charset=utf-8');
    Sluice::write("This script has counted to $count. Process $$ has served ", Sluice::uses(), " requests.\n");
    Sluice::finish();
}
