# Sluice::Engine::Exit: `exit` ends the request and not the process; `srand` is noticed. Loaded before all scripts and modules.
#
#   script calls exit -> leave() -> no eval between: die with $EXIT, which the engine's eval catches
#                                   an eval between: `last SLUICE_REQUEST`, which no eval of the script can catch
#                                   neither possible (a sort block, a tied variable, a destructor): the reply is finished, the process ends
package Sluice::Engine::Exit;
use strict;
use warnings;

our $EXIT      = bless \(my $text = "exit\n"), __PACKAGE__;
our $is_active = 0;     # true while script code runs that belongs to a request
our $owner     = 0;     # the process that runs the request; a child that a script has forked really exits
our $status;            # the status given to exit; undef if it was not called
our $is_seeded = 0;     # srand was called with a number
our $finish;            # finishes the reply where the request cannot be left

sub leave (;$) {
    my $code = @_ ? $_[0] : 0;
    $code = 0 unless defined $code;
    { no warnings 'numeric'; $code = int $code }
    CORE::exit($code) if !$is_active || $$ != $owner;
    $status = $code & 255;
    local $SIG{__DIE__};
    die $EXIT unless has_eval();
    no warnings 'exiting';
    eval { last SLUICE_REQUEST };
    $finish->();
    CORE::exit($status);
}

# Whether an eval stands between here and the engine.
sub has_eval {
    for (my $i = 1 ; my @frame = CORE::caller($i) ; $i++) {
        return 0 if $frame[0] =~ /^Sluice::Engine/;
        return 1 if $frame[3] eq '(eval)';
    }
    return 0;
}

sub seed (;$) {
    $is_seeded = 1;
    return @_ ? CORE::srand($_[0]) : CORE::srand();
}

no warnings 'once';
*CORE::GLOBAL::exit  = \&leave;
*CORE::GLOBAL::srand = \&seed;

1;
