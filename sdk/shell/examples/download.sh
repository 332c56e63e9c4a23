#!/bin/sh
# download: sends ?mb=N megabytes (64 without it) by the memory buffer, or by the mailbox where there is no buffer.
. "${SLUICE_SHELL:-/usr/local/lib/sluice/shell}/sluice.sh"

while sluice_accept; do
    sluice_parameter mb 64 || :
    case $REPLY in
    *[!0-9]* | 0?* | ??????* | '')
        sluice_fail 400 'mb is a number from 0 to 99999.'
        continue
        ;;
    esac
    megabytes=$REPLY
    # Before the head: the server may refuse, and the script can still choose.
    if sluice_buffer_begin 4194304; then buffer=yes; else buffer=no; fi
    sluice_header Content-Length $((megabytes * 1048576))
    sluice_header Content-Disposition 'attachment; filename="download.bin"'
    sluice_header X-Buffer "$buffer"
    sluice_respond application/octet-stream
    if [ "$buffer" = yes ]; then
        head -c "${megabytes}M" /dev/zero | sluice_buffer_write && sluice_buffer_end
    else
        head -c "${megabytes}M" /dev/zero
    fi
done
