# Functions of the exercises. Each exercise prints a table that was published for WASD, with what this machine measures beside it.
#
#   sh NAME.sh [URL]      the demo's address; http://127.0.0.1:8080 by default. https:// measures TLS, with any certificate.
#
# Environment: SLUICE, the program (default: the one of this source tree, or sluice in PATH); TIME, for each cell (default: 2s).
set -eu

URL=${1:-http://127.0.0.1:8080}
URL=${URL%/}
TIME=${TIME:-2s}
here=$(dirname "$0")
if [ -z "${SLUICE:-}" ]; then
    SLUICE=sluice
    [ ! -x "$here/../../target/release/sluice" ] || SLUICE=$here/../../target/release/sluice
fi
command -v "$SLUICE" >/dev/null || { echo "no program $SLUICE: set SLUICE to where it is" >&2; exit 1; }
case $URL in
https://*) insecure=--insecure ;;
*) insecure= ;;
esac

# measure CONNECTIONS PATH [OPTION…]: sets rate (requests/s) and megabytes (MB/s of bodies). Ends the script if a reply is wrong.
measure() {
    connections=$1 path=$2
    shift 2
    report=$("$SLUICE" workout "$URL/" --path "$path" -c "$connections" -d "$TIME" $insecure "$@") || {
        printf '%s\n' "$report" >&2
        exit 1
    }
    rate=$(printf '%s\n' "$report" | awk '$1 == "rate" { gsub(",", ""); print $2 }')
    megabytes=$(printf '%s\n' "$report" | awk '$1 == "rate" { gsub(",", ""); print $4 }')
}

# title TEXT: the head of a table.
title() {
    printf '\n%s\n' "$1"
}

# has PATH: whether the server answers a path with 200.
has() {
    "$SLUICE" workout "$URL/" --path "$1" -c 1 -n 1 $insecure >/dev/null 2>&1
}
