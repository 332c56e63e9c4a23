#!/usr/bin/perl
# The application as a CGI script; under the engine and under mod_perl, the same file.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Work;

binmode STDIN;
binmode STDOUT;
my $body = Work::reply(\%ENV, sub { read(STDIN, $_[0], $_[1]) });
print "Content-Type: text/plain\r\nContent-Length: ", length($body), "\r\n\r\n", $body;
