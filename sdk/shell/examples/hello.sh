#!/bin/sh
# hello: the smallest script. It runs as CGI and as CGIplus.
. "${SLUICE_SHELL:-/usr/local/lib/sluice/shell}/sluice.sh"

while sluice_accept; do
    sluice_uses
    sluice_respond 'text/plain; charset=utf-8'
    printf 'Hello, %s.\nThis process has answered %s request(s).\n' "$REMOTE_ADDR" "$REPLY"
done
