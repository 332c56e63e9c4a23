#!/bin/sh
# The script cgiplustest, as CGI and as CGIplus, as measured for WASD v12.1 with h2load: PERF_SCRIPTS_1210.TXT.
. "$(dirname "$0")/functions.sh"

has "/cgi-bin/cgiplustest?0" || { echo "the server at $URL has no cgiplustest: run \"make sdk\" and start the demo again" >&2; exit 1; }

# row CONNECTIONS BYTES NAME WASD-CGI WASD-CGIPLUS APACHE-CGI APACHE-MODULE
row() {
    measure "$1" "/cgi-bin/cgiplustest?$2"
    cgi=$rate
    measure "$1" "/cgiplus-bin/cgiplustest?$2"
    printf 'c %-3s %-5s %9s %12s %11s %14s %10s %12s\n' "$1" "$3" "$4" "$5" "$6" "$7" "$cgi" "$rate"
}

title "Scripts"
printf '%-11s %9s %12s %11s %14s %10s %12s\n' requests/s 'WASD CGI' 'WASD CGIplus' 'Apache CGI' 'Apache module' 'CGI here' 'CGIplus here'
row 1 0 0kB 19 143 7 77
row 1 65536 64kB 12 18 6 45
row 10 0 0kB 28 337 10 51
row 10 65536 64kB 22 65 9 73
