# Sluice::Engine::Source: from the text of a script to a compiled subroutine in a package of its own.
#
#   file -> text -> the switches of its #! line, its code, its data -> wrapped in `package P; sub … { }` -> compiled
#
# Not here: what is kept of a compiled script and put back between requests (Script.pm, Variables.pm).

# Compiled before any pragma of this file, so that a script begins with none. Its only variable is @_.
package Sluice::Engine::Source;
sub compile_text { eval $_[0] }

use strict;
use warnings;

# The name of the subroutine that holds the code of a script.
use constant MAIN => '__sluice_script__';

# Reads a script. A hash: code, data_offset (undef without data), switches, is_utf8; or undef: $!.
sub read_file {
    my ($file) = @_;
    open my $handle, '<:raw', $file or return;
    my $text = do { local $/; <$handle> };
    return unless defined $text;
    my %source = (text => $text, file => $file);
    $source{switches} = $text =~ /\A(?:\xef\xbb\xbf)?#!\S*perl\S*[ \t]+([^\r\n]*)/ ? $1 : '';
    return \%source;
}

# The places where the code may end: `__END__` or `__DATA__` on a line of its own, then the end of the file.
sub ends_of {
    my ($text) = @_;
    my @ends;
    while ($text =~ /^__(?:END|DATA)__[ \t]*(?:\r?\n|\z)/mg) {
        push @ends, [$-[0], $+[0]];
    }
    return @ends, [length $text, undef];
}

# Compiles a script into a package. Returns the subroutine; or undef, with the error in $@. The first line that looks like the end of the
# code may be a line of a text in it ("here document"); then the next one is tried.
sub compile {
    my ($source, $package) = @_;
    my $error;
    for my $end (ends_of($source->{text})) {
        my $code = substr $source->{text}, 0, $end->[0];
        # The lines of a file from Windows.
        $code =~ s/\r\n/\n/g;
        $code =~ s/\A\xef\xbb\xbf/use utf8;/;
        no strict 'refs';
        no warnings;
        undef &{ $package . '::' . MAIN };
        local $@;
        compile_text(wrapped($source, $package, $code));
        $error = $@ unless defined $error;
        next unless $@ eq '' && defined &{ $package . '::' . MAIN };
        $source->{data_offset} = $end->[1];
        $source->{is_utf8}     = $code =~ /^\s*use\s+utf8\b/m;
        my @packages = $code =~ /(?:^|[;{}])[ \t]*package[ \t]+([A-Za-z_][\w:]*)[ \t]*(?:[\d.v]+[ \t]*)?;/mg;
        $source->{data_package} = @packages ? $packages[-1] : $package;
        $source->{packages} = { map { $_ => 1 } $code =~ /(?:^|[;{}])[ \t]*package[ \t]+([A-Za-z_][\w:]*)/mg };
        return \&{ $package . '::' . MAIN };
    }
    $@ = $error;
    return;
}

sub wrapped {
    my ($source, $package, $code) = @_;
    my $name = $source->{file};
    $name =~ tr/"\n/__/;
    # `=pod … =cut` closes documentation that lasts until the end of the file, and is nothing otherwise.
    return join '', 'package ', $package, '; sub ', MAIN, ' { ', prelude($source->{switches}), "\n#line 1 \"$name\"\n", $code,
        "\n;\n\n=pod\n\n=cut\n\n}";
}

# Code for switches of the #! line that a subroutine can have: -M and -m. -w, -W, -X and -T are the engine's (Script.pm).
sub prelude {
    my ($switches) = @_;
    my $code = '';
    while ($switches =~ /(?:^|\s)-[wtTWX]*([Mm])(-?)([\w:]+)(?:=(\S+))?/g) {
        my ($kind, $no, $module, $list) = ($1, $2, $3, $4);
        $code .= ($no ? 'no ' : 'use ') . $module . (defined $list ? " split(/,/, q{$list})" : $kind eq 'm' ? ' ()' : '') . '; ';
    }
    return $code;
}

# ---- Code that runs once, when the script is compiled ----

# Whether a `use` line or a BEGIN block has something that differs from request to request. Such a script has to be compiled for each
# request. Environment.pm finds what it reads of %ENV, also in subroutines that it calls.
sub looks_at_request {
    my ($text) = @_;
    my @parts = $text =~ /(?:^|(?<=[;{}]))[ \t]*(?:use|no)[ \t]+(?!vars\b|strict\b|warnings\b)([^;]*);/mg;
    while ($text =~ /(?:^|(?<=[;{}]))[ \t]*BEGIN[ \t\r\n]*\{/mg) {
        push @parts, block_at($text, pos($text) - 1);
    }
    for my $part (@parts) {
        return 1 if $part =~ /%ENV|STDIN|\b(?:time|localtime|gmtime|rand|param|print|printf)\b|\$\$/;
    }
    return 0;
}

# The text from an opening brace to its closing one. Braces in strings are counted, too: at worst the part is longer.
sub block_at {
    my ($text, $start) = @_;
    my $depth = 0;
    pos($text) = $start;
    while ($text =~ /([{}])/g) {
        $depth += $1 eq '{' ? 1 : -1;
        return substr $text, $start, pos($text) - $start if $depth == 0;
    }
    return substr $text, $start;
}

1;
