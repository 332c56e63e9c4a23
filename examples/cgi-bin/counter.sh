#!/bin/sh
# counter.sh: a CGIplus script in shell. The process stays, so it can count its requests.
set -eu

end=${CGIPLUSEOF:?is not set: this script runs as CGIplus}
uses=0
# A request on descriptor 3 (CGIPLUSIN): a line "!", the variables as NAME=value, an empty line.
# On end-of-file the script must exit.
while IFS= read -r start <&3; do
    [ "$start" = '!' ] || continue
    method='' address=''
    while IFS= read -r line <&3 || exit 0; do
        case $line in
            REQUEST_METHOD=*) method=${line#*=} ;;
            REMOTE_ADDR=*) address=${line#*=} ;;
            '') break ;;
        esac
    done
    uses=$((uses + 1))
    printf 'Content-Type: text/plain\n\n'
    printf 'Shell process %d, use %d: %s from %s\n' "$$" "$uses" "$method" "$address"
    echo "$end" # Ends the reply; the process continues.
done
