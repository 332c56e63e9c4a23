#!/usr/bin/perl
# Server-sent events: the time, once a second, for ?count=10 seconds.
use strict;
use warnings;
use Sluice;

while (Sluice::accept()) {
    my $count = Sluice::parameter('count', 10);
    $count = 10 unless $count =~ /^\d{1,3}\z/;
    for my $number (1 .. $count) {
        sleep 1 if $number > 1;
        Sluice::event(scalar localtime, 'time', $number) or last;
    }
    Sluice::finish();
}
