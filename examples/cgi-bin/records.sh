#!/bin/sh
# records.sh: four writes without newlines. In a record mailbox each becomes a line.
set -eu

printf 'Content-Type: text/plain\n\n'
for record in one two three four; do
    printf 'record %s' "$record"
done
