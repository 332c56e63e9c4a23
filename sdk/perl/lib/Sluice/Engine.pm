# Sluice::Engine: the loop over the requests of the Perl engine.
#
#   CGIPLUSIN -> record -> environment -> script or application -> reply, end sentinel -> everything is put back -> next record
#
# Exit.pm       exit and srand                     Script.pm     the compiled scripts
# Channel.pm    descriptors, sentinels, bodies     Source.pm     from text to subroutine
# Request.pm    the state of the process           Modules.pm    @INC, %INC, %SIG, settings of modules
# PSGI.pm       PSGI applications                  Variables.pm, Lexicals.pm   variables between requests
# Fork.pm       a process for each request        Environment.pm %ENV while a script is compiled
package Sluice::Engine;
use strict;
use warnings;
use POSIX ();
use Sluice::Engine::Channel ();
use Sluice::Engine::Exit    ();
use Sluice::Engine::Modules ();
use Sluice::Engine::Request ();
use Sluice::Engine::Script  ();

our $VERSION = '0.1';

# The status for wrong arguments (EX_USAGE of sysexits.h).
use constant WRONG_USAGE => 64;

my %options;
our $uses = 0;         # requests of this process
our $is_child = 0;    # fork mode: this is the process of one request
my $script;           # the script of this request
my $turns = 0;        # turns of its loop over requests
my $ends_known;       # END blocks before it
my $is_settled = 1;   # its variables have been put back
my $is_done = 1;      # its reply has been finished
our $next_record;     # a record that a loop of the script has read and that is another script's

sub main {
    my (@arguments) = @_;
    my $problem = read_options(@arguments);
    if ($problem) {
        print STDERR "sluice engine.pl: $problem\n";
        return WRONG_USAGE;
    }
    # The native part is optional: `make -C sdk/perl`, or an installed Sluice.
    # SLUICE_NATIVE=0 leaves it out, for tests.
    eval { local $SIG{__DIE__}; require Sluice::Native } unless ($ENV{SLUICE_NATIVE} // '') eq '0';
    $problem = Sluice::Engine::Channel::open_all();
    if ($problem) {
        print STDERR "sluice engine.pl: $problem\n";
        return WRONG_USAGE;
    }
    Sluice::Engine::Request::start();
    Sluice::Engine::Modules::start();
    Sluice::Engine::Variables::start_main();
    $Sluice::Engine::Exit::finish = \&finish_early;
    if (defined $options{app}) {
        require Sluice::Engine::PSGI;
        Sluice::Engine::PSGI::start($options{app});
    }
    while (my $record = $next_record || Sluice::Engine::Channel::next_record()) {
        undef $next_record;
        serve($record);
        last if $Sluice::Engine::Request::must_end;
    }
    return 0;
}

sub read_options {
    for my $argument (@_) {
        if ($argument =~ /^--app=(.+)/s) {
            $options{app} = $1;
        }
        elsif ($argument eq '--fresh=fork') {
            $options{fork} = 1;
        }
        else {
            return "unknown argument $argument: there are --app=APP.psgi and --fresh=fork";
        }
    }
    return;
}

# ---- One request ----

sub serve {
    my ($record) = @_;
    Sluice::Engine::Request::set_environment($record);
    $uses++;
    my $file = $ENV{SCRIPT_FILENAME};
    if (defined $options{app} || defined $file && $file =~ /\.psgi\z/) {
        require Sluice::Engine::PSGI;
        return fork_and(\&Sluice::Engine::PSGI::prepare, \&Sluice::Engine::PSGI::serve) if $options{fork};
        return Sluice::Engine::PSGI::serve();
    }
    return fork_and(\&prepare, \&run_and_finish) if $options{fork};
    run_and_finish() if prepare();
    leave();
}

# Whether this request is that of a script, and not of a PSGI application.
sub runs_script { return !$is_done }

sub fork_and {
    require Sluice::Engine::Fork;
    return Sluice::Engine::Fork::serve(@_);
}

# Gets the script ready to run: its directory, its body on standard input, its code. False if that has failed; then the reply is finished.
sub prepare {
    my $file = $ENV{SCRIPT_FILENAME};
    $is_done = 0;
    $turns   = 0;
    $is_settled = 0;
    undef $script;
    Sluice::Engine::Request::adopt_orphans();
    $ends_known = Sluice::Engine::Script::count_ends();
    my $has_compiled = with_exit(sub {
        die "SCRIPT_FILENAME is not set\n" unless defined $file && $file ne '';
        $script = Sluice::Engine::Script->of_file($file) or die "$file: $!\n";
        chdir $script->{directory} or die "$script->{directory}: $!\n";
        Sluice::Engine::Request::begin();
        $script->prepare;
    });
    $ends_known = Sluice::Engine::Script::count_ends();
    return 1 if $has_compiled && !defined $Sluice::Engine::Exit::status;
    # exit in a BEGIN block ends the request, as it ends a program.
    $has_compiled ? finish_reply(undef) : finish_reply($@);
    return 0;
}

# Runs the compiled script and finishes its reply.
sub run_and_finish {
    $script->open_data;
    my $succeeded = with_exit($script->{main});
    my $error = $succeeded ? undef : $@;
    if ($$ != $Sluice::Engine::Exit::owner) {
        leave_child($error);
    }
    $error = run_ends($error);
    # As when a program ends: handles are closed and objects are destroyed, and what they still write belongs to the reply.
    settle();
    finish_reply($error);
}

# Calls a subroutine, which `exit` may leave. False if it has died: $@.
sub with_exit {
    my ($code) = @_;
    local $Sluice::Engine::Exit::is_active = 1;
    undef $Sluice::Engine::Exit::status;
    local $_;
    my $succeeded = eval {
        SLUICE_REQUEST: { $code->() }
        1;
    };
    return 1 if $succeeded;
    return 1 if defined $Sluice::Engine::Exit::status && ref $@ && $@ == $Sluice::Engine::Exit::EXIT;
    return 0;
}

# END blocks: after `exit` and after an error, too; `$?` is the exit status, which they may change.
sub run_ends {
    my ($error) = @_;
    my @ends = $script->ends_of_request($ends_known) or return $error;
    my $status = defined $error ? 255 : $Sluice::Engine::Exit::status || 0;
    local $? = $status;
    for my $end (@ends) {
        with_exit($end) or $error = "$@";
        $? = $Sluice::Engine::Exit::status if defined $Sluice::Engine::Exit::status;
    }
    $Sluice::Engine::Exit::status = $? unless defined $error;
    return $error;
}

# A process that the script has forked has come to the end of the script, or has died: it ends as a program does.
sub leave_child {
    my ($error) = @_;
    print STDERR "$error" if defined $error;
    CORE::exit(defined $error ? 255 : $Sluice::Engine::Exit::status || 0);
}

# ---- The end of a reply ----

# Ends the reply, as a failure if `$error` is its reason. In fork mode the parent writes the end sentinel.
sub finish_reply {
    my ($error) = @_;
    if ($is_done++) {
        # After the last turn of a loop: there is no reply to which anything could belong.
        print STDERR $error if defined $error;
        Sluice::Engine::Channel::put_back_handles();
        Sluice::Engine::Channel::discard_output();
        return;
    }
    # Before the end sentinel, because after it the pipe of bodies and standard output belong to the next request.
    Sluice::Engine::Request::end_children();
    Sluice::Engine::Request::check_priority();
    if (!Sluice::Engine::Channel::stop_pump() && !defined $error) {
        $error = "the request body was truncated: the script has got a part of it\n";
    }
    my $is_page = $Sluice::Engine::Modules::has_error_page;
    $Sluice::Engine::Modules::has_error_page = 0;
    if (defined $error) {
        $error = "$error";
        $error = "Died\n" if $error eq '';
        $error .= "\n" if $error !~ /\n\z/;
        print STDERR $error;
        return fail($error) unless $is_page;
    }
    my $status = $Sluice::Engine::Exit::status;
    return finish_by_status($status) if $status && !$is_page;
    finish_output();
}

# Writes what is in the buffer of STDOUT, and the end sentinel, with one write(2) if STDOUT is as it was.
sub finish_output {
    select STDOUT;
    my $is_mailbox = Sluice::Engine::Channel::put_back_handles();
    my $ending = $is_child ? '' : Sluice::Engine::Channel::ending();
    if ($is_mailbox && !$Sluice::Engine::Channel::keeps_records) {
        $\ = undef;
        $, = undef;
        print STDOUT $ending;
        IO::Handle::flush(\*STDOUT);
    }
    else {
        IO::Handle::flush(\*STDOUT);
        Sluice::Engine::Channel::write_mailbox($ending) if $ending ne '';
    }
    $| = 0;
}

sub fail {
    my ($reason) = @_;
    select STDOUT;
    Sluice::Engine::Channel::put_back_handles();
    Sluice::Engine::Channel::discard_output();
    $| = 0;
    Sluice::Engine::Channel::write_mailbox(Sluice::Engine::Channel::failure($reason) . ($is_child ? '' : Sluice::Engine::Channel::ending()));
}

# exit(1) after a reply is no failure; exit(1) without one is, as for a CGI program.
sub finish_by_status {
    my ($status) = @_;
    select STDOUT;
    my $is_mailbox = Sluice::Engine::Channel::put_back_handles();
    my $output = $is_mailbox ? Sluice::Engine::Channel::take_output() : '';
    my $has_body = $output =~ /\A(?:.*\n)?\r?\n(.)/s ? 1 : 0;
    $has_body ||= $output =~ /\n\r?\n(?=.)/s;
    my $reason = "exit status $status without a reply";
    if ($output eq '' && reply_status() eq '000' || $output ne '' && !$has_body && $output !~ /^(?:Status|Location):/mi && reply_status() eq '000') {
        print STDERR "$ENV{SCRIPT_FILENAME}: $reason\n";
        return fail($reason);
    }
    $| = 0;
    Sluice::Engine::Channel::write_mailbox($output . ($is_child ? '' : Sluice::Engine::Channel::ending()));
}

# The status of the response so far: 000 before its head.
sub reply_status {
    Sluice::Engine::Channel::write_mailbox(Sluice::Engine::Channel::callout('HTTP-STATUS:'));
    my $answer = Sluice::Engine::Channel::read_answer();
    return defined $answer && $answer =~ /^200 (\d+)/ ? $1 : '000';
}

# Once for each request: the variables of the script are what they were.
sub settle {
    return if $is_settled++;
    $script->close_data;
    # A destructor may die.
    eval { local $SIG{__DIE__}; $script->put_back; 1 } or print STDERR "$@";
}

# After the reply: everything is as it was before the request.
sub leave {
    if ($script) {
        settle();
        Sluice::Engine::Modules::leave($script);
    }
    Sluice::end_of_request() if $INC{'Sluice.pm'};
    Sluice::Engine::Request::leave();
}

# ---- Scripts with a loop over requests (FCGI.pm) ----

# The next request for the loop of the script that is running. False if it is another script's, which the loop has to end for, or the last.
sub next_turn {
    return 1 if !$turns++;
    # A process that the script has forked has no further request.
    return 0 if $$ != $Sluice::Engine::Exit::owner;
    finish_turn();
    return 0 if $next_record || $is_child || $options{fork} || $Sluice::Engine::Request::must_end;
    $next_record = Sluice::Engine::Channel::next_record() or return 0;
    my ($file) = map { /^SCRIPT_FILENAME=(.*)/s ? $1 : () } @$next_record;
    return 0 unless defined $file && $file eq $script->{file} && $script->is_current;
    Sluice::Engine::Request::set_environment($next_record);
    $script->set_environment;
    undef $next_record;
    $uses++;
    $is_done = 0;
    Sluice::Engine::Request::begin();
    return 1;
}

sub finish_turn {
    return if $is_done || $$ != $Sluice::Engine::Exit::owner;
    undef $Sluice::Engine::Exit::status;
    finish_reply(undef);
    Sluice::Engine::Channel::close_body();
    Sluice::end_of_request() if $INC{'Sluice.pm'};
}

# Fork mode, in the parent: it has run nothing but the compilation.
sub leave_parent {
    $is_done = 1;
    leave();
}

# For `exit` where the request cannot be left: the reply is finished, then the process ends.
sub finish_early {
    my $error = run_ends(undef);
    finish_reply($error);
}

# A script says main::name or &::name, as if its subroutines were in main: they are in its package.
sub main::AUTOLOAD {
    my $full = $main::AUTOLOAD;
    my ($name) = $full =~ /([^:]+)\z/;
    return if $name eq 'DESTROY';
    if ($script && $script->{main} && $full eq "main::$name") {
        my $code = $script->{package}->can($name);
        goto &$code if $code && $name ne 'caller';
    }
    my (undef, $file, $line) = caller;
    die "Undefined subroutine &$full called at $file line $line.\n";
}

# CORE::exit, and a child of a script: its END blocks run, and the reply of a request that is under way is finished.
END {
    if ($script && !$is_done) {
        my $status = $?;
        $Sluice::Engine::Exit::status = $status;
        my $error = run_ends(undef);
        if ($$ == $Sluice::Engine::Exit::owner) {
            finish_reply($error);
            $? = 0;
        }
        else {
            $? = $Sluice::Engine::Exit::status || 0;
        }
    }
}

1;
