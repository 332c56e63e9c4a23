# Sluice::Engine::Fork: a process for each request: what the script has loaded and defined is shared, what it changes is gone afterwards.
#
#   parent: record -> environment -> compiled script -> fork -> waits -> end sentinel
#   child:  runs the script on the same descriptors, and ends
package Sluice::Engine::Fork;
use strict;
use warnings;
use POSIX ();
use Sluice::Engine::Channel ();
use Sluice::Engine::Exit    ();

# Calls `$prepare` in this process and `$run` in a child.
sub serve {
    my ($prepare, $run) = @_;
    if (!$prepare->()) {
        Sluice::Engine::leave();
        return;
    }
    my $child = fork;
    if (!defined $child) {
        my $reason = "fork: $!";
        print STDERR "$reason\n";
        finish(Sluice::Engine::Channel::failure($reason));
    }
    elsif ($child) {
        1 until waitpid($child, 0) == $child;
        my $status = $?;
        Sluice::Engine::Channel::stop_pump();
        # Its children are this process's now. A script has an end; those of an application (PSGI) may go on.
        Sluice::Engine::Request::end_children() if Sluice::Engine::runs_script();
        finish($status == 0 ? '' : Sluice::Engine::Channel::failure(
            $status & 127 ? 'the process of the request was killed by signal ' . ($status & 127) : 'the process of the request ended with exit status ' . ($status >> 8)));
    }
    else {
        run_child($run);
    }
    Sluice::Engine::leave_parent();
}

sub finish {
    my ($bytes) = @_;
    Sluice::Engine::Channel::write_mailbox($bytes . Sluice::Engine::Channel::ending());
}

# Objects of the parent are not destroyed here, because their connections are the parent's.
sub run_child {
    my ($run) = @_;
    $Sluice::Engine::is_child = 1;
    $Sluice::Engine::uses = 1;    # nothing of an earlier request is in this process
    $Sluice::Engine::Exit::owner = $$;
    CORE::srand();
    eval { $run->(); 1 } or do {
        print STDERR $@;
        POSIX::_exit(1);
    };
    File::Temp::cleanup() if $INC{'File/Temp.pm'};
    POSIX::_exit(0);
}

1;
