#!/usr/bin/env perl
# printenv.pl: a CGI script in Perl. Prints its environment, sorted.
use strict;
use warnings;

print "Content-Type: text/plain\n\n";
print "$_=$ENV{$_}\n" for sort keys %ENV;
