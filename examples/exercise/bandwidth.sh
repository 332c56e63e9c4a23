#!/bin/sh
# Bulk output of the script membufdemo by curl: the item "CGI/CGIplus/RTE Bandwidth" of the list info-WASD (2024), and the comment at the head of
# membufdemo.c (2017). Each table has the amount and the record size with which it was published; MIB is another amount for all of them.
. "$(dirname "$0")/functions.sh"

command -v curl >/dev/null || { echo "curl is needed" >&2; exit 1; }
has "/cgi-bin/membufdemo?1" || { echo "the server at $URL has no membufdemo: run \"make sdk\" and start the demo again" >&2; exit 1; }

# bandwidth MIB QUERY UNIT: the script's output in units of so many bytes a second, and a check that all of it has arrived.
bandwidth() {
    curl --silent --show-error --fail $insecure --output /dev/null --write-out '%{size_download} %{speed_download}\n' "$URL/cgi-bin/membufdemo?$1$2" |
        awk -v wanted="$(($1 * 1048576))" -v unit="$3" '
            $1 != wanted { print "failed"; exit 1 }
            { printf "%.0f\n", $2 / unit }'
}

# both MIB RECORD UNIT: measures both ways with records of so many bytes; sets mailbox and buffer.
both() {
    mailbox=$(bandwidth "$1" "+m+$2" "$3")
    buffer=$(bandwidth "$1" "+b+$2" "$3")
}

# ratio THERE: the proportion of the two ways, there and here.
ratio() {
    awk -v there="$1" -v mailbox="$mailbox" -v buffer="$buffer" 'BEGIN { printf "memory buffer / mailbox: %s, here %.2f\n", there, buffer / mailbox }'
}

if [ -z "$insecure" ]; then
    amount=${MIB:-1000}
    both "$amount" 65536 1048576
    title "Bandwidth of a script, $amount MiB in records of 65,536 (2024, i7-9700, OpenVMS in VirtualBox)"
    printf '%-26s %14s %12s %12s\n' MiB/s 'network 1 Gb/s' 'same host' here
    printf '%-26s %14s %12s %12s\n' 'WASD mailbox' 45.5 80.5 "$mailbox"
    printf '%-26s %14s %12s %12s\n' 'WASD memory buffer' 76.0 137 "$buffer"
    printf '%-26s %14s %12s %12s\n' 'Apache CGI' 17.2 - - 'Apache loadable module' 27.2 62.8 -
    ratio 1.70
    amount=${MIB:-250}
    both "$amount" 16384 1000000
    title "Bandwidth of a script, $amount MiB in records of 16,384 (2017, HP rx2660)"
    printf '%-26s %14s %12s\n' 'MB/s' 'same host' here
    printf '%-26s %14s %12s\n' 'mailbox' 20.5 "$mailbox" 'memory buffer' 105 "$buffer"
    ratio 5.12
else
    amount=${MIB:-250}
    both "$amount" 16384 1000000
    title "Bandwidth of a script over TLS, $amount MiB in records of 16,384 (2017, HP rx2660)"
    printf '%-26s %14s %12s\n' 'MB/s' 'same host' here
    printf '%-26s %14s %12s\n' 'mailbox' 14.5 "$mailbox" 'memory buffer' 16.6 "$buffer"
    ratio 1.14
fi

# The same bytes by both ways, as the comment in membufdemo.c advises.
one=$(curl --silent $insecure "$URL/cgi-bin/membufdemo?50" | cksum)
other=$(curl --silent $insecure "$URL/cgi-bin/membufdemo?50+b" | cksum)
[ "$one" = "$other" ] || { echo "mailbox and memory buffer deliver different bytes: $one, $other" >&2; exit 1; }
echo "50 MiB by both ways: the same bytes ($one)"
