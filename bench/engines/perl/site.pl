#!/usr/bin/perl
# The Dancer2 application as a CGI script; under the engine and under mod_perl, the same file.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Plack::Handler::CGI;
use Site;

# A global of a module stays in a persistent interpreter; in CGI it is new each time.
$Site::application ||= Site->to_app;
Plack::Handler::CGI->new->run($Site::application);
