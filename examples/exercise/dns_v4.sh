#!/bin/sh
# The cost of looking up the names of clients, as measured for WASD v4.5 (1998): the first of its suggestions for performance was to switch it off.
# Starts two servers of its own, one of which asks a name server that never answers. The URL is not used.
. "$(dirname "$0")/functions.sh"

directory=$(mktemp -d)
servers=
insecure=
trap 'kill $servers 2>/dev/null || true; wait; rm -r "$directory"' EXIT
mkdir "$directory/htdocs"
: >"$directory/htdocs/0k.txt"
consent=
[ "$(id -u)" != 0 ] || consent=--allow-root

# server NAME KEYS: starts a server with these keys of [server]; sets URL.
server() {
    cat >"$directory/$1.toml" <<END
[[listen]]
address = "127.0.0.1:0"
[server]
$2
[log]
access = "$1.log"
[[site]]
root = "htdocs"
END
    mkfifo "$directory/$1.fifo"
    NO_COLOR=1 "$SLUICE" run $consent -c "$directory/$1.toml" 2>"$directory/$1.fifo" &
    servers="$servers $!"
    # It stays open until the next server starts, so that this one can write its log.
    exec 3<"$directory/$1.fifo"
    URL=
    while [ -z "$URL" ] && read -r line <&3; do
        case $line in
        *"listening on"*http://*)
            line=${line#*http://}
            URL=http://${line%%/*}
            ;;
        esac
    done
    [ -n "$URL" ] || { echo "the server does not start" >&2; exit 1; }
}

# row NAME SECONDS RATE
row() {
    measure 1 /0k.txt --no-keep-alive
    printf '%-12s %10s %12s %12s\n' "$1" "$2" "$3" "$rate"
}

title "Names of clients: an empty file, for $TIME in each row (published: 200 requests)"
printf '%-12s %10s %12s %12s\n' '' 'WASD, s' 'WASD, req/s' 'here, req/s'
server off 'dns_lookup = false'
row 'lookup off' 0.95 210
# Nobody answers on this address (RFC 5737).
server on 'dns_lookup = true
dns_server = "192.0.2.1"'
row 'lookup on' 6.30 32
echo "Here only scripts wait for a name, at most dns_timeout; files are sent at once."
