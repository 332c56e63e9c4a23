# The application as a PSGI application; below /app it is the one of Dancer2.
use strict;
use warnings;
use File::Basename;
use lib dirname(__FILE__);
use Work;
use Site;

my $dancer = Site->to_app;

sub {
    my ($env) = @_;
    return $dancer->($env) if $env->{PATH_INFO} =~ m{^/app/};
    my $input = $env->{'psgi.input'};
    my $body  = Work::reply($env, sub { $input->read($_[0], $_[1]) });
    return [200, ['Content-Type' => 'text/plain', 'Content-Length' => length $body], [$body]];
};
