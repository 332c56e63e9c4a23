#!/bin/sh
# Small files without keep-alive, with the file cache and without, as measured for WASD v4.5 on an AlphaServer 2100 (1998).
. "$(dirname "$0")/functions.sh"

# row FILE CONNECTIONS SECONDS-OFF RATE-OFF SECONDS-ON RATE-ON
row() {
    measure "$2" "/uncached/$1.txt" --no-keep-alive
    off=$rate
    measure "$2" "/exercise/$1.txt" --no-keep-alive
    printf '%-4s c %-3s %10s %10s %10s %10s %12s %12s\n' "$1" "$2" "$3" "$4" "$5" "$6" "$off" "$rate"
}

title "Small files, a connection for each request, for $TIME in each row (published: 200 requests)"
printf '%-10s %21s %21s\n' '' 'WASD, cache off' 'WASD, cache on'
printf '%-10s %10s %10s %10s %10s %12s %12s\n' '' seconds requests/s seconds requests/s 'off, here' 'on, here'
row 0k 1 2.30 87 0.95 210
row 0k 10 1.95 103 0.75 266
row 16k 1 3.45 58 1.95 103
row 16k 10 2.95 68 1.75 114
row 64k 1 7.68 26 4.95 40
row 64k 10 5.98 33 4.83 41
