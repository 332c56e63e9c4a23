#!/usr/bin/perl
# The application as a CGIplus program, with nothing but Perl.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Work;

my $end = $ENV{CGIPLUSEOF};
open(my $records, '<', $ENV{CGIPLUSIN}) or die "$ENV{CGIPLUSIN}: $!";
binmode STDOUT;
$| = 1;

sub next_request {
    while (defined(my $start = <$records>)) {
        next if $start ne "!\n";
        my %request;
        while (defined(my $line = <$records>)) {
            return \%request if $line eq "\n";
            chomp $line;
            my ($name, $value) = split /=/, $line, 2;
            $request{$name} = $value;
        }
    }
    return;
}

while (my $request = next_request()) {
    my $body = Work::reply($request, sub { sysread(STDIN, $_[0], $_[1]) });
    print "Content-Type: text/plain\r\nContent-Length: " . length($body) . "\r\n\r\n$body$end\n";
}
