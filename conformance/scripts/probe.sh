#!/bin/sh
# The behaviours as a script in shell on the library: CGI and CGIplus by the same source. PATH_INFO names one.
. "$SLUICE_SDK/shell/sluice.sh"

text_head() { sluice_respond 'text/plain; charset=utf-8'; }

variables() {
    text_head
    for name in $HTTP_X_NAMES; do
        if sluice_variable "$name"; then
            printf '%s=%s\n' "$name" "$REPLY"
        else
            echo "$name is absent"
        fi
    done
}

fields() {
    sluice_header X-Twice one
    sluice_header X-Twice two
    sluice_header Set-Cookie a=1
    sluice_header Set-Cookie 'b=2; Path=/'
    text_head
    printf '%s\n%s\n' "$HTTP_X_TWICE" "$HTTP_COOKIE"
}

copy_body() {
    sluice_header X-Content-Length "${CONTENT_LENGTH:-0}"
    sluice_respond application/octet-stream
    sluice_body_read
}

to_and_fro() {
    text_head
    for number in 1 2; do
        got=$(sluice_body_read 65536 | wc -c)
        echo "part $number: $((got)) bytes"
    done
}

wait_at_gate() { IFS= read -r REPLY <"$PROBE_DIR/gate"; }

stream() {
    text_head
    echo first
    wait_at_gate
    echo "$REPLY"
}

events() {
    sluice_event 'one
two' first 1
    wait_at_gate
    sluice_event "$REPLY"
}

# A head of its own: sluice_redirect sends the client there.
local_redirect() { printf 'Location: /target.txt?from=script\n\n'; }

client_redirect() { sluice_redirect 'https://example.org/elsewhere?a=1'; }

document_redirect() {
    sluice_status 303
    sluice_header Location https://example.org/new
    text_head
    echo 'It is elsewhere.'
}

status() {
    sluice_status "$QUERY_STRING"
    text_head
    echo 'a document'
}

fail() {
    sluice_header X-Dropped yes
    sluice_fail "$QUERY_STRING" 'not now'
}

large_head() {
    value=$(printf '%0300d' 0)
    number=0
    while [ "$number" -lt "$HTTP_X_COUNT" ]; do
        sluice_header "X-Field-$number" "$value"
        number=$((number + 1))
    done
    text_head
    echo "${#HTTP_X_LARGE} ${#QUERY_STRING}"
}

empty() { text_head; }

no_content() {
    sluice_status 204
    sluice_respond
}

nothing() { :; }

nph() { printf 'HTTP/1.1 299 Its Own\r\nContent-Type: text/plain\r\nX-Nph: yes\r\n\r\nwith its own head\n'; }

short() {
    sluice_header Content-Length 100
    text_head
    echo short
}

die_before() { kill -9 $$; }

# Goes on when the client has got this.
half() {
    text_head
    echo half
    wait_at_gate
}

die_within() {
    half
    kill -9 $$
}

exit_before() { exit 3; }

exit_within() {
    text_head
    echo before
    exit 0
}

# A shell has no exceptions: the usual end of a script that cannot go on.
error_before() {
    echo "an error $QUERY_STRING" >&2
    exit 1
}

error_within() {
    half
    error_before
}

endless() { while :; do sleep 0.01; done; }

errors() {
    text_head
    printf '%s' $$
    echo "a line $QUERY_STRING" >&2
}

process() {
    text_head
    printf '%s' $$
}

directory() {
    text_head
    pwd
    echo "$arguments arguments"
}

look() {
    text_head
    for name in REQUEST_METHOD QUERY_STRING CONTENT_LENGTH CONTENT_TYPE HTTP_X_LEFT HTTP_COOKIE; do
        sluice_variable "$name" None || :
        printf '%s=%s\n' "$name" "$REPLY"
    done
    sluice_parameter_count
    echo "parameters: $REPLY"
}

leave() {
    sluice_status 404
    sluice_header X-Left here
    text_head
    echo left
}

# A write that fails ends a shell loop only if the loop checks it.
bulk() {
    text_head
    echo $$
    while head -c 65536 /dev/zero; do :; done
    exit 0
}

silent() {
    text_head
    echo $$
    wait_at_gate
    echo "$REPLY"
}

form() {
    # 1: there is none; 2: the form could not be read.
    sluice_parameters a 0 || [ $? -eq 1 ] || exit 5
    text_head
    for name in a b c; do
        values='' index=0
        while sluice_parameters "$name" "$index"; do
            values="$values${values:+|}$REPLY"
            index=$((index + 1))
        done
        printf '%s: %s\n' "$name" "$values"
    done
    sluice_parameter a
    first=$REPLY
    sluice_parameter missing absent || :
    echo "$first $REPLY"
}

upload() {
    text_head
    for name in f g; do
        sluice_upload "$name"
        printf '%s|%s|%s|%s\n' "$SLUICE_UPLOAD_NAME" "$SLUICE_UPLOAD_FILE_NAME" "$SLUICE_UPLOAD_TYPE" "$SLUICE_UPLOAD_BYTES"
    done
    cat "$SLUICE_UPLOAD_PATH"
}

form_limit() {
    if sluice_parameter_count; then text_head; else sluice_fail; fi
}

quoted() {
    text_head
    sluice_parameter 'a"b'
    printf '%s\n' "$REPLY"
    sluice_upload 'f"g'
    printf '%s\n' "$SLUICE_UPLOAD_FILE_NAME"
}

loop() {
    text_head
    sluice_uses
    if sluice_is_persistent; then echo "$$ yes $REPLY"; else echo "$$ no $REPLY"; fi
}

coding() {
    text="<a href=\"x\">'&amp;ü</a> 100%"
    text_head
    sluice_escape_html "$text"
    printf '%s\n' "$REPLY"
    sluice_url_encode "$text"
    printf '%s\n' "$REPLY"
    sluice_url_decode '%3Ca%3E+%C3%BC+%zz%'
    printf '%s\n' "$REPLY"
}

callouts() {
    text_head
    for request in 'MAP-PATH: /file.txt' 'MAP-FILE: /etc/passwd' 'NONSENSE: x' 'LIFETIME: 1h' 'NOOP:'; do
        sluice_callout "$request" || :
        printf '%s %s\n' "$SLUICE_CODE" "$REPLY"
    done
    sluice_notice "a notice $QUERY_STRING"
}

# The block of the bulk output with this number.
block() {
    letters=abcdefghijklmnopqrstuvwxyz
    letter=$(printf '%s' "$letters" | head -c $(($1 % 26 + 1)) | tail -c 1)
    head -c 65536 /dev/zero | tr '\0' "$letter"
}

ask() {
    if sluice_callout "$1"; then return; fi
    echo "$1: $SLUICE_CODE $REPLY" >&2
    exit 4
}

buffer_plain() {
    blocks=$QUERY_STRING number=0
    ask 'BUFFER-BEGIN: 128k'
    text_head
    while [ "$number" -lt "$blocks" ]; do
        half_of_buffer=$((number % 2))
        block "$number" | dd of=/dev/fd/4 bs=65536 iflag=fullblock seek=$half_of_buffer conv=notrunc status=none
        ask "BUFFER-WRITE: 65536 $((half_of_buffer * 65536))"
        number=$((number + 1))
    done
    sluice_callout BUFFER-END:
}

blocks() {
    number=0
    while [ "$number" -lt "$1" ]; do
        block "$number"
        number=$((number + 1))
    done
}

buffer() {
    sluice_buffer_begin 1048576 || exit 5
    text_head
    # A shell does not notice that the left side of a pipe has failed, for instance because it could not fork.
    (
        is_done='' && set -e && trap '[ "$is_done" ] || kill -9 $$' EXIT
        blocks "$QUERY_STRING"
        is_done=1
    ) | sluice_buffer_write || exit 5
    sluice_buffer_end
}

buffer_gone() {
    sluice_buffer_begin 1048576
    text_head
    while sluice_buffer_write </dev/zero; do :; done
    echo "gone: $SLUICE_CODE $REPLY" >"$PROBE_DIR/event"
}

arguments=$#
while sluice_accept; do
    name=${PATH_INFO#/}
    case ${name%%/*} in
    echo) copy_body ;;
    to-and-fro) to_and_fro ;;
    local-redirect) local_redirect ;;
    client-redirect) client_redirect ;;
    document-redirect) document_redirect ;;
    large-head) large_head ;;
    no-content) no_content ;;
    die-before) die_before ;;
    die-within) die_within ;;
    exit-before) exit_before ;;
    exit-within) exit_within ;;
    error-before) error_before ;;
    error-within) error_within ;;
    form-limit) form_limit ;;
    buffer-plain) buffer_plain ;;
    buffer-gone) buffer_gone ;;
    variables | fields | stream | events | status | fail | empty | nothing | nph | short | endless | errors | process | directory | look | leave | \
        bulk | silent | form | upload | quoted | loop | coding | callouts | buffer) ${name%%/*} ;;
    esac
    sluice_finish
done
