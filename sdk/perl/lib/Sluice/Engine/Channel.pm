# Sluice::Engine::Channel: what the engine shares with the server: CGIPLUSIN, the mailbox, the pipe of bodies, the sentinels.
#
# Standard input of a script is never the pipe of bodies itself, because that has no end-of-file after a body: descriptor 0 is /dev/null,
# or a pipe of its own for one request. Copies of descriptors 0, 1 and 2 are kept, so that a script may close or redirect its own.
package Sluice::Engine::Channel;
use strict;
use warnings;
use IO::Handle ();
use POSIX      ();

our ($END, $ESCAPE, $CLOSE);    # the sentinels
our ($body, $mailbox, $errors); # the copies: handles
our $keeps_records = 0;         # a record mailbox: each write is a record
our $asks_faster   = 1;         # the callout for struct records and the socket has not been sent
my $has_native = 0;              # the native part is there
my $input;                      # CGIPLUSIN: answers to callouts, and the first request
my $socket;                     # that of requests, while it is open
my $pending = '';               # bytes of it after the last record
my @identity;                   # device and inode of descriptors 1 and 2

# The largest request, all its variables together. A server that sends more is broken.
use constant RECORD_BYTES_MAX => 16 << 20;
use constant BODY_AT_ONCE     => 65536;
use constant PRIVATE_FROM     => 200;
use constant PIPE_BYTES_MIN   => 4096;

sub open_all {
    ($END, $ESCAPE, $CLOSE) = @ENV{qw(CGIPLUSEOF CGIPLUSESC CGIPLUSEOT)};
    return "CGIPLUSEOF, CGIPLUSESC and CGIPLUSEOT are not set: this is a program for mode = \"rte\" of a route of Sluice"
        unless $END && $ESCAPE && $CLOSE;
    open $input, '<&=', 3 or return "CGIPLUSIN (descriptor 3): $!";
    # Not for the children of scripts, which are not to read the requests.
    fcntl $input, 2, 1;
    open_socket();
    open $body,    '<&', \*STDIN  or return "standard input: $!";
    open $mailbox, '>&', \*STDOUT or return "standard output: $!";
    open $errors,  '>&', \*STDERR or return "standard error: $!";
    binmode $mailbox;
    open STDIN, '<', '/dev/null' or return "/dev/null: $!";
    $keeps_records = is_record_socket();
    @identity = map { join ' ', (stat $_)[0, 1] } $mailbox, $errors;
    STDERR->autoflush(1);
    $has_native = defined &Sluice::Native::outputs_are_usual;
    Sluice::Native::note_outputs() if $has_native;
    return;
}

# Whether each write is a record: mailbox = "record". The mailbox of "stream" is a socket, too. Numbers, because the module Socket takes a millisecond to load: SOL_SOCKET,
# SO_TYPE, SOCK_SEQPACKET of Linux.
sub is_record_socket {
    my $type = getsockopt STDOUT, 1, 3;
    return defined $type && unpack('i', $type) == 5 ? 1 : 0;
}

# For the library in a process without the engine: CGIplus, or CGI under any server.
sub open_for_library {
    ($END, $ESCAPE, $CLOSE) = @ENV{qw(CGIPLUSEOF CGIPLUSESC CGIPLUSEOT)};
    ($ESCAPE, $CLOSE) = @ENV{qw(WWW_GATEWAY_ESC WWW_GATEWAY_EOT)} unless $ESCAPE;
    # Copies: the script may use its own handles of these descriptors.
    open $input, '<&', 3 or undef $ESCAPE if $ESCAPE;
    open_socket() if $END;
    open $mailbox, '>&', \*STDOUT;
    binmode $mailbox;
    $keeps_records = is_record_socket();
    $asks_faster   = 0 unless $END;
}

# The server can send requests by a socket after the first one, if it is asked.
sub open_socket {
    my $number = $ENV{CGIPLUSSOCK} // '';
    return unless $number =~ /^[0-9]+$/ && open my $given, '<&=', $number;
    return unless -S $given;
    # A high number, which scripts do not close by chance: F_DUPFD_CLOEXEC of Linux.
    my $copy = fcntl($given, 1030, PRIVATE_FROM) || fcntl $given, 1030, 6;
    $copy && open $socket, '<&=', $copy;
    close $given;
}

# Appends what is there to `$pending`, and waits if nothing is. False at the end.
sub read_more {
    my ($from, $bytes) = @_;
    while (1) {
        my $count = sysread $from, $pending, $bytes, length $pending;
        return $count if $count;
        next if !defined $count && $!{EINTR};
        return defined $count ? 0 : undef;
    }
}

# The next request as a reference to its variables (NAME=value); undef at the end. It waits for it.
sub next_record {
    my $from = $asks_faster ? undef : $socket;
    $pending = '' if $from; # answers that nobody has read
    while (1) {
        my $record = take_record();
        return $record if $record;
        return if length $pending > RECORD_BYTES_MAX;
        if ($from) {
            my $count = read_more($from, 65536);
            next if $count;
            return if !defined $count; # the server gives the request to another process
            # The server has not heard of it: requests come by the pipe.
            undef $socket;
            undef $from;
        }
        return unless read_more($input, 65536);
    }
}

# The first record of the bytes that are there; undef if it is not complete. Lines between records are skipped: an empty one, or the answer to
# a callout that the script has not read.
sub take_record {
    while ($pending ne '' && substr($pending, 0, 1) ne '!') {
        my $end = index $pending, "\n";
        return if $end < 0;
        substr $pending, 0, $end + 1, '';
    }
    if (substr($pending, 0, 2) eq '!!') {
        my $start = index($pending, "\n") + 1 or return;
        my $bytes = substr $pending, 2, $start - 3;
        return if length $pending < $start + $bytes;
        my @entries = unpack '(v/Z*)*', substr $pending, $start, $bytes;
        substr $pending, 0, $start + $bytes, '';
        pop @entries while @entries && $entries[-1] eq '';
        return \@entries;
    }
    if (substr($pending, 0, 2) eq "!\n") {
        my $end = index $pending, "\n\n", 1;
        return if $end < 0;
        my @entries = split /\n/, substr $pending, 2, $end - 2;
        substr $pending, 0, $end + 2, '';
        return \@entries;
    }
    return if length $pending < 2;
    die "CGIPLUSIN has something else than a request\n";
}

# Reads one line: the answer to a callout.
sub read_answer {
    while (1) {
        return $1 if $pending =~ s/^([^\n]*)\n//;
        return unless read_more($input, 4096);
    }
}

# What ends a reply: once the callout for struct records and the socket, and the end sentinel.
sub ending {
    return $END unless $asks_faster;
    $asks_faster = 0;
    # A script may have closed it.
    undef $socket unless $socket && -S $socket;
    return callout($socket ? '!CGIPLUS: struct socket' : '!CGIPLUS: struct') . $END;
}

sub callout {
    my ($line) = @_;
    return "$ESCAPE\n$line\n$CLOSE\n";
}

# Writes all bytes to the mailbox itself, past the buffer of STDOUT. In a record mailbox each part is a record of its own.
sub write_mailbox {
    my ($bytes) = @_;
    my @parts = $keeps_records ? $bytes =~ /(\Q$END\E|[^\n]*\n)/g : ($bytes);
    for my $part (@parts) {
        for (my $done = 0 ; $done < length $part ;) {
            my $count = syswrite $mailbox, $part, length($part) - $done, $done;
            next if !defined $count && $!{EINTR};
            return 0 unless $count;
            $done += $count;
        }
    }
    return 1;
}

# The sentinel that says that the reply has failed, with the reason in one line.
sub failure {
    my ($reason) = @_;
    ($reason) = grep { /\S/ } split /\n/, $reason;
    $reason = 'the script failed' unless defined $reason;
    $reason =~ s/[^\x20-\x7e\x80-\xff]+/ /g;
    return callout('!FAILED: ' . substr $reason, 0, 1000);
}

# ---- Standard handles ----

# Whether descriptors 1 and 2 are what they were, and the handles of Perl have their usual layers. Otherwise they are put back: the output
# that is still in the buffer is written to where the script has sent it. Returns whether STDOUT was still the mailbox.
sub put_back_handles {
    return 1 if $has_native && Sluice::Native::outputs_are_usual();
    my $is_mailbox = 1;
    untie *STDOUT if tied *STDOUT;
    untie *STDERR if tied *STDERR;
    my $number = fileno STDOUT;
    if (!defined $number || $number != 1 || join(' ', (stat STDOUT)[0, 1]) ne $identity[0]) {
        put_back(\*STDOUT, '>', 1, $mailbox);
        $is_mailbox = 0;
    }
    elsif ((my @layers = PerlIO::get_layers(STDOUT)) != 2) {
        IO::Handle::flush(\*STDOUT);
        binmode STDOUT;
        binmode STDOUT, ':pop' while (@layers = PerlIO::get_layers(STDOUT)) > 2;
    }
    $number = fileno STDERR;
    put_back(\*STDERR, '>', 2, $errors)
        if !defined $number || $number != 2 || join(' ', (stat STDERR)[0, 1]) ne $identity[1] || (my @layers = PerlIO::get_layers(STDERR)) != 2;
    return $is_mailbox;
}

sub put_back {
    my ($handle, $mode, $number, $copy) = @_;
    no warnings;
    close $handle;
    POSIX::dup2(fileno($copy), $number);
    open $handle, "$mode&=", $number;
    $handle->autoflush($number == 2 ? 1 : 0);
}

# Throws away what is in the buffer of STDOUT.
sub discard_output {
    open my $nowhere, '>', '/dev/null' or return;
    POSIX::dup2(fileno($nowhere), 1);
    IO::Handle::flush(\*STDOUT);
    POSIX::dup2(fileno($mailbox), 1);
}

# Takes what is in the buffer of STDOUT out of it.
sub take_output {
    open my $file, '+>', undef or return '';
    POSIX::dup2(fileno($file), 1);
    IO::Handle::flush(\*STDOUT);
    POSIX::dup2(fileno($mailbox), 1);
    seek $file, 0, 0;
    local $/;
    my $text = <$file>;
    return defined $text ? $text : '';
}

# ---- The body of a request on standard input ----

my $has_body = 0;
my ($pump, $pump_alive);    # the process that copies the rest of a body, and a pipe that ends with it

# Gives a script its body of `$bytes` bytes on descriptor 0, with an end-of-file. A body that has arrived goes into a pipe; of another one
# the first part does, and a process copies the rest while the script reads.
sub open_body {
    my ($bytes) = @_;
    my $count = sysread $body, my $first, $bytes < BODY_AT_ONCE ? $bytes : BODY_AT_ONCE;
    $first = '' unless $count;
    my ($read, $write) = POSIX::pipe() or die "no pipe for the body: $!\n";
    my $rest = $bytes - length $first;
    # A pipe has room for less if the user has many (pipe-user-pages-soft of pipe(7)).
    my $has_room = length $first <= PIPE_BYTES_MIN || length $first <= pipe_bytes($write);
    if (($rest > 0 || !$has_room) && $count) {
        start_pump($read, $write, $first, $rest);
    }
    else {
        POSIX::write($write, $first, length $first) if length $first;
    }
    POSIX::close($write);
    POSIX::dup2($read, 0);
    POSIX::close($read);
    put_back_input_flags();
    # Of a large body 64 KiB are read at once.
    Sluice::Native::stdin_buffer(BODY_AT_ONCE) if $has_native && $bytes > 8192 && defined &Sluice::Native::stdin_buffer;
    $has_body = 1;
}

# The room of a pipe: F_GETPIPE_SZ.
sub pipe_bytes {
    my ($descriptor) = @_;
    open my $copy, '>&', $descriptor or return 0;
    return 0 + (fcntl($copy, 1032, 0) || 0);
}

# The end-of-file that an earlier request may have seen is forgotten.
sub put_back_input_flags {
    IO::Handle::clearerr(\*STDIN);
}

sub close_body {
    return if !$has_body && $has_native && Sluice::Native::input_is_usual();
    untie *STDIN if tied *STDIN;
    my $number = fileno STDIN;
    return if !$has_body && defined $number && $number == 0 && (my @layers = PerlIO::get_layers(STDIN)) == 2;
    stop_pump();
    no warnings;
    close STDIN;
    open STDIN, '<', '/dev/null';
    if (fileno(STDIN) != 0) {
        my $other = fileno STDIN;
        POSIX::dup2($other, 0);
        close STDIN;
        open STDIN, '<&=', 0;
    }
    $has_body = 0;
}

# The copying process becomes an orphan of the server, so that `wait` of a script does not find it.
sub start_pump {
    my @arguments = @_;
    Sluice::Engine::Request::without_adoption(sub { fork_pump(@arguments) });
}

sub fork_pump {
    my ($read, $write, $first, $rest) = @_;
    pipe my $alive, my $held or die "no pipe: $!\n";
    my $child = fork;
    die "no process for the body: $!\n" unless defined $child;
    if (!$child) {
        my $pid = fork;
        POSIX::_exit(1) unless defined $pid;
        if ($pid) {
            syswrite $held, pack 'N', $pid;
            POSIX::_exit(0);
        }
        pump($read, $write, $held, $first, $rest);
        POSIX::_exit(0);
    }
    close $held;
    waitpid $child, 0;
    sysread $alive, my $packed, 4;
    $pump = unpack 'N', $packed;
    $pump_alive = $alive;
}

# Writes a mark into `$held` if the script has got its body, or wants no more of it. Without one the end-of-file that the script sees is not
# the end of the body. `$held` becomes descriptor 0, because the kernel closes that one first when it ends a process.
sub pump {
    my ($read, $write, $held, $first, $rest) = @_;
    $SIG{$_} = 'DEFAULT' for qw(TERM INT HUP);
    $SIG{PIPE} = 'IGNORE';
    POSIX::dup2(fileno $held, 0);
    close $held;
    POSIX::close($_) for $read, 1, 3, 4, fileno $mailbox, $socket ? fileno $socket : ();
    open my $to, '>&=', $write or return;
    fcntl $to, 1031, 1 << 20;    # F_SETPIPE_SZ
    while (1) {
        for (my $done = 0 ; $done < length $first ;) {
            my $count = syswrite $to, $first, length($first) - $done, $done or return mark_end();
            $done += $count;
        }
        return mark_end() unless $rest > 0;
        my $count = sysread $body, $first, $rest < 1 << 18 ? $rest : 1 << 18;
        return unless $count;
        $rest -= $count;
    }
}

sub mark_end {
    POSIX::write(0, '+', 1);
}

# Ends the copying of a body that the script has not read. It has ended when its pipe does; until then it could take bytes of the next body.
# False if it had ended before the body: the client has left, or the process was killed.
sub stop_pump {
    return 1 unless $pump;
    vec(my $ready = '', fileno $pump_alive, 1) = 1;
    my $has_ended = select $ready, undef, undef, 0;
    kill 'KILL', $pump;
    my $is_whole = sysread($pump_alive, my $mark, 1) || $has_ended <= 0;
    undef $pump_alive;
    undef $pump;
    return $is_whole;
}

1;
