# Sluice::Engine::Request: the state of the process that a script may change: set before each request and put back after it.
package Sluice::Engine::Request;
use strict;
use warnings;
use POSIX ();
use Sluice::Engine::Channel ();
use Sluice::Engine::Exit    ();

my %base;              # the environment at the start, without CGIPLUSEOF and CGIPLUSSOCK: a script that knows both modes is to run as CGI
my $umask;
my $priority;           # of the process at its start (nice)
my $locale;
my $locale_changed = 0;
my $mask_changed   = 0;
my %descriptors;       # opened by functions of POSIX, which no variable of Perl closes
my $directory;

sub start {
    delete @ENV{qw(CGIPLUSEOF CGIPLUSSOCK)};
    %base  = %ENV;
    $umask = umask;
    $priority = getpriority 0, 0;
    $locale = POSIX::setlocale(POSIX::LC_ALL());
    watch_posix();
    $Sluice::Engine::Exit::owner = $$;
    Sluice::Native::stdout_buffer(131072) if defined &Sluice::Native::stdout_buffer && !$Sluice::Engine::Channel::keeps_records;
}

# Functions of POSIX that change what Perl's own functions do not show are replaced by ones that note it.
sub watch_posix {
    no strict 'refs';
    no warnings 'redefine';
    my %original = map { $_ => \&{"POSIX::$_"} } qw(setlocale sigprocmask open creat dup pipe close);
    *POSIX::setlocale   = sub { $locale_changed = 1; goto &{ $original{setlocale} } };
    *POSIX::sigprocmask = sub { $mask_changed   = 1; goto &{ $original{sigprocmask} } };
    for my $name (qw(open creat dup)) {
        *{"POSIX::$name"} = sub {
            my $number = $original{$name}->(@_);
            $descriptors{ 0 + $number } = 1 if defined $number;
            return $number;
        };
    }
    *POSIX::pipe = sub {
        my @pair = $original{pipe}->();
        $descriptors{$_} = 1 for @pair;
        return @pair;
    };
    *POSIX::close = sub {
        delete $descriptors{ $_[0] } if defined $_[0];
        goto &{ $original{close} };
    };
}

sub start_environment { return \%base }

# The environment of a CGI process: the start environment and the variables of the record, and nothing else.
sub set_environment {
    my ($record) = @_;
    return Sluice::Native::set_environment(\%base, $record) if defined &Sluice::Native::set_environment;
    my %wanted = %base;
    for my $entry (@$record) {
        my $at = index $entry, '=';
        $wanted{ substr $entry, 0, $at } = substr $entry, $at + 1 if $at > 0;
    }
    delete $wanted{CGIPLUSEOF};
    for my $name (keys %wanted) {
        $ENV{$name} = $wanted{$name} if !exists $ENV{$name} || !defined $ENV{$name} || $ENV{$name} ne $wanted{$name};
    }
    return if keys %ENV == keys %wanted;
    delete @ENV{ grep { !exists $wanted{$_} } keys %ENV };
}

# Before a script runs: its arguments, its time, its body.
sub begin {
    @ARGV = ();
    $^T   = time;
    $!    = 0;
    $@    = '';
    Sluice::Native::stdout_start() if defined &Sluice::Native::stdout_start;
    my $bytes = $ENV{CONTENT_LENGTH};
    Sluice::Engine::Channel::open_body($bytes) if $bytes && $bytes =~ /^\d+\z/;
}

# Orphans become children of this process (PR_SET_CHILD_SUBREAPER), so that it finds what a script leaves behind (`system "… &"`).
# PSGI applications may have processes of their own, and their children do not write to the mailbox: an engine with --app does not do this.
my $adopts = 0;

sub adopt_orphans {
    $adopts = set_subreaper(1) unless $adopts;
}

# Calls a subroutine that leaves a process to the server.
sub without_adoption {
    my ($code) = @_;
    set_subreaper(0) if $adopts;
    my $succeeded = eval { $code->(); 1 };
    my $error = $@;
    set_subreaper(1) if $adopts;
    die $error unless $succeeded;
}

# prctl(2). Without the native part by its number, which differs by architecture.
my %PRCTL = (x86_64 => 157, aarch64 => 167, riscv64 => 167, powerpc64le => 171, s390x => 172);

sub set_subreaper {
    my ($is_on) = @_;
    return Sluice::Native::set_subreaper($is_on) if defined &Sluice::Native::set_subreaper;
    require Config;
    my ($architecture) = $Config::Config{archname} =~ /^([^-]+)/;
    my $number = $PRCTL{ $architecture // '' } or return 0;
    return syscall($number, 36, $is_on, 0, 0, 0) == 0;
}

# A process of a script goes on. The engine ends after the reply, so that what that process writes is in no other reply.
our $must_end = 0;
use constant ROUNDS_MAX => 100;

# A script has changed the priority of the process, which it can only lower: the scripts after it get another process.
sub check_priority {
    $must_end = 1 if getpriority(0, 0) != $priority;
}

# Processes of the script that still run are killed, as at the end of a CGI program, except those with a session of their own (setsid).
# The children of one that has ended become children of this process, and are found in the next round.
sub end_children {
    my $session;
    for (1 .. ROUNDS_MAX) {
        my $pid;
        1 while ($pid = waitpid -1, POSIX::WNOHANG()) > 0;
        return if $pid < 0;
        $session //= session_of($$);
        my @killed = grep { session_of($_) == $session && kill 'KILL', $_ } children() or last;
        waitpid $_, 0 for @killed;
    }
    $must_end = 1;
}

sub children {
    open my $list, '<', "/proc/$$/task/$$/children" or return;
    return split ' ', <$list> // '';
}

# 0 if there is no such process.
sub session_of {
    my ($process) = @_;
    open my $file, '<', "/proc/$process/stat" or return 0;
    my $line = <$file> // '';
    return $line =~ /.*\) \S \d+ \d+ (\d+)/s ? $1 : 0;
}

# After it: everything that is not a variable of the script.
sub leave {
    alarm 0;
    umask $umask;
    Sluice::Engine::Channel::close_body();
    put_back_special();
    if ($Sluice::Engine::Exit::is_seeded) {
        CORE::srand();
        $Sluice::Engine::Exit::is_seeded = 0;
    }
    if ($locale_changed) {
        POSIX::setlocale(POSIX::LC_ALL(), $locale);
        $locale_changed = 0;
    }
    if ($mask_changed) {
        POSIX::sigprocmask(POSIX::SIG_SETMASK(), POSIX::SigSet->new);
        $mask_changed = 0;
    }
    if (%descriptors) {
        POSIX::close($_) for keys %descriptors;
        %descriptors = ();
    }
    Time::HiRes::setitimer($_, 0) for defined &Time::HiRes::setitimer ? (1, 2) : ();
    # Files that File::Temp removes at the end of the program.
    File::Temp::cleanup() if $INC{'File/Temp.pm'};
}

# The variables of perlvar(1). Each has the value that a program begins with.
sub put_back_special {
    $/  = "\n";
    $\  = undef;
    $,  = undef;
    $"  = ' ';
    $;  = "\034";
    $_  = undef;
    $^F = 2;
    $^A = '';
    $^W = 0;
    $:  = " \n-";
    $^L = "\f";
    # Of the format of STDOUT, which is selected.
    $~ = 'STDOUT'     if $~ ne 'STDOUT';
    $^ = 'STDOUT_TOP' if $^ ne 'STDOUT_TOP';
    $= = 60           if $= != 60;
    $- = 0            if $-;
    $% = 0            if $%;
    $. = 0            if $.;
}

1;
