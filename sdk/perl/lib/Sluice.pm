package Sluice;
use strict;
our $VERSION = "0.1";
1;
