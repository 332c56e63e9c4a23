#!/bin/sh
# form: shows a form, and what was sent with it: fields and any number of files.
. "${SLUICE_SHELL:-/usr/local/lib/sluice/shell}/sluice.sh"

show_form() {
    sluice_respond
    printf '%s\n' '<!DOCTYPE html>' '<title>Form</title>' '<form method="post" enctype="multipart/form-data">' \
        '<p><label>Name <input name="name"></label>' '<p><label>Note <textarea name="note"></textarea></label>' \
        '<p><label>Files <input type="file" name="file" multiple></label>' '<p><button>Send</button>' '</form>'
}

# Everything that a client has sent is escaped, and quoted in the shell.
show_answers() {
    sluice_respond
    printf '<!DOCTYPE html>\n<title>Sent</title>\n<dl>\n'
    index=0
    while sluice_parameter_at "$index"; do
        sluice_escape_html "$SLUICE_NAME=$REPLY"
        printf '<dt>%s\n' "$REPLY"
        index=$((index + 1))
    done
    index=0
    while sluice_uploads file "$index"; do
        sum=$(cksum <"$SLUICE_UPLOAD_PATH")
        sluice_escape_html "$SLUICE_UPLOAD_FILE_NAME: $SLUICE_UPLOAD_BYTES bytes of $SLUICE_UPLOAD_TYPE, checksum ${sum%% *}"
        printf '<dt>%s\n' "$REPLY"
        index=$((index + 1))
    done
    echo '</dl>'
}

sluice_upload_limit 104857600
while sluice_accept; do
    if [ "$REQUEST_METHOD" != POST ]; then
        show_form
    elif sluice_parameter_count; then
        show_answers
    else
        sluice_fail '' 'The form could not be read.' # 413 if it is too large, 400 if it is malformed
    fi
done
