#!/bin/sh
# The script cgiplustest without keep-alive, as measured for WASD v4.5 on an AlphaServer 2100 (1998). WASD's persistent subprocess, a command
# interpreter that survives its script, has no counterpart here.
. "$(dirname "$0")/functions.sh"

has "/cgi-bin/cgiplustest?0" || { echo "the server at $URL has no cgiplustest: run \"make sdk\" and start the demo again" >&2; exit 1; }

# row CONNECTIONS BYTES NAME CGI PERSISTENT CGIPLUS
row() {
    measure "$1" "/cgi-bin/cgiplustest?$2" --no-keep-alive
    cgi=$rate
    measure "$1" "/cgiplus-bin/cgiplustest?$2" --no-keep-alive
    printf 'c %-3s %-5s %8s %16s %8s %12s %14s\n' "$1" "$3" "$4" "$5" "$6" "$cgi" "$rate"
}

title "Scripts, a connection for each request"
printf '%-11s %8s %16s %8s %12s %14s\n' requests/s CGI 'CGI, persistent' CGIplus 'CGI here' 'CGIplus here'
row 1 0 0K 7.1 12.0 36.0
row 1 16384 16K 6.8 11.2 29.7
row 10 0 0K 9.7 19.1 43.0
row 10 16384 16K 7.2 12.9 22.6
echo "16K is the query ?16384 here, which counts bytes; there it was ?200, which counted lines of 80 characters."
