package Plack::Handler::Sluice;
use strict;
use warnings;
use Cwd        ();
use File::Temp ();
use POSIX      ();

our $VERSION = '0.1';

sub new {
    my ($class, %options) = @_;
    return bless \%options, $class;
}

# Starts a server for the application file, and is that server until it ends.
sub run {
    my ($self) = @_;
    my $file = $self->{psgi} || $ENV{SLUICE_PSGI} or die "Plack::Handler::Sluice: the option psgi names the file of the application\n";
    my $host = $self->{host} || '127.0.0.1';
    my $port = $self->{port} || 5000;
    $file = Cwd::abs_path($file) // die "$file: $!\n";
    my ($directory, $name) = $file =~ m{^(.*)/([^/]+)\z};
    my $place = File::Temp->newdir('sluice-plack-XXXXXX', TMPDIR => 1);
    my $workers = $self->{workers} || 4;
    my $sdk = __FILE__ =~ m{^(/.*)/perl/(?:build/dist/)?(?:blib/)?lib/} && -e "$1/perl/engine.pl" ? "[server]\nsdk = " . quoted($1) . "\n" : '';
    open my $out, '>', "$place/sluice.toml" or die "$place/sluice.toml: $!\n";
    print $out $sdk, "[[listen]]\naddress = ", quoted("$host:$port"), "\n[[site]]\n  [[site.route]]\n  path = \"/*\"\n",
        "  script = { mode = \"rte\", engine = \"perl\", app = ", quoted($name), ", directory = ", quoted($directory), ", max = $workers }\n";
    close $out or die "$place/sluice.toml: $!\n";
    my @command = ($self->{sluice} || $ENV{SLUICE} || 'sluice', 'run', $> == 0 ? '--allow-root' : (), '-c', "$place/sluice.toml");
    # A child, so that the configuration is removed at the end.
    my $child = fork;
    die "fork: $!\n" unless defined $child;
    if (!$child) {
        exec { $command[0] } @command or print STDERR "$command[0]: $!\n";
        POSIX::_exit(127);
    }
    local @SIG{qw(TERM INT QUIT HUP)} = (sub { kill TERM => $child }) x 4;
    # A signal interrupts the wait.
    until (waitpid($child, 0) == $child) {
        last if $! == POSIX::ECHILD();
    }
    return;
}

sub quoted {
    my ($text) = @_;
    $text =~ s/([\\"])/\\$1/g;
    return qq("$text");
}

1;

__END__

=head1 NAME

Plack::Handler::Sluice - runs a PSGI application under the web server Sluice

=head1 SYNOPSIS

  plackup -s Sluice --psgi app.psgi --port 8080 app.psgi

=head1 DESCRIPTION

Starts the server C<sluice> with a route that gives every path to the application, and waits for its end. For a site, write the route into
a configuration of Sluice instead; no Plack is needed then.

Options: C<psgi> (the file of the application; required, because the server's processes load it), C<host>, C<port>, C<workers> (processes),
C<sluice> (the program; by default the variable C<SLUICE>, or C<sluice> of the search path).

=cut
