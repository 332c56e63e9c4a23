# Sluice::Engine::PSGI: PSGI applications (PSGI 1.1): one for all requests (--app), or a file *.psgi among other scripts.
#
#   record -> PSGI environment -> application -> [status, headers, body]        -> head, body, end sentinel
#                                             -> a subroutine (delayed response) -> the same; or a writer, which sends at once
#
# An application stays, with all its variables: that is what PSGI is for. Its standard output is the log, because the reply is what it returns.
# Plack is not needed.
package Sluice::Engine::PSGI;
use strict;
use warnings;
use POSIX ();
use Scalar::Util ();
use Sluice::Engine::Channel ();
use Sluice::Engine::Exit    ();
use Sluice::Engine::Source  ();

# A reply that fits is written at once, with its end. A body is read from a file in blocks of this size.
use constant BLOCK_BYTES => 65536;

my $only;             # the file of --app
my %applications;     # file -> [identity, subroutine]
my $is_redirected = 0;
my $output = '';      # bytes of the reply that have not been written
my $input;            # the body of the request, if it has one
my ($has_head, $has_written, $is_ended, $was_aborted);

# The application of the route: loaded with the first request, so that an error in it is the error of a request.
sub start {
    ($only) = @_;
}

# ---- Loading ----

sub application {
    my $file = defined $only ? path_of_app() : $ENV{SCRIPT_FILENAME};
    my @status = stat $file or die "$file: $!\n";
    my $identity = join ' ', @status[0, 1, 7, 9];
    my $known = $applications{$file};
    return $known->[1] if $known && $known->[0] eq $identity;
    my $application = load($file);
    $applications{$file} = [$identity, $application];
    return $application;
}

sub path_of_app {
    return $only if $only =~ m{^/};
    my $file = $ENV{SCRIPT_FILENAME};
    return $file if defined $file && $file =~ m{(?:^|/)\Q$only\E\z};
    require Cwd;
    return $only = Cwd::abs_path($only) // die "$only: $!\n";
}

sub load {
    my ($file) = @_;
    my ($directory) = $file =~ m{^(.*/)};
    chdir $directory if defined $directory;
    $0    = $file;
    @ARGV = ();
    FindBin::again() if $INC{'FindBin.pm'};
    # A name that differs for each file: applications may define subroutines.
    my $package = 'Sluice::Application::p' . $file =~ s/([^A-Za-z0-9])/sprintf '_%02x', ord $1/ger;
    local $ENV{PLACK_ENV} = defined $ENV{PLACK_ENV} ? $ENV{PLACK_ENV} : 'deployment';
    delete $INC{$file};
    my $code = "package $package; my \$application = do \$_[1]; die \$@ if \$@; die \"\$_[1]: \$!\\n\" unless defined \$application; \$application";
    my $application = Sluice::Engine::Source::compile_text($code, $file);
    die $@ if $@;
    $application = $application->to_app if Scalar::Util::blessed($application) && $application->can('to_app');
    die "$file does not return a PSGI application: its last value must be a subroutine\n" unless is_code($application);
    return $application;
}

sub is_code {
    my ($value) = @_;
    return 0 unless ref $value;
    return 1 if (Scalar::Util::reftype($value) || '') eq 'CODE';
    return Scalar::Util::blessed($value) && overload::Method($value, '&{}') ? 1 : 0;
}

# ---- The environment ----

my $NO_INPUT = '';
my %FIXED = (
    'psgi.version'      => [1, 1],
    'psgi.multithread'  => !1,
    'psgi.multiprocess' => !0,
    'psgi.run_once'     => !1,
    'psgi.nonblocking'  => !1,
    'psgi.streaming'    => !0,
    'psgix.cleanup'     => !0,
    'psgix.harakiri'    => !0,
);

sub environment {
    my %env = %ENV;
    $env{$_} = $FIXED{$_} for keys %FIXED;
    $env{SCRIPT_NAME} = '' if !defined $env{SCRIPT_NAME} || $env{SCRIPT_NAME} eq '/';
    $env{PATH_INFO}   = '' unless defined $env{PATH_INFO};
    $env{PATH_INFO}   = path_as_requested(\%env) if ($env{REQUEST_URI} || '') =~ m{^[^?]*//};
    $env{QUERY_STRING} = '' unless defined $env{QUERY_STRING};
    $env{'psgi.url_scheme'} = ($env{HTTPS} || 'off') =~ /^(?:on|1)$/i ? 'https' : $env{REQUEST_SCHEME} || 'http';
    $env{'psgi.errors'} = \*STDERR;
    $env{'psgix.cleanup.handlers'} = [];
    delete @env{qw(CONTENT_LENGTH)} if defined $env{CONTENT_LENGTH} && $env{CONTENT_LENGTH} eq '';
    delete @env{qw(CONTENT_TYPE)}   if defined $env{CONTENT_TYPE}   && $env{CONTENT_TYPE} eq '';
    my $bytes = $env{CONTENT_LENGTH} || 0;
    if ($bytes == 0) {
        open my $input, '<', \$NO_INPUT;
        $env{'psgi.input'} = $input;
        $env{'psgix.input.buffered'} = !0;
    }
    else {
        require Sluice::Engine::Input;
        $env{'psgi.input'} = $input = Sluice::Engine::Input->new($Sluice::Engine::Channel::body, $bytes);
        $env{'psgix.input.buffered'} = !1;
    }
    return \%env;
}

# The path with the slashes that the server has merged (`//foo///bar`), as PSGI servers give it. Everything else is as the server says.
sub path_as_requested {
    my ($env) = @_;
    my ($path) = $env->{REQUEST_URI} =~ /^([^?#]*)/;
    $path =~ s/%([0-9A-Fa-f]{2})/chr hex $1/ge;
    my $name = $env->{SCRIPT_NAME};
    return $env->{PATH_INFO} unless substr($path, 0, length $name) eq $name;
    my $rest = substr $path, length $name;
    return $rest =~ tr{/}{}sr eq $env->{PATH_INFO} ? $rest : $env->{PATH_INFO};
}

# ---- One request ----

# Fork mode: loads the application in the parent.
sub prepare {
    return 1 if Sluice::Engine::with_exit(\&application) && !defined $Sluice::Engine::Exit::status;
    ($output, $has_written) = ('', 0);
    fail(defined $Sluice::Engine::Exit::status ? "exit while the application was loaded\n" : $@);
    return 0;
}

sub serve {
    ($output, $has_head, $has_written, $is_ended, $was_aborted) = ('', 0, 0, 0, 0);
    redirect_output() unless $is_redirected;
    my $env;
    my $succeeded = Sluice::Engine::with_exit(sub {
        my $application = application();
        $env = environment();
        respond($application->($env), 0);
    });
    my $error = $succeeded ? undef : $@;
    if ($$ != $Sluice::Engine::Exit::owner) {
        print STDERR $error if defined $error;
        POSIX::_exit(defined $error ? 255 : $Sluice::Engine::Exit::status || 0);
    }
    $error = "the application has called exit before its response was complete\n"
        if !defined $error && !$is_ended && defined $Sluice::Engine::Exit::status;
    # A writer that has been given away is closed when it is no longer used; nothing can use it after this.
    $error = "the application has given no complete response: a subroutine for a delayed response must call its argument\n"
        if !defined $error && !$has_head;
    if (defined $error && $INC{'Sluice/Engine/Input.pm'} && $error eq Sluice::Engine::Input::LEFT()) {
        # Nobody waits for the response.
        $output = '';
        undef $error;
    }
    # Before the end sentinel: after it, the bytes on the pipe are those of the next body.
    $input->end_request if $input;
    undef $input;
    Sluice::Engine::Request::check_priority();
    if (defined $error) { fail($error) }
    else                { finish() }
    restore_output() unless defined $only;
    after_response($env) if $env;
}

# psgix.cleanup, psgix.harakiri.
sub after_response {
    my ($env) = @_;
    if (my @handlers = @{ $env->{'psgix.cleanup.handlers'} || [] }) {
        for my $handler (@handlers) {
            Sluice::Engine::with_exit(sub { $handler->($env) }) or print STDERR "psgix.cleanup: $@";
        }
    }
    CORE::exit(0) if $env->{'psgix.harakiri.commit'};
    # The body that the application has not read is the server's to discard; this drops what is in the buffer here.
    delete $env->{'psgi.input'};
}

# What the application prints goes to the log: descriptor 1 is a copy of standard error while it runs.
sub redirect_output {
    IO::Handle::flush(\*STDOUT);
    POSIX::dup2(2, 1);
    $is_redirected = 1;
}

sub restore_output {
    IO::Handle::flush(\*STDOUT);
    POSIX::dup2(fileno($Sluice::Engine::Channel::mailbox), 1);
    $is_redirected = 0;
}

# ---- The response ----

sub respond {
    my ($response, $is_delayed) = @_;
    if (is_code($response) && !$is_delayed) {
        $response->(sub { return respond_once(@_) });
        return;
    }
    die "the application has returned no response: an array or a subroutine is expected\n"
        unless ref $response && (Scalar::Util::reftype($response) || '') eq 'ARRAY';
    die "a response has a status, headers and a body\n" unless @$response == 3 || @$response == 2;
    my ($status, $headers, $body) = @$response;
    add_head($status, $headers);
    return Sluice::Engine::PSGI::Writer->new if @$response == 2;
    send_body($body);
    $is_ended = 1;
    return;
}

sub respond_once {
    my ($response) = @_;
    die "the application has responded twice\n" if $has_head;
    return respond($response, 1);
}

sub add_head {
    my ($status, $headers) = @_;
    die "invalid status: " . (defined $status ? $status : 'undef') . "\n" unless defined $status && $status =~ /^[1-5]\d\d\z/;
    my $head = "Status: $status\n";
    for (my $i = 0 ; $i < @$headers ; $i += 2) {
        my ($name, $value) = @{$headers}[$i, $i + 1];
        $value = '' unless defined $value;
        die "invalid name of a header field\n" unless $name =~ /^[!#\$%&'*+.^_`|~0-9A-Za-z-]+\z/;
        # PSGI forbids control characters. A line break with a blank after it is the old way to continue a value.
        $value =~ s/\r?\n[ \t]+/ /g;
        die "the value of $name has a line break\n" if $value =~ /[\r\n\0]/;
        # The status has its own field, and a field of this name would be taken for it.
        next if lc $name eq 'status';
        $head .= "$name: $value\n";
    }
    utf8::downgrade($head, 1) or die "a header field has a character above 255\n";
    # A reply without a media type is not valid under CGI, except for those without a body.
    $output = $head . "\n";
    $has_head = 1;
}

sub send_body {
    my ($body) = @_;
    if (ref $body eq 'ARRAY') {
        for my $part (@$body) {
            add($part);
        }
    }
    elsif (my $descriptor = plain_file($body)) {
        send_file($body);
        close_body($body);
    }
    elsif (defined $body && ref $body) {
        local $/ = \BLOCK_BYTES;
        while (defined(my $part = $body->getline)) {
            add($part);
            # What the application gives part by part is sent part by part; large parts of files are collected.
            flush_output() unless length $part >= BLOCK_BYTES;
        }
        close_body($body);
    }
    else {
        die "the body of a response is an array or a handle\n";
    }
}

sub close_body {
    my ($body) = @_;
    if    (Scalar::Util::blessed($body) && $body->can('close')) { $body->close }
    elsif (!Scalar::Util::blessed($body))                       { close $body }
}

# A real file handle without layers that change bytes: it is read in blocks past its buffer.
sub plain_file {
    my ($body) = @_;
    return 0 unless ref $body eq 'GLOB' || Scalar::Util::blessed($body) && (ref $body eq 'IO::File' || ref $body eq 'IO::Handle');
    return 0 if tied *$body;
    my $number = fileno $body;
    return 0 unless defined $number && $number >= 0 && -f $body;
    my @layers = PerlIO::get_layers($body);
    return 0 if grep { !/^(?:unix|perlio)$/ } @layers;
    return 1;
}

sub send_file {
    my ($body) = @_;
    # The position of the handle, not of its buffer.
    my $position = tell $body;
    sysseek $body, $position, 0 if $position >= 0;
    while (1) {
        my $count = sysread $body, $output, BLOCK_BYTES, length $output;
        die "reading a file: $!\n" unless defined $count;
        last if $count == 0;
        flush_output() if length $output > BLOCK_BYTES / 2;
    }
}

sub add {
    my ($part) = @_;
    return unless defined $part;
    if (utf8::is_utf8($part)) {
        utf8::downgrade($part, 1) or die "the body has a character above 255: encode it\n";
    }
    $output .= $part;
    flush_output() if length $output > 4 * BLOCK_BYTES;
}

sub flush_output {
    return if $output eq '';
    $has_written = 1;
    Sluice::Engine::Channel::write_mailbox($output) or die "the client has left\n";
    $output = '';
}

sub finish {
    Sluice::Engine::Channel::write_mailbox($output . ($Sluice::Engine::is_child ? '' : Sluice::Engine::Channel::ending()));
    $output = '';
}

sub fail {
    my ($error) = @_;
    $error = "$error";
    $error .= "\n" if $error !~ /\n\z/;
    print STDERR $error;
    $output = '';
    # The server's error page has the status 500, as with other PSGI servers (Plack::Test::Suite), instead of 502.
    my $reply = $has_written ? '' : Sluice::Engine::Channel::callout('!SCRIPT-CONTROL: X-http-status=500');
    $reply .= Sluice::Engine::Channel::failure($error);
    Sluice::Engine::Channel::write_mailbox($reply . ($Sluice::Engine::is_child ? '' : Sluice::Engine::Channel::ending()));
}

# The writer of a streamed response: each part is sent at once.
package Sluice::Engine::PSGI::Writer;

sub new { return bless {is_closed => 0}, shift }

sub write {
    my ($self, $part) = @_;
    die "the writer is closed\n" if $self->{is_closed};
    Sluice::Engine::PSGI::add($part);
    Sluice::Engine::PSGI::flush_output();
    return 1;
}

sub close {
    my ($self) = @_;
    $self->{is_closed} = 1;
    $is_ended = 1;
}

sub poll_cb {
    my ($self, $call) = @_;
    # There is no event loop: the client takes what is written, or the write waits.
    $call->($self) until $self->{is_closed};
}

1;
