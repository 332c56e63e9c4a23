# FCGI: stands in for the module FCGI, so that scripts with CGI::Fast run unchanged: each turn of the loop is a request.
#
#   in the engine   Accept takes the next request of this script; when one for another script comes, the loop ends and the engine runs that
#   CGIplus         Accept is Sluice::accept
#   CGI             the loop runs once
#
# The loop is real, not one turn for each request, because whoever writes it wants what is before it to run once.
package FCGI;
use strict;
use warnings;
use Sluice ();

our $VERSION = '0.82';    # of the interface
our $global_request;

use constant FAIL_ACCEPT_ON_INTR => 1;

sub Request {
    my ($in, $out, $err, $environment) = @_;
    return $global_request = bless {environment => $environment || \%ENV, is_attached => 1}, __PACKAGE__;
}

sub Accept {
    my ($self) = @_;
    my $accepted = defined &Sluice::Engine::next_turn ? Sluice::Engine::next_turn() : Sluice::accept();
    $self->{is_accepted} = $accepted;
    return $accepted ? 0 : -1;
}

sub Finish {
    my ($self) = @_;
    return unless $self->{is_accepted};
    $self->{is_accepted} = 0;
    defined &Sluice::Engine::finish_turn ? Sluice::Engine::finish_turn() : Sluice::finish();
}

sub Flush          { Sluice::flush() }
sub Detach         { }
sub Attach         { }
sub LastCall       { }
sub IsFastCGI      { return 0 }
sub GetEnvironment { return $_[0]{environment} }
sub GetHandles     { return (\*STDIN, \*STDOUT, \*STDERR) }
sub OpenSocket     { return 0 }
sub CloseSocket    { }

# The functions of old scripts: while (FCGI::accept() >= 0).
sub accept { return ($global_request ||= Request())->Accept }
sub finish { return $global_request->Finish }

1;
