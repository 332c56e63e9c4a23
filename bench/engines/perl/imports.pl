#!/usr/bin/perl
# A script with heavy imports: what a program for reports may need. It uses a little of it.
use strict;
use warnings;
use CGI ();
use Data::Dumper ();
use Digest::SHA ();
use Encode ();
use File::Find ();
use File::Temp ();
use Getopt::Long ();
use HTTP::Tiny ();
use IO::Socket::INET ();
use JSON::PP ();
use Math::BigFloat;
use POSIX ();
use Storable ();
use Template ();
use Time::Local ();
use URI ();

my $body = JSON::PP->new->canonical->encode({ total => Math::BigFloat->new('19.90')->bmul(3)->bstr });
print "Content-Type: application/json\r\nContent-Length: ", length($body), "\r\n\r\n$body";
