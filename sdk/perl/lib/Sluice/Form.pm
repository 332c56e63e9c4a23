# Sluice::Form: fields of the query and of the body; uploaded files, on the disk until the end of the request. Everything has a bound.
package Sluice::Form;
use strict;
use warnings;
use File::Temp ();
use IO::Handle ();

use constant FIELDS_MAX       => 1000;
use constant FIELD_BYTES_MAX  => 8 << 20;     # names and values of all fields that are not files
use constant HEAD_BYTES_MAX   => 16 << 10;    # the head of one part
use constant BLOCK_BYTES      => 1 << 18;

my $upload_bytes_max = 1 << 30;
my $current;
my @files;    # handles of uploads

sub set_limit {
    $upload_bytes_max = $_[0] if defined $_[0];
    return $upload_bytes_max;
}

# The form of this request; it is read when it is first asked for. Dies with a Sluice::Error.
sub read_all {
    return $current if $current;
    my $self = bless {fields => [], uploads => [], bytes => 0, upload_bytes => 0}, __PACKAGE__;
    $current = $self;
    my $read = eval {
        $self->add_text(defined $ENV{QUERY_STRING} ? $ENV{QUERY_STRING} : '');
        my $type = $ENV{CONTENT_TYPE} || '';
        if    ($type =~ m{^application/x-www-form-urlencoded}i) { $self->read_urlencoded }
        elsif ($type =~ m{^multipart/form-data}i)               { $self->read_multipart($type) }
        1;
    };
    return $self if $read;
    my $error = $@;
    forget();
    die $error;
}

# The end of the request: files are closed, which removes them, and limits are as they were.
sub forget {
    undef $current;
    @files = ();
    $upload_bytes_max = 1 << 30;
}

sub values_of {
    my ($self, $name) = @_;
    return map { $_->[1] } grep { $_->[0] eq $name } @{ $self->{fields} };
}

sub names {
    my ($self) = @_;
    my %seen;
    return grep { !$seen{$_}++ } map { $_->[0] } @{ $self->{fields} };
}

sub uploads_of {
    my ($self, $name) = @_;
    return grep { !defined $name || $_->{name} eq $name } @{ $self->{uploads} };
}

sub add {
    my ($self, $name, $value) = @_;
    $self->{bytes} += length($name) + length $value;
    Sluice::Error->throw(413, 'more than ' . FIELDS_MAX . ' fields') if @{ $self->{fields} } + @{ $self->{uploads} } >= FIELDS_MAX;
    Sluice::Error->throw(413, 'more than ' . FIELD_BYTES_MAX . ' bytes of fields') if $self->{bytes} > FIELD_BYTES_MAX;
    push @{ $self->{fields} }, [$name, $value];
}

# Counts a field of the body, also one without a name or content, which is in no list.
sub count {
    my ($self) = @_;
    Sluice::Error->throw(413, 'more than ' . FIELDS_MAX . ' fields') if $self->{count}++ >= FIELDS_MAX;
}

sub add_text {
    my ($self, $text) = @_;
    # A query without `=` is a list of keywords, not a form.
    while ($text =~ /([^&;]+)/g) {
        my ($name, $value) = split /=/, $1, 2;
        next unless defined $value;
        $self->add(Sluice::url_decode($name), Sluice::url_decode($value));
    }
}

sub read_urlencoded {
    my ($self) = @_;
    Sluice::Error->throw(413, 'more than ' . FIELD_BYTES_MAX . ' bytes of fields') if ($ENV{CONTENT_LENGTH} || 0) > FIELD_BYTES_MAX;
    my $text = '';
    while (1) {
        my $part = Sluice::body_read(BLOCK_BYTES);
        Sluice::Error->throw(400, "reading the body: $!") unless defined $part;
        last if $part eq '';
        $text .= $part;
    }
    $text =~ s/\r?\n\z//;
    # In a body `;` is not a separator. One after another, because a list of millions of empty ones would need much memory.
    while ($text =~ /([^&]+)/g) {
        $self->count;
        my ($name, $value) = split /=/, $1, 2;
        next unless defined $name && $name ne '';
        $self->add(Sluice::url_decode($name), Sluice::url_decode(defined $value ? $value : ''));
    }
}

# ---- multipart/form-data (RFC 7578) ----

sub read_multipart {
    my ($self, $type) = @_;
    my ($boundary) = $type =~ /boundary="([^"]{1,200})"/i;
    ($boundary) = $type =~ /boundary=([^\s;,]{1,200})/i unless defined $boundary;
    Sluice::Error->throw(400, 'multipart/form-data without a boundary') unless defined $boundary;
    # The delimiter of the first part has no line break before it.
    my $input = {buffer => "\r\n", delimiter => "\r\n--$boundary"};
    copy_part($input, sub { });
    while (1) {
        need($input, 2);
        my $mark = substr $input->{buffer}, 0, 2;
        return drain() if $mark eq '--';
        $self->read_part($input);
    }
}

# What follows the last delimiter has no meaning, but it is a part of the body.
sub drain {
    while (1) {
        my $part = Sluice::body_read(BLOCK_BYTES);
        return if !defined $part || $part eq '';
    }
}

sub more {
    my ($input) = @_;
    my $part = Sluice::body_read(BLOCK_BYTES);
    Sluice::Error->throw(400, "reading the body: $!") unless defined $part;
    Sluice::Error->throw(400, 'the body ends within a part') if $part eq '';
    $input->{buffer} .= $part;
}

sub need {
    my ($input, $bytes) = @_;
    more($input) while length $input->{buffer} < $bytes;
}

# Gives the bytes up to the next delimiter to `$take`, part by part, and removes the delimiter.
sub copy_part {
    my ($input, $take) = @_;
    my $delimiter = $input->{delimiter};
    while (1) {
        my $at = index $input->{buffer}, $delimiter;
        if ($at >= 0) {
            $take->(substr $input->{buffer}, 0, $at);
            substr $input->{buffer}, 0, $at + length $delimiter, '';
            return;
        }
        my $safe = length($input->{buffer}) - length $delimiter;
        $take->(substr $input->{buffer}, 0, $safe, '') if $safe > 0;
        more($input);
    }
}

sub read_part {
    my ($self, $input) = @_;
    $self->count;
    my $end;
    while (($end = index $input->{buffer}, "\r\n\r\n") < 0) {
        Sluice::Error->throw(400, 'the head of a part is too long') if length $input->{buffer} > HEAD_BYTES_MAX;
        more($input);
    }
    Sluice::Error->throw(400, 'the head of a part is too long') if $end > HEAD_BYTES_MAX;
    my $head = substr $input->{buffer}, 0, $end + 4, '';
    $head =~ s/\r\n[ \t]+/ /g;
    my ($disposition) = $head =~ /^Content-Disposition:[ \t]*form-data\b(.*?)\r?$/mi;
    my ($type)        = $head =~ /^Content-Type:[ \t]*([^\r\n]*?)[ \t]*\r?$/mi;
    my $name     = attribute($disposition, 'name');
    my $filename = attribute($disposition, 'filename');
    Sluice::Error->throw(400, 'a part of the form has no name') unless defined $name;
    return $self->read_upload($input, $name, $filename, $type) if defined $filename;
    my $value = '';
    copy_part($input, sub {
        $value .= $_[0];
        Sluice::Error->throw(413, 'more than ' . FIELD_BYTES_MAX . ' bytes of fields') if $self->{bytes} + length $value > FIELD_BYTES_MAX;
    });
    $self->add($name, $value);
}

sub attribute {
    my ($text, $name) = @_;
    return unless defined $text;
    if ($text =~ /;[ \t]*\Q$name\E="((?:[^"\\]|\\.)*)"/i) {
        my $value = $1;
        # Browsers write %22 for a quote (HTML); older programs write a backslash before it.
        $value =~ s/\\(["\\])/$1/g;
        $value =~ s/%22/"/g;
        return $value;
    }
    return $text =~ /;[ \t]*\Q$name\E=([^\s;"]+)/i ? $1 : undef;
}

sub read_upload {
    my ($self, $input, $name, $filename, $type) = @_;
    Sluice::Error->throw(413, 'more than ' . FIELDS_MAX . ' fields') if @{ $self->{fields} } + @{ $self->{uploads} } >= FIELDS_MAX;
    $self->{bytes} += length($name) + length $filename;
    # A file without a name: nothing is left behind, however the process ends.
    my ($handle, $path) = eval { File::Temp::tempfile('sluice-upload-XXXXXXXX', TMPDIR => 1, UNLINK => 0) }
        or Sluice::Error->throw(507, "no temporary file: $@");
    unlink $path;
    binmode $handle;
    # Not /proc/self, so that programs that the script starts can open it, too.
    $path = "/proc/$$/fd/" . fileno $handle;
    # A name with a directory is the idea of an old browser, or of an attacker.
    $filename =~ s{^.*[/\\]}{}s;
    $filename = '' if $filename eq '.' || $filename eq '..';
    my $upload = {name => $name, filename => $filename, type => defined $type ? $type : 'application/octet-stream', size => 0, path => $path};
    push @{ $self->{uploads} }, $upload;
    copy_part($input, sub {
        $self->{upload_bytes} += length $_[0];
        Sluice::Error->throw(413, "more than $upload_bytes_max bytes of files") if $self->{upload_bytes} > $upload_bytes_max;
        $upload->{size} += length $_[0];
        print $handle $_[0] or Sluice::Error->throw(507, "writing an uploaded file: $!");
    });
    $handle->flush or Sluice::Error->throw(507, "writing an uploaded file: $!");
    # A form in which no file was chosen sends an empty one without a name.
    if ($filename eq '' && $upload->{size} == 0) { pop @{ $self->{uploads} } }
    else                                         { push @files, $handle }
}

# What the functions of forms die with: `$@->status` is the status to answer with.
package Sluice::Error;
use overload '""' => sub { $_[0]{text} . "\n" }, fallback => 1;

sub throw { my ($class, $status, $text) = @_; die bless {status => $status, text => $text}, $class }
sub status { return $_[0]{status} }
sub text   { return $_[0]{text} }

1;
