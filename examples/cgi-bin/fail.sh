#!/bin/sh
# fail.sh: a script that fails. At once it gives no reply at all; with ?late it dies in the middle of one.
set -eu

if [ "${QUERY_STRING-}" = late ]; then
    printf 'Content-Type: text/plain\nContent-Length: 1000\n\nThis is the beginning of a reply\n'
    sleep 1
fi
echo 'the disk is full' >&2 # Standard error is the log.
exit 3
