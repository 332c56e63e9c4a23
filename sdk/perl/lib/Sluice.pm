# Sluice: the library for scripts in Perl. Documentation: below, and docs/guides/perl.md.
#
# Here: requests, variables, responses, callouts, text. Form.pm has parameters and uploads, Buffer.pm the memory buffer.
package Sluice;
use strict;
use warnings;
use Exporter               ();
use IO::Handle             ();
use Sluice::Engine::Channel ();

our $VERSION   = '0.1';
our @ISA       = ('Exporter');
our @EXPORT_OK = qw(
    finish is_persistent uses variable variables body_read parameter parameters parameter_names upload uploads upload_limit
    status header respond redirect flush event fail callout notice watch map_path map_file lifetime
    buffer_begin buffer_write buffer_end escape_html url_encode url_decode
);
our %EXPORT_TAGS = (all => \@EXPORT_OK);

# CGIplus: the server has set CGIPLUSEOF when this process began. In the engine it is not set for scripts.
my $in_engine     = defined &Sluice::Engine::serve;
my $is_persistent = !$in_engine && defined $ENV{CGIPLUSEOF} && $ENV{CGIPLUSEOF} ne '';
my $uses          = 0;
my $is_open       = 0;     # a request has been accepted and not finished
my $was_accepted  = 0;     # CGI, engine: the one request has been accepted
my ($status, @fields, $has_head, $body_rest);
my %base;                  # CGIplus: the environment between requests

if (!$in_engine) {
    Sluice::Engine::Channel::open_for_library();
    %base = %ENV;
}

# ---- Requests ----

sub accept {
    finish() if $is_open;
    if ($is_persistent) {
        my $record = Sluice::Engine::Channel::next_record() or return 0;
        %ENV = (%base, map { /^([^=]+)=(.*)\z/s ? ($1 => $2) : () } @$record);
    }
    elsif ($was_accepted++) {
        return 0;
    }
    $uses++;
    begin_request();
    return 1;
}

sub begin_request {
    $is_open = 1;
    ($status, $has_head) = (undef, 0);
    @fields = ();
    $body_rest = undef;
    Sluice::Form::forget() if $INC{'Sluice/Form.pm'};
    STDOUT->autoflush(0) if $is_persistent;
}

sub finish {
    return 1 unless $is_open;
    $is_open = 0;
    buffer_end() if $INC{'Sluice/Buffer.pm'} && Sluice::Buffer::is_active();
    respond() unless $has_head || !@fields && !defined $status;
    Sluice::Form::forget() if $INC{'Sluice/Form.pm'};
    return flush() unless $is_persistent;
    if ($Sluice::Engine::Channel::keeps_records) {
        flush();
        return Sluice::Engine::Channel::write_mailbox(Sluice::Engine::Channel::ending());
    }
    local ($\, $,);
    print STDOUT Sluice::Engine::Channel::ending();
    return flush();
}

# In the engine, at the end of each request.
sub end_of_request {
    $is_open = $was_accepted = 0;
    ($status, $has_head, $body_rest) = (undef, 0, undef);
    @fields = ();
    Sluice::Form::forget()    if $INC{'Sluice/Form.pm'};
    Sluice::Buffer::forget() if $INC{'Sluice/Buffer.pm'};
}

sub is_persistent { return $is_persistent ? 1 : 0 }
sub uses          { no warnings 'once'; return $in_engine ? $Sluice::Engine::uses : $uses }

# ---- Variables and the body ----

sub variable {
    my ($name, $default) = @_;
    $name = uc $name;
    for my $key ($name, "WWW_$name", $name =~ /^WWW_(.+)/s ? $1 : ()) {
        return $ENV{$key} if defined $ENV{$key};
    }
    return $default;
}

sub variables { return %ENV }

# Up to `$bytes` bytes of the body; '' at its end; undef after an error ($!).
sub body_read {
    my ($bytes) = @_;
    my $length = $ENV{CONTENT_LENGTH} || 0;
    $body_rest = $length =~ /^\d+\z/ ? $length : 0 unless defined $body_rest;
    $bytes = $body_rest if $bytes > $body_rest;
    return '' if $bytes <= 0;
    while (1) {
        my $data;
        my $count = sysread STDIN, $data, $bytes;
        next if !defined $count && $!{EINTR};
        return unless defined $count;
        $body_rest = $count ? $body_rest - $count : 0;
        return $data;
    }
}

sub form {
    require Sluice::Form;
    return Sluice::Form::read_all();
}

sub parameter {
    my ($name, $default) = @_;
    my ($value) = form()->values_of($name);
    return defined $value ? $value : $default;
}

sub parameters      { return form()->values_of($_[0]) }
sub parameter_names { return form()->names }
sub upload          { return (form()->uploads_of($_[0]))[0] }
sub uploads         { return form()->uploads_of($_[0]) }

sub upload_limit {
    require Sluice::Form;
    return Sluice::Form::set_limit($_[0]);
}

# ---- Responses ----

sub status {
    my ($code) = @_;
    die "Sluice::status: $code is no status\n" unless defined $code && $code =~ /^[1-5]\d\d\z/;
    die "Sluice::status: the head has been written\n" if $has_head;
    $status = $code;
    return 1;
}

sub header {
    my ($name, $value) = @_;
    die "Sluice::header: invalid name\n" unless defined $name && $name =~ /^[!#\$%&'*+.^_`|~0-9A-Za-z-]+\z/;
    die "Sluice::header: the value of $name has a line break\n" if !defined $value || $value =~ /[\r\n\0]/;
    die "Sluice::header: the head has been written\n" if $has_head;
    push @fields, [$name, $value];
    return 1;
}

# Writes the head, once. A type that was set by header() is kept if none is given.
sub respond {
    my ($type) = @_;
    return 1 if $has_head;
    my $has_type = grep { lc $_->[0] eq 'content-type' } @fields;
    my $has_place = grep { lc $_->[0] eq 'location' } @fields;
    header('Content-Type', defined $type ? $type : 'text/html; charset=utf-8') if defined $type || !$has_type && !$has_place;
    my $head = defined $status ? "Status: $status\n" : '';
    $head .= "$_->[0]: $_->[1]\n" for @fields;
    $has_head = 1;
    local ($\, $,);
    return print STDOUT "$head\n";
}

sub redirect {
    my ($url, $code) = @_;
    $code = 302 unless defined $code;
    die "$code is no status of a redirect\n" unless $code =~ /^30[12378]\z/;
    status($code);
    header('Location', $url);
    return respond();
}

# Not imported, because `write` is a function of Perl.
sub write {
    respond() unless $has_head;
    local ($\, $,);
    return print STDOUT @_;
}

sub flush { return IO::Handle::flush(\*STDOUT) ? 1 : 0 }

# An event of text/event-stream; it is sent at once.
sub event {
    my ($data, $name, $id) = @_;
    for ($name, $id) {
        die "Sluice::event: a name or an id has a line break\n" if defined && /[\r\n\0]/;
    }
    if (!$has_head) {
        header('Cache-Control', 'no-cache') unless grep { lc $_->[0] eq 'cache-control' } @fields;
        respond('text/event-stream');
    }
    my $text = (defined $name ? "event: $name\n" : '') . (defined $id ? "id: $id\n" : '');
    $text .= "data: $_\n" for defined $data && $data ne '' ? split /\r\n|\r|\n/, $data, -1 : '';
    local ($\, $,);
    return print(STDOUT "$text\n") && flush();
}

my %REASONS = (
    400 => 'Bad Request', 401 => 'Unauthorized', 403 => 'Forbidden', 404 => 'Not Found', 405 => 'Method Not Allowed', 406 => 'Not Acceptable',
    408 => 'Request Timeout', 409 => 'Conflict', 410 => 'Gone', 411 => 'Length Required', 412 => 'Precondition Failed',
    413 => 'Content Too Large', 414 => 'URI Too Long', 415 => 'Unsupported Media Type', 416 => 'Range Not Satisfiable',
    422 => 'Unprocessable Content', 428 => 'Precondition Required', 429 => 'Too Many Requests', 500 => 'Internal Server Error',
    501 => 'Not Implemented', 502 => 'Bad Gateway', 503 => 'Service Unavailable', 504 => 'Gateway Timeout', 507 => 'Insufficient Storage',
);

# A short response with an error, if the head has not been written: the status and its reason, and a line of text. False if it has.
sub fail {
    my ($code, $text) = @_;
    return 0 if $has_head;
    @fields = ();
    status($code);
    header('Cache-Control', 'no-store');
    respond('text/plain; charset=utf-8');
    local ($\, $,);
    my $reason = $REASONS{$code} || 'Error';
    return print STDOUT "$code $reason\n", defined $text && $text ne '' ? "$text\n" : '';
}

# ---- Callouts ----

# (code, text) of the answer; (0, '') for a request that has none ("!…"), (0, reason) without a server that knows callouts.
sub callout {
    my ($request) = @_;
    die "Sluice::callout: a request is one line\n" if !defined $request || $request eq '' || $request =~ /[\x00-\x08\x0a-\x1f\x7f]/;
    return (0, 'the server has no callouts') unless $Sluice::Engine::Channel::ESCAPE;
    flush();
    Sluice::Engine::Channel::write_mailbox(Sluice::Engine::Channel::callout($request)) or return (0, "$!");
    return (0, '') if $request =~ /^[!#]/;
    my $answer = Sluice::Engine::Channel::read_answer();
    return (0, 'the server is gone') unless defined $answer;
    return $answer =~ /^(\d{3}) ?(.*)/s ? ($1, $2) : (0, $answer);
}

sub answer_of {
    my ($code, $text) = callout($_[0]);
    return $code == 200 ? $text : undef;
}

sub notice   { my ($text) = @_; $text =~ s/[\x00-\x1f\x7f]+/ /g; return defined answer_of("NOTICED: $text") }
# For those who watch this request (WATCH, item callouts). While nobody does nothing is sent.
sub watch {
    my ($text) = @_;
    return 1 unless defined variable('WATCH_SCRIPT');
    $text =~ s/[\x00-\x1f\x7f]+/ /g;
    callout("!WATCH: $text");
    return 1;
}

sub map_path { return answer_of("MAP-PATH: $_[0]") }
sub map_file { return answer_of("MAP-FILE: $_[0]") }
sub lifetime { return answer_of("LIFETIME: $_[0]") }

# ---- The memory buffer ----

sub buffer_begin { require Sluice::Buffer; return Sluice::Buffer::begin(@_) }

sub buffer_write {
    die "Sluice::buffer_write: no buffer\n" unless $INC{'Sluice/Buffer.pm'};
    respond() unless $has_head;
    return Sluice::Buffer::put(ref $_[0] ? ${ $_[0] } : $_[0]);
}

sub buffer_end { return $INC{'Sluice/Buffer.pm'} ? Sluice::Buffer::end() : 0 }

# ---- Text ----

my %HTML = ('&' => '&amp;', '<' => '&lt;', '>' => '&gt;', '"' => '&quot;', "'" => '&#39;');

sub escape_html {
    my ($text) = @_;
    return '' unless defined $text;
    $text =~ s/([&<>"'])/$HTML{$1}/g;
    return $text;
}

sub url_encode {
    my ($text) = @_;
    return '' unless defined $text;
    utf8::encode($text) if utf8::is_utf8($text);
    $text =~ s/([^A-Za-z0-9._~-])/sprintf '%%%02X', ord $1/ge;
    return $text;
}

sub url_decode {
    my ($text) = @_;
    return '' unless defined $text;
    $text =~ tr/+/ /;
    $text =~ s/%([0-9A-Fa-f]{2})/chr hex $1/ge;
    return $text;
}

1;

__END__

=encoding utf8

=head1 NAME

Sluice - for scripts under the web server Sluice: CGI, CGIplus and the Perl engine with one source

=head1 SYNOPSIS

  use Sluice;

  while (Sluice::accept()) {
      my $name = Sluice::parameter('name', 'you');
      Sluice::respond('text/html; charset=utf-8');
      Sluice::write('<p>Hello, ', Sluice::escape_html($name));
      Sluice::finish();
  }

=head1 DESCRIPTION

The loop runs once under CGI and in the engine, and until the server ends the process under CGIplus. All functions can be called with their full
names. They can also be imported (C<use Sluice qw(:all)>), except C<accept> and C<write>, which have the names of functions of Perl.

Values of parameters and variables are bytes. Decode them with C<utf8::decode> where you need characters.

=head2 Requests

=over

=item accept()

True while there is a request. It finishes the previous one.

=item finish()

Ends the response and removes uploaded files.

=item is_persistent()

1 if C<accept> can be true again: the loop of a CGIplus script. 0 under CGI, and in the engine, which calls the script for each request.

=item uses()

The number of requests that this process has got, with this one. 1 under CGI and in fork mode, where each request has a process of its own.

=item variable($name, $default), variables()

A CGI variable; all of them as a hash. Names are case-insensitive, with or without C<WWW_>.

=item body_read($bytes)

Up to so many bytes of the body, which were not read before; an empty string at its end. Do not mix it with reads of C<STDIN>.

=back

=head2 Forms

Fields of the query and of the body, in this order. At most 1000 fields and 8 MiB of values; files go to the disk, up to C<upload_limit> for all of
them (1 GiB). Beyond a bound the functions die with a C<Sluice::Error>, whose C<status> is 413 (400 for a body that is no form).

=over

=item parameter($name, $default), parameters($name), parameter_names()

=item upload($name), uploads($name)

A file as a hash: C<name>, C<filename> (as the client calls it), C<type>, C<size>, C<path>.

The file is temporary and has no name on disk, so nothing is left behind, however the script ends. Open its path, give it to a program, or
keep it with C<File::Copy::copy>; it cannot be renamed or moved.

=item upload_limit($bytes)

=back

=head2 Responses

=over

=item status($code), header($name, $value), respond($type)

C<respond> writes the head, once. C<header> dies if a value has a line break.

=item redirect($url, $code), write(@data), flush()

=item event($data, $name, $id)

Sends a server-sent event.

=item fail($status, $text)

A response with an error: the status with its reason, and the text. It does not end the script.

=back

=head2 Callouts

=over

=item callout($request)

Code and text of the answer.

=item notice($text), map_path($path), map_file($file), lifetime($text)

=item watch($text)

A line for those who watch this request (WATCH, item callouts). While nobody does nothing is sent.

=back

=head2 The memory buffer

C<buffer_begin($bytes)> before the head is written, C<buffer_write($data)> as often as needed, C<buffer_end()>. C<buffer_begin> returns the size, or
false if the server gives none: then use C<write>. C<buffer_write> and C<buffer_end> are false if the client has left.

=head2 Text

C<escape_html($text)>, C<url_encode($text)>, C<url_decode($text)>.

=cut
