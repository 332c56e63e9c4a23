#!/bin/sh
# clock.sh: prints a line every second. The server sends the output whenever the script pauses.
set -eu

# Without "nosniff", browsers delay the first lines in order to guess the media type.
printf 'Content-Type: text/plain\nX-Content-Type-Options: nosniff\n\n'
for line in 1 2 3 4 5; do
    [ "$line" = 1 ] || sleep 1
    printf 'line %d of 5 at %s\n' "$line" "$(date +%H:%M:%S)"
done
