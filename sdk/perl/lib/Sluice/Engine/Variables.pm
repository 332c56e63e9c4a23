# Sluice::Engine::Variables: the variables of a script's packages: their values after compilation, which each request begins with.
#
#   take()       after compilation: the slots of each symbol of the packages, except those imported from modules
#   put_back()   after each request: the values are what they were; file handles are closed; subroutines that the request has added are gone
#
# A symbol that a module has exported ($CGI::VERSION as $VERSION …) belongs to that module and is left alone.
package Sluice::Engine::Variables;
use strict;
use warnings;
use B   ();
use mro ();

# Bits of GvFLAGS (gv.h): the slot was imported from another package.
use constant {IMPORTED_SCALAR => 0x10, IMPORTED_ARRAY => 0x20, IMPORTED_HASH => 0x40, IMPORTED_CODE => 0x80};
# Symbols that are not variables of the script.
my %IS_SPECIAL = map { $_ => 1 } qw(BEGIN END INIT CHECK UNITCHECK DATA a b VERSION __ANON__ caller), '(eval)';

sub take {
    my ($class, @packages) = @_;
    my $self = bless {packages => \@packages, values => [], empty => [[], [], []], known => {}}, $class;
    $self->scan('initial');
    return $self;
}

# Notes every symbol that is not known yet. In the first scan (`initial`) its values are those to put back; a later symbol has none.
sub scan {
    my ($self, $is_initial) = @_;
    for my $package (@{ $self->{packages} }) {
        no strict 'refs';
        my $stash = \%{"${package}::"};
        for my $name (keys %$stash) {
            next if $name =~ /::\z/ || $IS_SPECIAL{$name} || $name =~ /\A__sluice_|\A_</;
            $self->note("${package}::$name", $is_initial) if ref \$stash->{$name} eq 'GLOB';
        }
        $self->{count}{$package}      = scalar keys %$stash;
        $self->{generation}{$package} = mro::get_pkg_gen($package);
    }
}

sub note {
    my ($self, $name, $is_initial) = @_;
    no strict 'refs';
    my $glob  = \*$name;
    my $known = $self->{known}{$name} ||= {};
    my $flags = B::svref_2object($glob)->GvFLAGS;
    if (!$known->{scalar}++ && !($flags & IMPORTED_SCALAR) && !Internals::SvREADONLY($$name)) {
        $self->keep(0, \$$name, $is_initial);
    }
    if (*$glob{ARRAY} && !$known->{array}++ && !($flags & IMPORTED_ARRAY)) {
        # An assignment to @ISA empties the cache of methods, so it is put back only if it has changed.
        if   ($name =~ /::ISA\z/) { push @{ $self->{isa} }, [\@$name, $is_initial ? @$name : ()] }
        else                      { $self->keep(1, \@$name, $is_initial) }
    }
    if (*$glob{HASH} && !$known->{hash}++ && !($flags & IMPORTED_HASH)) {
        $self->keep(2, \%$name, $is_initial);
    }
    if (*$glob{IO} && !$known->{handle}++) {
        # Perl makes the slot when it compiles the name. A handle that is open already was opened by BEGIN, and stays.
        push @{ $self->{handles} }, $glob unless $is_initial && defined fileno $glob;
    }
    return if $is_initial ? 0 : exists $known->{code};
    $known->{code} = $is_initial && defined &$name ? \&$name : undef;
}

my @IS_EMPTY = (sub { !defined ${ $_[0] } }, sub { !@{ $_[0] } }, sub { !%{ $_[0] } });

sub keep {
    my ($self, $kind, $reference, $is_initial) = @_;
    no warnings;
    if (!$is_initial || $IS_EMPTY[$kind]->($reference)) {
        push @{ $self->{empty}[$kind] }, $reference;
    }
    else {
        push @{ $self->{values} }, [$kind, $reference, copy($kind, $reference)];
    }
}

# A copy of a value: arrays and hashes without a class are copied with what they hold, other references are kept as they are.
sub copy {
    my ($kind, $reference) = @_;
    return copy_of($$reference, 0) if $kind == 0;
    return [map { copy_of($_, 0) } @$reference] if $kind == 1;
    return { map { $_ => copy_of($reference->{$_}, 0) } keys %$reference };
}

sub copy_of {
    my ($value, $depth) = @_;
    return $value if !ref $value || $depth > 20;
    return [map { copy_of($_, $depth + 1) } @$value] if ref $value eq 'ARRAY';
    return { map { $_ => copy_of($value->{$_}, $depth + 1) } keys %$value } if ref $value eq 'HASH';
    return $value;
}

sub put_back {
    my ($self) = @_;
    # Destructors of objects in these variables run here.
    my $empty = $self->{empty};
    for my $package (@{ $self->{packages} }) {
        no strict 'refs';
        $self->find_changes if keys %{"${package}::"} != $self->{count}{$package}
            || mro::get_pkg_gen($package) != $self->{generation}{$package};
    }
    $self->find_changes unless $self->{has_run}++;
    no warnings;
    if ($self->{late}) {
        no strict 'refs';
        defined &$_ and undef &$_ for keys %{ $self->{late} };
    }
    undef $$_ for @{ $empty->[0] };
    @$_ = () for @{ $empty->[1] };
    %$_ = () for @{ $empty->[2] };
    put_back_value(@$_) for @{ $self->{values} };
    for my $isa (@{ $self->{isa} || [] }) {
        my ($array, @value) = @$isa;
        @$array = @value if "@$array" ne "@value";
    }
    for my $handle (@{ $self->{handles} || [] }) {
        next unless *$handle{IO};
        close $handle if defined fileno $handle;
        closedir $handle;
    }
}

sub put_back_value {
    my ($kind, $reference, $value) = @_;
    if    ($kind == 0) { $$reference = copy_of($value, 0) }
    elsif ($kind == 1) { @$reference = @{ copy(1, $value) } }
    else               { %$reference = %{ copy(2, $value) } }
}

# Symbols that a request has added, and subroutines that it has added or replaced: by `require` of a file without a package, or by eval.
sub find_changes {
    my ($self) = @_;
    $self->scan(0);
    no strict 'refs';
    no warnings;
    while (my ($name, $known) = each %{ $self->{known} }) {
        next unless *{$name}{CODE};
        if (!$known->{code}) {
            undef &$name if defined &$name;
            # It may be defined again without a sign of it in the package.
            $self->{late}{$name} = 1;
        }
        elsif (\&$name != $known->{code}) {
            *$name = $known->{code};
        }
    }
    $self->{generation}{$_} = mro::get_pkg_gen($_) for @{ $self->{packages} };
}

# ---- The package main ----

# Scripts have packages of their own, but may name `$main::x` or `$::x`. Variables of main that exist since the engine began are Perl's or
# the engine's. Subroutines of main are left alone, because a module may have defined them.
my (%is_base, $main);

sub start_main {
    %is_base = map { $_ => 1 } keys %main::;
    $main = bless {packages => [], values => [], empty => [[], [], []], known => {}, has_run => 1}, __PACKAGE__;
    $main->{names} = keys %main::;
}

# After a script was compiled: what its BEGIN blocks have set is put back. Otherwise: variables that a request has made.
sub scan_main {
    my ($is_initial) = @_;
    for my $name (grep { !$is_base{$_} && /\A[A-Za-z_]\w*\z/ && !$IS_SPECIAL{$_} } keys %main::) {
        $main->note("main::$name", $is_initial) if ref \$main::{$name} eq 'GLOB';
    }
    $main->{names} = keys %main::;
}

sub put_back_main {
    scan_main(0) if keys %main:: != $main->{names};
    $main->put_back;
}

# Empties packages, so that a script can be compiled into them again.
sub clear {
    my ($self) = @_;
    clear_package($_) for @{ $self->{packages} };
}

# Empties the packages of a script that is not used again: first their variables, whose objects need their methods, then subroutines. A
# subroutine and the code that calls it hold each other, so each is undefined before its name is deleted.
sub clear_packages {
    my (@packages) = @_;
    my @codes;
    for my $package (@packages) {
        no strict 'refs';
        for my $name (grep { !/::\z/ } keys %{"${package}::"}) {
            my $full = "${package}::$name";
            next if ref \${"${package}::"}{$name} ne 'GLOB';
            eval { clear_variables(\*$full) } unless $IS_SPECIAL{$name} || $name eq 'ISA';
            next unless defined &$full;
            my $owner = B::svref_2object(\&$full)->STASH;
            push @codes, \&$full if $owner->can('NAME') && $owner->NAME eq $package && $name ne 'caller';
        }
    }
    eval { clear_lexicals($_) } for @codes;
    no warnings;
    eval { undef &$_ } for @codes;
    clear_package($_) for @packages;
}

sub clear_variables {
    my ($glob) = @_;
    my $flags = B::svref_2object($glob)->GvFLAGS;
    undef ${*$glob} unless $flags & IMPORTED_SCALAR || Internals::SvREADONLY(${*$glob});
    @{*$glob} = () if *$glob{ARRAY} && !($flags & IMPORTED_ARRAY);
    %{*$glob} = () if *$glob{HASH}  && !($flags & IMPORTED_HASH);
}

# The `my` variables that a subroutine uses.
sub clear_lexicals {
    my ($code) = @_;
    my $pads = B::svref_2object($code)->PADLIST;
    return unless $pads->can('ARRAY') && $pads->MAX >= 1;
    my ($names, $pad) = $pads->ARRAY;
    my @names  = $names->ARRAY;
    my @values = $pad->ARRAY;
    for my $index (1 .. $#names) {
        my $sigil = $names[$index]->can('PV') ? substr $names[$index]->PV // '', 0, 1 : '';
        next if $sigil eq '' || $sigil eq '&' || $names[$index]->FLAGS & B::PADNAMEt_OUR() || !$values[$index];
        my $variable = $values[$index]->object_2svref;
        if    ($sigil eq '$') { undef $$variable unless Internals::SvREADONLY($$variable) }
        elsif ($sigil eq '@') { @$variable = () }
        elsif ($sigil eq '%') { %$variable = () }
    }
}

sub clear_package {
    my ($package) = @_;
    no strict 'refs';
    no warnings;
    my $stash = \%{"${package}::"};
    for my $name (keys %$stash) {
        next if $name =~ /::\z/;
        if (ref \$stash->{$name} eq 'GLOB') {
            my $handle = *{ $stash->{$name} }{IO};
            close $handle if $handle && defined fileno $handle;
        }
        delete $stash->{$name};
    }
}

1;
