#!/usr/bin/env perl
# A CGI script without a loop. As CGI each request has a process of its own; run by the engine (/rte/hello.pl), the process stays.
use strict;
use warnings;

# What is stored in another package stays as long as the process.
$Hello::uses = ($Hello::uses // 0) + 1;

print "Content-Type: text/plain; charset=utf-8\n\n";
print "Hello from Perl, process $$, use $Hello::uses: $ENV{REQUEST_METHOD} from $ENV{REMOTE_ADDR}\n";
