#!/usr/bin/perl
# Shows a form, and what was sent with it: two fields and any number of files.
use strict;
use warnings;
use Sluice qw(escape_html);

while (Sluice::accept()) {
    Sluice::upload_limit(100 << 20);
    # Over a bound, or with a body that is no form, the functions die; the error has the status to answer with.
    if (!eval { page(); 1 }) {
        my $error = $@;
        die $error unless ref $error;
        Sluice::fail($error->status, $error->text);
    }
    Sluice::finish();
}

sub page {
    return answers() if Sluice::variable('REQUEST_METHOD') eq 'POST';
    Sluice::respond('text/html; charset=utf-8');
    Sluice::write(<<'FORM');
<!DOCTYPE html>
<title>Form</title>
<form method="post" enctype="multipart/form-data">
<p><label>Name <input name="name"></label>
<p><label>Note <textarea name="note"></textarea></label>
<p><label>Files <input type="file" name="file" multiple></label>
<p><button>Send</button>
</form>
FORM
}

sub answers {
    my @rows = map { my $name = $_; map { [$name, $_] } Sluice::parameters($name) } Sluice::parameter_names();
    for my $file (Sluice::uploads('file')) {
        open my $handle, '<:raw', $file->{path} or die "$file->{path}: $!\n";
        read $handle, my $start, 60;
        $start =~ s/\n.*//s;
        push @rows, [$file->{filename}, "$file->{size} bytes of $file->{type}, begins with $start"];
    }
    Sluice::respond('text/html; charset=utf-8');
    Sluice::write("<!DOCTYPE html>\n<title>Sent</title>\n<dl>\n",
        (map { '<dt>' . escape_html($_->[0]) . '<dd>' . escape_html($_->[1]) . "\n" } @rows), "</dl>\n");
}
