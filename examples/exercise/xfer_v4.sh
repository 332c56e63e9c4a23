#!/bin/sh
# Transfer of files of 2 and 7 MB (4123 and 14852 blocks of 512 bytes), as measured for WASD v4.2 (1997).
. "$(dirname "$0")/functions.sh"

# row FILE CONNECTIONS SECONDS KB/S
row() {
    measure "$2" "/exercise/$1.bin" --no-keep-alive
    printf '%-4s c %-3s %10s %10s %12s\n' "$1" "$2" "$3" "$4" "$(awk -v megabytes="$megabytes" 'BEGIN { printf "%.0f", megabytes * 1000 }')"
}

title "Transfer: a connection for each request, for $TIME in each row (published: 10 requests)"
printf '%-10s %10s %10s %12s\n' '' 'WASD, s' 'WASD, KB/s' 'here, KB/s'
row 2MB 1 8 2570
row 2MB 10 16 1336
row 7MB 1 59 1278
row 7MB 10 62 1224
