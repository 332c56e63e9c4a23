# The documentation is valid POD.
use strict;
use warnings;
use Test::More;
eval 'use Test::Pod 1.00; 1' or plan skip_all => 'needs Test::Pod';
all_pod_files_ok('lib');
