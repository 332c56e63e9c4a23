#!/bin/sh
# printenv.sh: a CGI script in shell. Prints its environment, sorted.
set -eu

printf 'Content-Type: text/plain\n\n'
env | LC_ALL=C sort
