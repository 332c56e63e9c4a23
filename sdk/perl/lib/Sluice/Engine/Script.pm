# Sluice::Engine::Script: the scripts of this process: compiled when they are first asked for, and again when their file has changed.
#
# A script is *kept* (compiled once) or *fresh* (compiled for each request). It is fresh if code that runs at compilation looks at the
# request (BEGIN { … $ENV{QUERY_STRING} … }), or if it has variables that cannot be put back (Lexicals.pm).
package Sluice::Engine::Script;
use strict;
use warnings;
use B            ();
use Scalar::Util ();
use Sluice::Engine::Environment ();
use Sluice::Engine::Lexicals  ();
use Sluice::Engine::Modules   ();
use Sluice::Engine::Source    ();
use Sluice::Engine::Variables ();

my %scripts;    # file -> script
# Scripts in one process. Beyond it the oldest is dropped: a bound for directories in which names of scripts are made up.
use constant SCRIPTS_MAX => 1000;
my @order;

# The END blocks of this process (PL_endav). Those of scripts are taken out of it and run at the end of each request.
END { }
my $end_blocks = B::end_av()->object_2svref;

# The script of a file, compiled. Dies with the message of the compiler. undef if there is no such file: $!.
sub of_file {
    my ($class, $file) = @_;
    my @status = stat $file or return;
    my $identity = join ' ', @status[0, 1, 7, 9];
    my $script = $scripts{$file};
    return $script if $script && $script->{identity} eq $identity && $script->{main};
    if ($script) {
        $script->clear;
    }
    else {
        push @order, $file;
        drop(shift @order) if @order > SCRIPTS_MAX;
    }
    my ($directory) = $file =~ m{^(.*/)};
    $directory = '.' unless defined $directory;
    $script = $scripts{$file} = bless {file => $file, identity => $identity, directory => $directory, package => package_of($file)}, $class;
    $script->{source} = Sluice::Engine::Source::read_file($file) or return;
    $script->{is_fresh} = Sluice::Engine::Source::looks_at_request($script->{source}{text});
    $script->note_switches;
    return $script;
}

# Whether its file is the one that was compiled.
sub is_current {
    my ($self) = @_;
    my @status = stat $self->{file} or return 0;
    return $self->{identity} eq join ' ', @status[0, 1, 7, 9];
}

sub drop {
    my ($file) = @_;
    my $script = delete $scripts{$file} or return;
    $script->clear;
}

sub package_of {
    my ($file) = @_;
    $file =~ s/([^A-Za-z0-9])/sprintf '_%02x', ord $1/ge;
    return "Sluice::Script::p$file";
}

sub note_switches {
    my ($self) = @_;
    my $switches = $self->{source}{switches};
    $self->{warns} = $switches =~ /(?:^|\s)-\w*[wW]/ ? 1 : 0;
    if ($switches =~ /(?:^|\s)-\w*[Tt]/ && !${^TAINT}) {
        print STDERR "$self->{file}: the switch -T has no effect here; taint checks need an engine that is started with -T\n";
    }
}

# Compiles it unless it is compiled. The caller has set the environment and the working directory of the request.
sub prepare {
    my ($self) = @_;
    Sluice::Engine::Modules::enter($self);
    if ($self->{main} && !$self->{is_fresh}) {
        return set_environment($self);
    }
    $self->clear if $self->{main};
    $self->compile;
}

# The variables that its compilation has set.
sub set_environment {
    my ($self) = @_;
    Sluice::Engine::Environment::apply($self->{environment}) if $self->{environment};
}

sub compile {
    my ($self) = @_;
    my $package = $self->{package};
    my $ends    = @$end_blocks;
    my %modules = map { $_ => 1 } keys %INC;
    {
        no strict 'refs';
        no warnings;
        # A script that asks for its caller (`main() unless caller`) gets none, as a program does.
        *{"${package}::caller"} = \&script_caller;
    }
    # Its subroutines do share its variables (Lexicals.pm), whatever the warning says. A handler that the script installs stays.
    my $filter = sub { print STDERR @_ unless $_[0] =~ /^Variable ".*" will not stay shared at / };
    $SIG{__WARN__} = $filter unless $SIG{__WARN__};
    local $^W = $self->{warns};
    my $watch = $self->{is_fresh} ? undef : Sluice::Engine::Environment->watch(Sluice::Engine::Request::start_environment());
    my $main = Sluice::Engine::Source::compile($self->{source}, $package);
    my $error = $@;
    if ($watch) {
        my ($has_read, $changed) = $watch->stop;
        $self->{is_fresh} = 1 if $has_read;
        $self->{environment} = $changed if %$changed && !$has_read;
    }
    delete $SIG{__WARN__} if ($SIG{__WARN__} || '') eq $filter;
    my @packages = ($package, grep { !/^(?:main|CORE|UNIVERSAL)(?:::|$)|^Sluice::Engine/ && !$modules{module_file($_)} && !$INC{module_file($_)} }
        keys %{ $self->{source}{packages} || {} });
    $self->{ends} = take_ends($ends, @packages);
    if (!$main) {
        Sluice::Engine::Variables::clear_package($package);
        die $error;
    }
    $self->{main} = $main;
    $self->{packages} = \@packages;
    Sluice::Engine::Variables::scan_main('initial') if $self->names_main;
    Sluice::Engine::Modules::after_compilation($self, \%modules);
    return if $self->{is_fresh};
    $self->{lexicals}  = Sluice::Engine::Lexicals->take($main, named_subroutines(@packages), @{ $self->{ends} });
    if (!$self->{lexicals}->can_stay) {
        $self->{is_fresh} = 1;
        delete $self->{lexicals};
        return;
    }
    $self->{variables} = Sluice::Engine::Variables->take(@packages);
}

# Whether its text has something of the package main.
sub names_main {
    my ($self) = @_;
    return $self->{names_main} //= $self->{source}{text} =~ /\bmain(?:::|')|(?<![\w:])::\w|\bpackage\s+main\b/ ? 1 : 0;
}

sub module_file {
    my ($package) = @_;
    return $package =~ s{::}{/}gr . '.pm';
}

sub named_subroutines {
    my (@packages) = @_;
    my @found;
    no strict 'refs';
    for my $package (@packages) {
        my $stash = \%{"${package}::"};
        for my $name (keys %$stash) {
            next if $name =~ /::\z/ || $name eq Sluice::Engine::Source::MAIN;
            my $full = "${package}::$name";
            next unless defined &$full;
            my $owner = B::svref_2object(\&$full)->STASH;
            push @found, \&$full if $owner->can('NAME') && $owner->NAME eq $package;
        }
    }
    return @found;
}

# Takes the END blocks that were added after the first `$known` and belong to these packages. Perl puts new ones first.
sub take_ends {
    my ($known, @packages) = @_;
    my $added = @$end_blocks - $known;
    return [] if $added <= 0;
    my %is_own = map { $_ => 1 } @packages;
    my (@own, @others);
    for my $index (0 .. $added - 1) {
        my $code = \$end_blocks->[$index];
        my $stash = B::svref_2object($code)->STASH;
        push @{ $stash->can('NAME') && $is_own{ $stash->NAME } ? \@own : \@others }, $code;
    }
    return [] unless @own;
    # The array holds subroutines, not references to them, so that elements can be removed but not assigned.
    for my $index (reverse 0 .. $added - 1) {
        my $code = \$end_blocks->[$index];
        splice @$end_blocks, $index, 1 if grep { $_ == $code } @own;
    }
    return \@own;
}

sub count_ends { return scalar @$end_blocks }

# Its END blocks for this request: those of the script, and before them those that the request has added.
sub ends_of_request {
    my ($self, $known) = @_;
    my @own = @{ $self->{ends} || [] };
    return @own if @$end_blocks == $known;
    return @{ take_ends($known, @{ $self->{packages} || [] }) }, @own;
}

# After each request: variables as they were after compilation.
sub put_back {
    my ($self) = @_;
    Sluice::Engine::Variables::put_back_main() if $self->names_main;
    if ($self->{is_fresh}) {
        $self->clear;
    }
    else {
        $self->{variables}->put_back if $self->{variables};
        $self->{lexicals}->put_back  if $self->{lexicals};
    }
}

sub clear {
    my ($self) = @_;
    delete @{$self}{qw(main ends lexicals variables environment)};
    if ($self->{packages}) {
        Sluice::Engine::Variables::clear_packages(@{ delete $self->{packages} });
    }
}

# Opens the data after __END__ or __DATA__ from its beginning, as PACKAGE::DATA. It is the script's own file, as in a program.
sub open_data {
    my ($self) = @_;
    my $source = $self->{source};
    return unless defined $source->{data_offset};
    my $package = $source->{data_package} eq 'main' ? 'main' : $source->{data_package};
    no strict 'refs';
    my $handle = \*{"${package}::DATA"};
    open $handle, $source->{is_utf8} ? '<:utf8' : '<', $self->{file} or return;
    seek $handle, $source->{data_offset}, 0;
}

sub close_data {
    my ($self) = @_;
    return unless defined $self->{source}{data_offset};
    no strict 'refs';
    close *{"$self->{source}{data_package}::DATA"};
}

# `caller` of scripts: as Perl's, but what called the script does not exist.
sub script_caller (;$) {
    my ($level) = @_;
    my $wanted = 1 + ($level || 0);
    for my $above (1 .. $wanted) {
        my $name = (CORE::caller($above))[3];
        return unless defined $name;
        return if $name =~ /::__sluice_script__\z/;
    }
    # Perl fills @DB::args for callers in the package DB only.
    my @frame = do { package DB; CORE::caller($wanted) };
    return wantarray ? @_ ? @frame : @frame[0 .. 2] : $frame[0];
}

1;
