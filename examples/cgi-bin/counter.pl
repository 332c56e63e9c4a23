#!/usr/bin/env perl
# counter.pl: a CGIplus script in Perl. The process lives on, so it can count how often it has been used.
use strict;
use warnings;

$| = 1;    # What is printed leaves at once: the server waits for it.
my $end  = $ENV{CGIPLUSEOF} // die "CGIPLUSEOF is not set: this script runs as CGIplus\n";
my $uses = 0;
open my $requests, '<', $ENV{CGIPLUSIN} or die "CGIPLUSIN: $!\n";

# A request: a line "!", the variables as NAME=value, an empty line. End-of-file is the order to exit.
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
        "$end\n";    # The reply ends here; the process does not.
}
