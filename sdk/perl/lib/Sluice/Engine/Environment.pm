# Sluice::Engine::Environment: what a script does with %ENV while it is compiled (`use constant USER => $ENV{REMOTE_USER}`).
#
# Code that runs then runs once for a script that is kept. If it has read a variable that differs from request to request, the script is
# compiled for each request. What it has set is set again for each request.
package Sluice::Engine::Environment;
use strict;
use warnings;

# The same for all requests of a script.
my $STABLE = qr/^(?:DOCUMENT_ROOT|SCRIPT_FILENAME|SCRIPT_NAME|SCRIPT_RTE|SERVER_(?:SOFTWARE|ADMIN|SIGNATURE)|GATEWAY_INTERFACE|CGIPLUS\w+)\z/;
# Differs, although this request may not have it.
my $DIFFERS = qr/^(?:(?:HTTP|SSL|REMOTE|REQUEST|REDIRECT|AUTH|CONTENT|CERT|PATH|QUERY|SERVER|FORM|KEY)_|WWW_(?!GATEWAY_)|(?:HTTPS|UNIQUE_ID)\z)/;

# Watches %ENV until stop() is called or the object is gone. `$base` has the variables of the process.
sub watch {
    my ($class, $base) = @_;
    my $state = bless {base => $base, values => {%ENV}, before => {%ENV}, has_read => 0}, 'Sluice::Engine::Environment::Tied';
    tie %ENV, 'Sluice::Engine::Environment::Tied', $state;
    return bless {state => $state}, $class;
}

# Whether a variable of the request was read; and the variables that were changed: undef for one that was deleted.
sub stop {
    my ($self) = @_;
    my $state = delete $self->{state} or return;
    no warnings 'untie';
    untie %ENV;
    my ($before, $values) = @$state{qw(before values)};
    my %changed;
    for my $name (keys %$before, keys %$values) {
        my ($old, $new) = ($before->{$name}, $values->{$name});
        $changed{$name} = $new if defined $old ? !defined $new || $old ne $new : defined $new;
    }
    return ($state->{has_read}, \%changed);
}

sub DESTROY { $_[0]->stop }

sub differs {
    my ($name, $state) = @_;
    return 0 if $name =~ $STABLE;
    return 1 if $name =~ $DIFFERS;
    return exists $state->{before}{$name} && !exists $state->{base}{$name};
}

# Sets what the compilation has set.
sub apply {
    my ($changed) = @_;
    for my $name (keys %$changed) {
        if (defined $changed->{$name}) { $ENV{$name} = $changed->{$name} }
        else                           { delete $ENV{$name} }
    }
}

package Sluice::Engine::Environment::Tied;

sub TIEHASH { return $_[1] }

sub note {
    my ($self, $name) = @_;
    $self->{has_read} ||= Sluice::Engine::Environment::differs($name, $self);
}

sub FETCH    { my ($self, $name) = @_; $self->note($name); return $self->{values}{$name} }
sub EXISTS   { my ($self, $name) = @_; $self->note($name); return exists $self->{values}{$name} }
sub SCALAR   { return scalar %{ $_[0]{values} } }
sub NEXTKEY  { return each %{ $_[0]{values} } }
sub FIRSTKEY {
    my ($self) = @_;
    $self->{has_read} = 1;
    keys %{ $self->{values} };
    return each %{ $self->{values} };
}

sub STORE {
    my ($self, $name, $value) = @_;
    $value = '' unless defined $value;
    $self->{values}{$name} = "$value";
    $self->change(sub { $ENV{$name} = $value });
}

sub DELETE {
    my ($self, $name) = @_;
    $self->change(sub { delete $ENV{$name} });
    return delete $self->{values}{$name};
}

sub CLEAR {
    my ($self) = @_;
    %{ $self->{values} } = ();
    $self->change(sub { %ENV = () });
}

# The variables themselves, which children inherit.
sub change {
    my ($self, $code) = @_;
    no warnings 'untie';
    untie %ENV;
    $code->();
    tie %ENV, __PACKAGE__, $self;
}

1;
