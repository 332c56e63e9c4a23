# Sluice::Engine::Modules: @INC, %INC and %SIG of each script, and the variables of modules that hold settings of a script (CGI.pm).
#
# Modules stay loaded, with their variables, for all scripts of the process. Not so files without a package of their own, which are loaded
# into the package of the script that requires them: each script, and each request that loads one, gets its own copy.
package Sluice::Engine::Modules;
use strict;
use warnings;
use Sluice::Engine::Variables ();

# Modules whose package variables are settings or results of one script.
my @SETTINGS = qw(CGI CGI::Carp FindBin);

my @base_inc;
my %base_signals;
my $known_count = 0;      # entries of %INC when the request began
my %known;                # the modules of the process
my $carp_die;             # CGI::Carp's die, if it is loaded
my %is_relative;          # absolute path -> [key, value]: modules that were loaded by a path relative to a script

sub start {
    @base_inc = @INC;
    $base_signals{$_} = $SIG{$_} for grep { defined $SIG{$_} && $SIG{$_} ne '' } keys %SIG;
    note_all();
}

sub note_all {
    %known = map { $_ => 1 } keys %INC;
}

# Before a script is compiled or run.
sub enter {
    my ($script) = @_;
    $0 = $script->{file} if $0 ne $script->{file};
    @INC = @{ $script->{inc} || \@base_inc };
    if (my $own = $script->{modules}) {
        $INC{$_} = $own->{$_} for keys %$own;
    }
    enter_relative($script) if %is_relative;
    if ($script->{signals}) {
        $SIG{$_} = $script->{signals}{$_} for keys %{ $script->{signals} };
    }
    if ($script->{main} && !$script->{is_fresh}) {
        Sluice::Engine::Variables::put_back_value(@$_) for @{ $script->{settings} || [] };
    }
    else {
        $^W = $script->{warns};
        CGI->_reset_globals if $INC{'CGI.pm'} && CGI->can('_reset_globals');
        FindBin::again() if $INC{'FindBin.pm'};
        reset_carp($script);
    }
    $known_count = keys %INC;
}

# `require "./lib.pl"` of another script of this directory has loaded the same file: it is not loaded again.
sub enter_relative {
    my ($script) = @_;
    for my $path (keys %is_relative) {
        my ($key, $value) = @{ $is_relative{$path} };
        $INC{$key} = $value if $path eq $script->{directory} . ($key =~ s{^(?:\./)+}{}r);
    }
}

sub after_compilation {
    my ($script, $before) = @_;
    $script->{inc} = [@INC];
    my %changed = map { $_ => $SIG{$_} } grep { defined $SIG{$_} && (!defined $base_signals{$_} || $SIG{$_} ne $base_signals{$_}) } keys %SIG;
    $script->{signals} = %changed ? \%changed : undef;
    $script->{modules} = {};
    for my $key (grep { !$before->{$_} } keys %INC) {
        next if belongs_to_process($script, $key);
        $script->{modules}{$key} = $INC{$key};
    }
    $script->{settings} = settings();
    adapt_carp();
    # CGI::Carp replaces `die` for all code that is compiled from then on. Here it is for the scripts that use it.
    delete $CORE::GLOBAL::{die} if defined &CORE::GLOBAL::die && \&CORE::GLOBAL::die == ($carp_die || 0);
}

# Whether a file that was just loaded stays loaded for all scripts: it has a package of its own and an absolute name.
sub belongs_to_process {
    my ($script, $key) = @_;
    my $path = $INC{$key};
    return 1 unless defined $path && !ref $path;
    open my $file, '<:raw', $path or return 1;
    my $text = do { local $/; <$file> };
    return 0 unless $text =~ /^[ \t]*(?:package|class)[ \t]+\w/m;
    return 1 if $path =~ m{^/};
    my $absolute = $script->{directory} . ($path =~ s{^(?:\./)+}{}r);
    $is_relative{$absolute} = [$key, $path];
    return 0;
}

# The values of the settings after compilation, as `use CGI qw(-nosticky)` has left them.
sub settings {
    my @settings;
    for my $package (@SETTINGS) {
        next unless $INC{ $package =~ s{::}{/}gr . '.pm' };
        no strict 'refs';
        my $stash = \%{"${package}::"};
        for my $name (keys %$stash) {
            next if $name =~ /::\z|\A(?:VERSION|ISA|EXPORT\w*|AUTOLOAD|BEGIN|CRLF|OS|ENCODE_\w+|MOD_PERL|PERLEX)\z/ || ref \$stash->{$name} ne 'GLOB';
            my $full = "${package}::$name";
            my $glob = \*$full;
            my $flags = B::svref_2object($glob)->GvFLAGS;
            # The name of an imported subroutine (0x80) has no variable.
            push @settings, [0, \$$full, Sluice::Engine::Variables::copy(0, \$$full)]
                unless $flags & 0x10 || Internals::SvREADONLY($$full) || $flags & 0x80 && !defined $$full;
            push @settings, [1, \@$full, Sluice::Engine::Variables::copy(1, \@$full)] if *$glob{ARRAY} && !($flags & 0x20) && @$full < 5;
            push @settings, [2, \%$full, Sluice::Engine::Variables::copy(2, \%$full)] if *$glob{HASH}  && !($flags & 0x40) && keys %$full < 5;
        }
    }
    return \@settings;
}

# CGI::Carp asks whether it is in an eval. The engine's own does not count, so that fatalsToBrowser works.
my $is_adapted = 0;
our $has_error_page = 0;    # fatalsToBrowser has written its page: that is the reply

sub adapt_carp {
    return if $is_adapted || !$INC{'CGI/Carp.pm'} || !defined &CGI::Carp::fatalsToBrowser;
    $is_adapted = 1;
    no warnings;
    $carp_die = \&CGI::Carp::die;
    my $page = \&CGI::Carp::fatalsToBrowser;
    *CGI::Carp::ineval = sub { return is_in_eval() };
    *CGI::Carp::fatalsToBrowser = sub { $has_error_page = 1; goto &$page };
}

# Before a script is compiled: what `use CGI::Carp` of another script has set.
sub reset_carp {
    my ($script) = @_;
    return unless $is_adapted;
    no warnings 'once';
    ($CGI::Carp::WRAP, $CGI::Carp::EMIT_WARNINGS, $CGI::Carp::TO_BROWSER) = (0, 0, 1);
    undef $_ for $CGI::Carp::CUSTOM_MSG, $CGI::Carp::DIE_HANDLER;
    @CGI::Carp::WARNINGS = ();
    ($CGI::Carp::PROGNAME) = $script->{file} =~ m{([^/]+)\z};
    *CORE::GLOBAL::die = $carp_die if $script->{source}{text} =~ /\bCGI::(?:Carp|Fast)\b/;
}

sub is_in_eval {
    for (my $i = 1 ; my @frame = CORE::caller($i) ; $i++) {
        return 0 if $frame[0] =~ /^Sluice::Engine/;
        return 1 if $frame[3] eq '(eval)';
    }
    return 0;
}

# After each request: what it has loaded into the package of the script is forgotten, and its signal handlers are.
sub leave {
    my ($script) = @_;
    my $has_loaded = keys %INC != $known_count;
    if ($has_loaded) {
        for my $key (grep { !$known{$_} } keys %INC) {
            next if $script->{modules} && exists $script->{modules}{$key};
            delete $INC{$key} unless belongs_to_process($script, $key);
        }
    }
    delete @INC{ keys %{ $script->{modules} } } if $script->{modules};
    if (%is_relative) {
        delete $INC{ $_->[0] } for values %is_relative;
    }
    # @INC is set before each script.
    note_all() if $has_loaded;
    return if !%base_signals && defined &Sluice::Native::has_signals && !Sluice::Native::has_signals();
    for my $name (keys %SIG) {
        next unless defined $SIG{$name};
        next if defined $base_signals{$name} && $SIG{$name} eq $base_signals{$name};
        if (defined $base_signals{$name}) { $SIG{$name} = $base_signals{$name} }
        else                              { delete $SIG{$name} }
    }
}

1;
