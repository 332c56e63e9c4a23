#!/usr/bin/env perl
# counter.pl: a CGIplus script in Perl. The process stays, so it can count its requests.
use strict;
use warnings;

$| = 1;    # Autoflush: the server waits for the end of the reply.
my $end  = $ENV{CGIPLUSEOF} // die "CGIPLUSEOF is not set: this script runs as CGIplus\n";
my $uses = 0;
open my $requests, '<', $ENV{CGIPLUSIN} or die "CGIPLUSIN: $!\n";

# A request: a line "!", the variables as NAME=value, an empty line. On end-of-file the script must exit.
while (defined(my $start = <$requests>)) {
    next if $start ne "!\n";
    my %variable;
    while (1) {
        my $line = <$requests> // exit;
        last if $line eq "\n";
        chomp $line;
        my ($name, $value) = split /=/, $line, 2;
        $variable{$name} = $value;
    }
    $uses++;
    print "Content-Type: text/plain\n\n",
        "Perl process $$, use $uses: $variable{REQUEST_METHOD} from $variable{REMOTE_ADDR}\n",
        "$end\n";    # Ends the reply; the process continues.
}
