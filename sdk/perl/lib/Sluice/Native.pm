# Sluice::Native: loads the native part (Sluice.xs). Whoever uses it does so in an eval, because it may not be built.
package Sluice::Native;
use strict;
use warnings;
our $VERSION = '0.1';

require DynaLoader;
our @ISA = ();
{
    # The library is named after the distribution: auto/Sluice/Sluice.so.
    local @Sluice::ISA = ('DynaLoader');
    DynaLoader::bootstrap('Sluice', $VERSION);
}

1;
