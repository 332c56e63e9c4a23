#!/bin/sh
# events: server-sent events: ?count=N times (10 without it) the time, one each second (?pause=SECONDS), as new EventSource("…") reads them. A
# client that connects again continues after the last event that it has seen.
. "${SLUICE_SHELL:-/usr/local/lib/sluice/shell}/sluice.sh"

# Sets REPLY to $1 if it is a small number, otherwise to $2. A client may send anything.
number() {
    case $1 in '' | *[!0-9]* | 0?* | ?????*) REPLY=$2 ;; *) REPLY=$1 ;; esac
}

while sluice_accept; do
    sluice_variable HTTP_LAST_EVENT_ID 0 || :
    number "$REPLY" 0
    id=$REPLY
    sluice_parameter count 10 || :
    number "$REPLY" 10
    last=$((id + REPLY))
    sluice_parameter pause 1 || :
    number "$REPLY" 1
    pause=$REPLY
    while [ "$id" -lt "$last" ]; do
        id=$((id + 1))
        sluice_event "$(date +%T)" tick "$id" || exit
        sleep "$pause"
    done
done
