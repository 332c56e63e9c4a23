#!/bin/sh
# clock.sh: a line a second. The server passes on what there is whenever the script pauses.
set -eu

# "nosniff" keeps browsers from holding the first lines back to guess what they are.
printf 'Content-Type: text/plain\nX-Content-Type-Options: nosniff\n\n'
for line in 1 2 3 4 5; do
    [ "$line" = 1 ] || sleep 1
    printf 'line %d of 5 at %s\n' "$line" "$(date +%H:%M:%S)"
done
