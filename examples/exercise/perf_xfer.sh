#!/bin/sh
# Transfer of a file of 5.69 MB (11673 blocks of 512 bytes), as measured for WASD v12.1 with h2load: PERF_XFER_1210.TXT.
. "$(dirname "$0")/functions.sh"

# row PROTOCOL CONNECTIONS WASD APACHE [OPTION…]
row() {
    protocol=$1 connections=$2 wasd=$3 apache=$4
    shift 4
    measure "$connections" /exercise/5.69MB.bin "$@"
    printf '%-9s c %-3s %10s %10s %12s\n' "$protocol" "$connections" "$wasd" "$apache" "$megabytes"
}

title "Transfer of 5.69 MB"
printf '%-15s %10s %10s %12s\n' MB/s WASD Apache here
if [ -z "$insecure" ]; then
    row clear 1 33.71 20.54
    row clear 10 35.51 32.61
else
    row TLS 1 11.03 9.16
    row TLS 10 11.82 12.25
    row HTTP/2 1 11.93 - --http2
    row HTTP/2 10 12.00 - --http2
fi
