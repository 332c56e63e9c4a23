# Sluice::Engine::Lexicals: `my` variables of a script that its named subroutines use.
#
# The code of a script is the body of a subroutine. A named subroutine in it has, for good, the `my` variables of the first run; later runs
# get new ones ("Variable will not stay shared", perldiag). In a program of its own there is one run only, so unmodified scripts do it.
# Here is found where it matters, and before each run the native part gives the script the variables that its subroutines have. Without
# the native part, and for `state` variables, the script is compiled for each request instead.
package Sluice::Engine::Lexicals;
use strict;
use warnings;
use B ();
use Sluice::Engine::Variables ();

# Looks through the compiled script: its main subroutine and the named subroutines of its packages, END blocks included.
sub take {
    my ($class, @subroutines) = @_;
    my $self = bless {shared => [], closed => [], has_state => 0}, $class;
    my %is_shared;
    for my $code (@subroutines) {
        each_variable($code, sub {
            my ($index, $flags, $variable) = @_;
            if ($flags & B::PADNAMEt_STATE()) {
                $self->{has_state} = 1;
            }
            elsif (!($flags & B::PADNAMEt_OUTER()) && $variable->REFCNT > 1) {
                my $reference = $variable->object_2svref;
                $is_shared{$reference} = 1;
                push @{ $self->{shared} }, [$code, $index, $reference, kind_and_value($reference)];
            }
        });
    }
    # Variables of blocks that are gone: BEGIN { my $count; sub next { $count++ } }.
    my %is_known;
    for my $code (@subroutines) {
        each_variable($code, sub {
            my ($index, $flags, $variable) = @_;
            return unless $flags & B::PADNAMEt_OUTER();
            my $reference = $variable->object_2svref;
            return if $is_shared{$reference} || $is_known{$reference}++;
            my ($kind, $value) = kind_and_value($reference);
            push @{ $self->{closed} }, [$kind, $reference, $value] if defined $kind;
        });
    }
    return $self;
}

# Calls for each `my` and `state` variable in the pad of a subroutine: index, flags, variable.
sub each_variable {
    my ($code, $call) = @_;
    my $pad = B::svref_2object($code)->PADLIST;
    return unless ref $pad eq 'B::PADLIST';
    my ($names, $values) = $pad->ARRAY;
    return unless $names && $values && $values->can('ARRAY');
    my @names  = $names->ARRAY;
    my @values = $values->ARRAY;
    for my $index (1 .. $#names) {
        my $name = $names[$index];
        next unless ref $name eq 'B::PADNAME' && defined $name->PV && $name->PV =~ /^[\$\@%]./;
        next if $name->FLAGS & B::PADNAMEt_OUR();
        next if ref $values[$index] eq 'B::SPECIAL';
        $call->($index, $name->FLAGS, $values[$index]);
    }
}

sub kind_and_value {
    my ($reference) = @_;
    my $type = Scalar::Util::reftype($reference);
    my $kind = $type eq 'ARRAY' ? 1 : $type eq 'HASH' ? 2 : $type =~ /^(?:SCALAR|REF|LVALUE|VSTRING)$/ ? 0 : return;
    return if $kind == 0 && Internals::SvREADONLY($$reference);
    return ($kind, Sluice::Engine::Variables::copy($kind, $reference));
}

# Whether the script can be kept between requests.
sub can_stay {
    my ($self) = @_;
    return 0 if $self->{has_state};
    return !@{ $self->{shared} } || defined &Sluice::Native::pad_put;
}

# Gives the variables the values that they had after compilation, and the script those that its subroutines have.
sub put_back {
    my ($self) = @_;
    for my $shared (@{ $self->{shared} }) {
        my ($code, $index, $reference, $kind, $value) = @$shared;
        Sluice::Engine::Variables::put_back_value($kind, $reference, $value) if defined $kind;
        Sluice::Native::pad_put($code, $index, $reference);
    }
    Sluice::Engine::Variables::put_back_value(@$_) for @{ $self->{closed} };
}

1;
