#!/bin/sh
# Small files, as measured for WASD v12.1 on OpenVMS x86-64 with h2load: PERF_FILES_1210.TXT.
. "$(dirname "$0")/functions.sh"

# row CONNECTIONS FILE WASD APACHE [OPTION…]
row() {
    connections=$1 file=$2 wasd=$3 apache=$4
    shift 4
    measure "$connections" "/exercise/$file.txt" "$@"
    printf 'c %-3s %-4s %10s %10s %12s %12s\n' "$connections" "$file" "$wasd" "$apache" "$rate" "$megabytes"
}

heads() {
    printf '%-10s %10s %10s %12s %12s\n' requests/s WASD Apache here 'MB/s here'
}

if [ -z "$insecure" ]; then
    title "Small files, HTTP/1.1 in clear text"
    heads
    row 1 0k 1409 104
    row 1 64k 124 78
    row 10 0k 2050 125
    row 10 64k 290 80
    echo "(Published as 205, 12.5, 29 and 8 for ten connections, which contradicts the data rates beside them.)"
else
    title "Small files, HTTP/1.1 over TLS"
    heads
    row 1 0k 869 91
    row 1 64k 116 59
    row 10 0k 606 135
    row 10 64k 97 79
    title "Small files, HTTP/2 over TLS"
    heads
    row 1 0k 496 - --http2
    row 1 64k 107 - --http2
    row 10 0k 437 - --http2
    row 10 64k 90 - --http2
fi
