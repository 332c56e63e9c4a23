#!/usr/bin/perl
# engine.pl: the Perl engine: a CGIplus process that runs one CGI script or PSGI application after another, each compiled once.
# Here: the arguments and the start. lib/Sluice/Engine.pm has the loop over requests and a table of the other files.
#
#   perl engine.pl [--app=APP.psgi] [--fresh=fork]
#
# It needs Perl 5.30 and its core modules. The native part (make -C sdk/perl) makes it faster, and is not required.
use strict;
use warnings;

BEGIN {
    # The library is beside this file. FindBin is left to the scripts, because it remembers the first program that asked.
    my ($directory) = __FILE__ =~ m{^(.*)/};
    $directory = '.' unless defined $directory;
    if ($directory !~ m{^/}) {
        require Cwd;
        $directory = Cwd::abs_path($directory);
    }
    ($directory) = $directory =~ /(.*)/s;
    unshift @INC, grep { -d } "$directory/arch", "$directory/build/dist/blib/arch", "$directory/shim", "$directory/lib";
    require Sluice::Engine::Exit;    # replaces exit and srand for everything that is compiled after it
}
use Sluice::Engine ();

exit Sluice::Engine::main(@ARGV);
