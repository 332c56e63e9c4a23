#!/bin/sh
# counter: keeps a number in memory, which needs CGIplus: as CGI each request has a process of its own and gets 1.
. "${SLUICE_SHELL:-/usr/local/lib/sluice/shell}/sluice.sh"

count=0
while sluice_accept; do
    count=$((count + 1))
    sluice_header Cache-Control no-store
    sluice_respond 'text/plain; charset=utf-8'
    echo "$count"
done
