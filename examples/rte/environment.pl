#!/usr/bin/env perl
# Prints the variables of the request. SCRIPT_RTE is the name of the engine.
use strict;
use warnings;

print "Content-Type: text/plain; charset=utf-8\n\n";
for my $name (sort keys %ENV) {
    next if $name =~ /^CGIPLUS/;    # secrets of the protocol between server and script
    (my $value = $ENV{$name}) =~ s/([^ -~])/sprintf '\\x%02x', ord $1/ge;
    print "$name=$value\n";
}
