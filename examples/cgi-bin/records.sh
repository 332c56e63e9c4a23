#!/bin/sh
# records.sh: four writes, none with a newline at its end. In a record mailbox each is a line of its own.
set -eu

printf 'Content-Type: text/plain\n\n'
for record in one two three four; do
    printf 'record %s' "$record"
done
