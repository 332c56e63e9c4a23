#!/usr/bin/perl
# A form with an upload: the fields, and the size and the first bytes of each file.
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
    my @rows = map { my $name = $_; map { [$name, $_] } Sluice::parameters($name) } Sluice::parameter_names();
    for my $file (Sluice::uploads()) {
        open my $handle, '<:raw', $file->{path} or die "$file->{path}: $!\n";
        read $handle, my $start, 16;
        push @rows, [$file->{name}, "$file->{filename}, $file->{type}, $file->{size} bytes, begins with " . unpack 'H*', $start];
    }
    Sluice::respond('text/html; charset=utf-8');
    Sluice::write('<!doctype html><title>Form</title><form method=post enctype=multipart/form-data>',
        '<p><input name=text> <input type=file name=file multiple> <button>Send</button></form><table>',
        (map { '<tr><th>' . escape_html($_->[0]) . '<td>' . escape_html($_->[1]) . "\n" } @rows), "</table>\n");
}
