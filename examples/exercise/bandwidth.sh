#!/bin/sh
# Bulk output of the script membufdemo by curl: the item "CGI/CGIplus/RTE Bandwidth" of the list info-WASD (2024), and the comment at the head of
# membufdemo.c (2017). MIB is the amount (default: 1000).
. "$(dirname "$0")/functions.sh"

command -v curl >/dev/null || { echo "curl is needed" >&2; exit 1; }
has "/cgi-bin/membufdemo?1" || { echo "the server at $URL has no membufdemo: run \"make sdk\" and start the demo again" >&2; exit 1; }
MIB=${MIB:-1000}

# bandwidth QUERY: MiB/s of the script's output, and a check that all of it has arrived.
bandwidth() {
    curl --silent --show-error --fail $insecure --output /dev/null --write-out '%{size_download} %{speed_download}\n' "$URL/cgi-bin/membufdemo?$1" |
        awk -v wanted="$((MIB * 1048576))" '
            $1 != wanted { print "failed"; exit 1 }
            { printf "%.0f\n", $2 / 1048576 }'
}

mailbox=$(bandwidth "$MIB")
buffer=$(bandwidth "$MIB+b")
if [ -z "$insecure" ]; then
    title "Bandwidth of a script, 1000 MiB (2024, i7-9700, OpenVMS in VirtualBox)"
    printf '%-26s %14s %12s %12s\n' MiB/s 'network 1 Gb/s' 'same host' here
    printf '%-26s %14s %12s %12s\n' 'WASD mailbox' 45.5 80.5 "$mailbox"
    printf '%-26s %14s %12s %12s\n' 'WASD memory buffer' 76.0 137 "$buffer"
    printf '%-26s %14s %12s %12s\n' 'Apache CGI' 17.2 - - 'Apache loadable module' 27.2 62.8 -
    title "Bandwidth of a script, 250 MiB (2017, HP rx2660)"
    printf '%-26s %14s %12s\n' 'MB/s' 'same host' here
    printf '%-26s %14s %12s\n' 'mailbox' 20.5 "$mailbox" 'memory buffer' 105 "$buffer"
else
    title "Bandwidth of a script over TLS, 250 MiB (2017, HP rx2660)"
    printf '%-26s %14s %12s\n' 'MB/s' 'same host' here
    printf '%-26s %14s %12s\n' 'mailbox' 14.5 "$mailbox" 'memory buffer' 16.6 "$buffer"
fi
awk -v mailbox="$mailbox" -v buffer="$buffer" 'BEGIN { printf "memory buffer / mailbox, here: %.2f\n", buffer / mailbox }'

# The same bytes by both ways, as the comment in membufdemo.c advises.
one=$(curl --silent $insecure "$URL/cgi-bin/membufdemo?50" | cksum)
other=$(curl --silent $insecure "$URL/cgi-bin/membufdemo?50+b" | cksum)
[ "$one" = "$other" ] || { echo "mailbox and memory buffer deliver different bytes: $one, $other" >&2; exit 1; }
echo "50 MiB by both ways: the same bytes ($one)"
