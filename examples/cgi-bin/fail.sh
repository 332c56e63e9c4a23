#!/bin/sh
# fail.sh: a script that fails: without a reply, or with ?late in the middle of its reply.
set -eu

if [ "${QUERY_STRING-}" = late ]; then
    printf 'Content-Type: text/plain\nContent-Length: 1000\n\nThis is the beginning of a reply\n'
    sleep 1
fi
echo 'the disk is full' >&2 # Standard error goes to the server log.
exit 3
