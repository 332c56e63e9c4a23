# sluice.sh: the library for scripts in POSIX sh (dash, bash): CGI, CGIplus, forms, callouts and the memory buffer.
#
#     . /usr/local/lib/sluice/shell/sluice.sh
#     while sluice_accept; do
#         sluice_parameter name nobody
#         sluice_escape_html "$REPLY"
#         sluice_respond 'text/html; charset=utf-8'
#         printf '<p>Hello, %s.\n' "$REPLY"
#     done
#
# Results are in REPLY. A function returns 0 if it succeeds, and may be used under `set -eu`. Names that begin with _sluice_ are its own.
# Text of clients is only ever assigned, compared and printed: `eval` sees names that this file has made or checked, and nothing else.
#
# Not here: multipart bodies and long ones, which the program sluice-form reads (sluice-form.c).

if [ -z "${_sluice_loaded-}" ]; then
_sluice_loaded=1
# The directory of sluice-form; `make install` sets the installed one.
: "${SLUICE_SHELL:=/usr/local/lib/sluice/shell}"
_sluice_final=${CGIPLUSEOF-}
_sluice_escape=${CGIPLUSESC-${WWW_GATEWAY_ESC-}}
_sluice_close=${CGIPLUSEOT-${WWW_GATEWAY_EOT-}}
# A script that this one starts must not take itself for CGIplus.
unset CGIPLUSEOF
_sluice_uses=0 _sluice_open= _sluice_names= _sluice_reaper= _sluice_upload_bytes=1073741824
_sluice_newline='
'
_sluice_cr=$(printf '\r') _sluice_separator=$(printf '\036')
_sluice_letters=ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz
_sluice_all= # all bytes from 1 to 255, when they are needed
# A body up to this size is decoded here, a larger one by sluice-form: the shell needs quadratic time.
_SLUICE_TEXT_MAX=65536
_SLUICE_FIELDS_MAX=1000
fi

# ---- Splitting: a list without globbing, whatever IFS and options the script has ----

_sluice_split() {
    _sluice_ifs=${IFS-} _sluice_has_ifs=${IFS+x}
    case $- in *f*) _sluice_glob= ;; *) _sluice_glob=x ;; esac
    set -f
    IFS=$1
}

_sluice_unsplit() {
    if [ -n "$_sluice_has_ifs" ]; then IFS=$_sluice_ifs; else unset IFS; fi
    if [ -n "$_sluice_glob" ]; then set +f; fi
}

# Whether a text is the name of a shell variable. The letters are listed because a range depends on the locale.
_sluice_is_name() {
    case $1 in
    '' | [0123456789]* | *[!"$_sluice_letters"0123456789_]*) return 1 ;;
    esac
}

# Whether a text is a number without sign and leading zeros, which the shell can compute with.
_sluice_is_number() {
    case $1 in
    '' | *[!0123456789]* | 0?* | ????????????????*) return 1 ;;
    esac
}

# ---- Requests ----

sluice_is_persistent() { [ -n "$_sluice_final" ]; }

sluice_uses() { REPLY=$_sluice_uses; }

# Waits for the next request, and finishes the one before. Its variables are in the environment, as under CGI. 1: there is none.
sluice_accept() {
    if [ -n "$_sluice_open" ]; then sluice_finish; fi
    if [ -z "$_sluice_final" ]; then
        if [ "$_sluice_uses" -gt 0 ]; then return 1; fi
    else
        _sluice_read_request || return 1
    fi
    _sluice_uses=$((_sluice_uses + 1)) _sluice_open=1
    _sluice_status= _sluice_fields= _sluice_type= _sluice_is_headed= _sluice_count= _sluice_upload_count=0
    _sluice_body_left=${CONTENT_LENGTH-0} SLUICE_ERROR=
    _sluice_is_number "$_sluice_body_left" || _sluice_body_left=0
}

_sluice_read_request() {
    _sluice_split ' '
    for _sluice_name in $_sluice_names; do unset "$_sluice_name"; done
    _sluice_unsplit
    _sluice_names=
    # Lines before the record are answers that nobody has read.
    _sluice_line=
    while [ "$_sluice_line" != '!' ]; do IFS= read -r _sluice_line <&3 || return 1; done
    while IFS= read -r _sluice_line <&3; do
        if [ -z "$_sluice_line" ]; then return 0; fi
        _sluice_name=${_sluice_line%%=*}
        _sluice_is_name "$_sluice_name" || continue
        # Names with a meaning for the shell or the loader. The server sends none of them.
        case $_sluice_name in
        IFS | PATH | ENV | HOME | CDPATH | PPID | UID | EUID | PS[1-4] | OPTIND | REPLY | BASH* | SHELLOPTS | LD_* | SLUICE_* | _*) continue ;;
        esac
        export "$_sluice_name=${_sluice_line#*=}"
        _sluice_names="$_sluice_names $_sluice_name"
    done
    return 1
}

# Ends the response, and removes the uploads.
sluice_finish() {
    if [ -z "$_sluice_open" ]; then return 0; fi
    _sluice_open=
    _sluice_begin_body
    if [ -n "$_sluice_reaper" ]; then kill "$_sluice_reaper" 2>/dev/null || :; fi
    _sluice_reaper=
    if [ -n "$_sluice_final" ]; then printf '%s\n' "$_sluice_final"; fi
}

# ---- Variables and the body ----

# sluice_variable NAME [DEFAULT]: 1 if there is none.
sluice_variable() {
    REPLY=${2-}
    _sluice_is_name "$1" || return 1
    eval "_sluice_has=\${$1+x}"
    if [ -z "$_sluice_has" ]; then return 1; fi
    eval "REPLY=\$$1"
}

# sluice_body_read [BYTES]: copies the body, or its next bytes, to standard output.
sluice_body_read() {
    _sluice_wanted=$_sluice_body_left
    if [ $# -gt 0 ] && _sluice_is_number "$1" && [ "$1" -lt "$_sluice_wanted" ]; then _sluice_wanted=$1; fi
    _sluice_body_left=$((_sluice_body_left - _sluice_wanted))
    if [ "$_sluice_wanted" -gt 0 ]; then head -c "$_sluice_wanted"; fi
}

# ---- Coding ----

_sluice_prepare_bytes() {
    if [ -n "$_sluice_all" ]; then return; fi
    _sluice_octal= _sluice_number=1
    while [ "$_sluice_number" -lt 256 ]; do
        _sluice_octal="$_sluice_octal\\$((_sluice_number / 64))$((_sluice_number / 8 % 8))$((_sluice_number % 8))"
        _sluice_number=$((_sluice_number + 1))
    done
    _sluice_all=$(printf "$_sluice_octal") # its last byte is 255, so no newline is lost
    if [ -n "${BASH_VERSION-}" ]; then return; fi
    # dash has no printf -v: one variable for each byte, _sluice_byte_41=A.
    _sluice_rest=$_sluice_all
    for _sluice_high in 0 1 2 3 4 5 6 7 8 9 A B C D E F; do
        for _sluice_low in 0 1 2 3 4 5 6 7 8 9 A B C D E F; do
            if [ "$_sluice_high$_sluice_low" = 00 ]; then continue; fi
            _sluice_tail=${_sluice_rest#?}
            eval "_sluice_byte_$_sluice_high$_sluice_low=\${_sluice_rest%\"\$_sluice_tail\"}"
            _sluice_rest=$_sluice_tail
        done
    done
}

# The byte of two hexadecimal digits, in _sluice_byte; 1 if they are none, or 00, which a shell cannot store.
_sluice_byte_of() {
    case $1 in
    00 | [!0123456789ABCDEFabcdef]* | ?[!0123456789ABCDEFabcdef]) return 1 ;;
    ??) ;;
    *) return 1 ;;
    esac
    if [ -n "${BASH_VERSION-}" ]; then
        printf -v _sluice_byte "\\x$1"
        return
    fi
    _sluice_high=${1%?} _sluice_low=${1#?}
    case $_sluice_high in a) _sluice_high=A ;; b) _sluice_high=B ;; c) _sluice_high=C ;; d) _sluice_high=D ;; e) _sluice_high=E ;; f) _sluice_high=F ;; esac
    case $_sluice_low in a) _sluice_low=A ;; b) _sluice_low=B ;; c) _sluice_low=C ;; d) _sluice_low=D ;; e) _sluice_low=E ;; f) _sluice_low=F ;; esac
    eval "_sluice_byte=\$_sluice_byte_$_sluice_high$_sluice_low"
}

# sluice_url_decode TEXT: %XX decoded, + as a blank. %00 stays as it is.
sluice_url_decode() {
    REPLY= _sluice_text=$1
    case $1 in *[+%]*) ;; *) REPLY=$1; return 0 ;; esac
    _sluice_replace "$1" + ' '
    case $REPLY in *%*) ;; *) return 0 ;; esac
    _sluice_prepare_bytes
    _sluice_text=$REPLY
    REPLY=${_sluice_text%%\%*}
    _sluice_text=${_sluice_text#"$REPLY"}
    _sluice_split %
    # The text begins with %, so the first chunk is empty.
    _sluice_is_first=x
    for _sluice_chunk in $_sluice_text; do
        if [ -n "$_sluice_is_first" ]; then
            _sluice_is_first=
            continue
        fi
        _sluice_tail=${_sluice_chunk#??}
        if [ "$_sluice_tail" = "$_sluice_chunk" ] && [ ${#_sluice_chunk} -ne 2 ]; then
            REPLY=$REPLY%$_sluice_chunk
        elif _sluice_byte_of "${_sluice_chunk%"$_sluice_tail"}"; then
            REPLY=$REPLY$_sluice_byte$_sluice_tail
        else
            REPLY=$REPLY%$_sluice_chunk
        fi
    done
    # A % at the end makes no chunk.
    case $_sluice_text in *%) REPLY=$REPLY% ;; esac
    _sluice_unsplit
}

# sluice_url_encode TEXT: all bytes but letters, digits, - . _ ~ as %XX.
sluice_url_encode() {
    REPLY=
    case $1 in *[!"$_sluice_letters"0123456789._~-]*) ;; *) REPLY=$1; return 0 ;; esac
    if [ ${#1} -gt 100 ]; then
        _sluice_encode_long "$1"
        return
    fi
    # Bytes, not characters: bash counts by the locale.
    _sluice_has_locale=${LC_ALL+x} _sluice_locale=${LC_ALL-}
    LC_ALL=C
    _sluice_prepare_bytes
    _sluice_rest=$1
    while [ -n "$_sluice_rest" ]; do
        _sluice_tail=${_sluice_rest#?}
        _sluice_byte=${_sluice_rest%"$_sluice_tail"}
        _sluice_rest=$_sluice_tail
        case $_sluice_byte in
        [!"$_sluice_letters"0123456789._~-])
            _sluice_tail=${_sluice_all%%"$_sluice_byte"*}
            _sluice_number=$((${#_sluice_tail} + 1))
            _sluice_digit $((_sluice_number / 16))
            _sluice_digit $((_sluice_number % 16)) %
            ;;
        *) REPLY=$REPLY$_sluice_byte ;;
        esac
    done
    if [ -n "$_sluice_has_locale" ]; then LC_ALL=$_sluice_locale; else unset LC_ALL; fi
}

# The same by od(1), because the shell takes a text apart in quadratic time at least.
_sluice_encode_long() {
    _sluice_prepare_bytes
    REPLY= _sluice_block=
    _sluice_digits=$(printf %s "$1" | od -An -v -tx1 | tr abcdef ABCDEF)
    _sluice_split " $_sluice_newline"
    set -- $_sluice_digits
    _sluice_unsplit
    for _sluice_digits in "$@"; do
        if [ ${#_sluice_block} -gt 500 ]; then REPLY=$REPLY$_sluice_block _sluice_block=; fi
        case $_sluice_digits in
        2[DE] | 3[0123456789] | 4[123456789ABCDEF] | 5[0123456789AF] | 6[123456789ABCDEF] | 7[0123456789AE])
            _sluice_byte_of "$_sluice_digits"
            _sluice_block=$_sluice_block$_sluice_byte ;;
        *) _sluice_block=$_sluice_block%$_sluice_digits ;;
        esac
    done
    REPLY=$REPLY$_sluice_block
}

# Appends a hexadecimal digit; the first of two after a %.
_sluice_digit() {
    if [ $# -eq 1 ]; then REPLY=$REPLY%; fi
    case $1 in
    10) REPLY=${REPLY}A ;; 11) REPLY=${REPLY}B ;; 12) REPLY=${REPLY}C ;; 13) REPLY=${REPLY}D ;; 14) REPLY=${REPLY}E ;; 15) REPLY=${REPLY}F ;;
    *) REPLY=$REPLY$1 ;;
    esac
}

# _sluice_replace TEXT CHARACTER NEW. The text is split once, and joined in blocks, so that the time does not grow with its square.
_sluice_replace() {
    _sluice_text=$1 _sluice_new=$3 REPLY= _sluice_block=
    case $1 in *"$2"*) ;; *) REPLY=$1; return 0 ;; esac
    _sluice_split "$2"
    set -- $_sluice_text. # a separator at the end would make no chunk without the full stop
    _sluice_unsplit
    _sluice_block=$1
    shift
    for _sluice_chunk in "$@"; do
        if [ ${#_sluice_block} -gt 500 ]; then REPLY=$REPLY$_sluice_block _sluice_block=; fi
        _sluice_block=$_sluice_block$_sluice_new$_sluice_chunk
    done
    REPLY=$REPLY${_sluice_block%.}
}

# sluice_escape_html TEXT: for HTML text and attributes in quotes. Without arguments it is a filter.
sluice_escape_html() {
    if [ $# -eq 0 ]; then
        sed -e 's/&/\&amp;/g' -e 's/</\&lt;/g' -e 's/>/\&gt;/g' -e 's/"/\&quot;/g' -e "s/'/\\&#39;/g"
        return
    fi
    REPLY=$1
    case $1 in *[\&\<\>\"\']*) ;; *) return 0 ;; esac
    _sluice_replace "$REPLY" '&' '&amp;'
    _sluice_replace "$REPLY" '<' '&lt;'
    _sluice_replace "$REPLY" '>' '&gt;'
    _sluice_replace "$REPLY" '"' '&quot;'
    _sluice_replace "$REPLY" "'" '&#39;'
}

# ---- Forms ----

# _sluice_add_field NAME VALUE
_sluice_add_field() {
    if [ "$_sluice_count" -ge "$_SLUICE_FIELDS_MAX" ]; then
        SLUICE_ERROR=413
        return 1
    fi
    eval "_sluice_name_$_sluice_count=\$1 _sluice_value_$_sluice_count=\$2"
    _sluice_count=$((_sluice_count + 1))
}

_sluice_add_pairs() {
    _sluice_split '&'
    # In a variable, because the loop's list is split once, and IFS is needed for other lists below.
    set -- $1
    _sluice_unsplit
    for _sluice_pair in "$@"; do
        if [ -z "$_sluice_pair" ]; then continue; fi
        sluice_url_decode "${_sluice_pair%%=*}"
        _sluice_field=$REPLY
        case $_sluice_pair in *=*) sluice_url_decode "${_sluice_pair#*=}" ;; *) REPLY= ;; esac
        _sluice_add_field "$_sluice_field" "$REPLY" || return 1
    done
}

# The records of sluice-form: f NAME VALUE, u NAME FILE-NAME TYPE BYTES PATH, r PID.
_sluice_add_records() {
    while [ $# -gt 1 ]; do
        case $1 in
        f) _sluice_add_field "$2" "$3" || return 1
            shift 3 ;;
        u)
            eval "_sluice_file_$_sluice_upload_count=\$2 _sluice_file_name_$_sluice_upload_count=\$3 _sluice_type_$_sluice_upload_count=\$4"
            eval "_sluice_bytes_$_sluice_upload_count=\$5 _sluice_path_$_sluice_upload_count=\$6"
            _sluice_upload_count=$((_sluice_upload_count + 1))
            shift 6 ;;
        r) _sluice_reaper=$2
            shift 2 ;;
        *) return 1 ;;
        esac
    done
}

# Runs sluice-form on the body.
_sluice_run_form() {
    _sluice_body_left=0
    _sluice_program=$SLUICE_SHELL/sluice-form
    # In a checkout it is built in a directory of its own.
    [ -x "$_sluice_program" ] || [ ! -x "$SLUICE_SHELL/build/sluice-form" ] || _sluice_program=$SLUICE_SHELL/build/sluice-form
    if [ ! -x "$_sluice_program" ]; then
        printf 'sluice.sh: no program %s: set SLUICE_SHELL to its directory\n' "$_sluice_program" >&2
        SLUICE_ERROR=500
        return 1
    fi
    _sluice_code=0
    # The standard input of a CGIplus script has no end: without a length there is no body.
    _sluice_records=$(
        [ -z "$_sluice_final" ] || export CONTENT_LENGTH="${CONTENT_LENGTH:-0}"
        QUERY_STRING= "$_sluice_program" "$$" "$_sluice_upload_bytes" 3<&- 4<&-
    ) || _sluice_code=$?
    case $_sluice_code in
    0) ;;
    3) SLUICE_ERROR=413 ;;
    4) SLUICE_ERROR=400 ;;
    5) SLUICE_ERROR=507 ;;
    *) SLUICE_ERROR=500 ;;
    esac
    if [ -n "$SLUICE_ERROR" ]; then return 1; fi
    _sluice_split "$_sluice_separator"
    set -- $_sluice_records
    _sluice_unsplit
    _sluice_records=
    _sluice_add_records "$@"
}

_sluice_read_body() {
    case ${CONTENT_TYPE-} in
    [aA]pplication/[xX]-[wW][wW][wW]-[fF]orm-[uU]rlencoded | [aA]pplication/[xX]-[wW][wW][wW]-[fF]orm-[uU]rlencoded[\;\ ]*)
        if [ "$_sluice_body_left" -gt "$_SLUICE_TEXT_MAX" ]; then
            _sluice_run_form
            return
        fi
        if [ "$_sluice_body_left" -eq 0 ]; then return 0; fi
        _sluice_wanted=$_sluice_body_left
        # With a mark, so that trailing newlines are kept. A NUL is dropped; urlencoded text has none.
        _sluice_text=$(head -c "$_sluice_wanted" && printf .)
        _sluice_body_left=0 _sluice_text=${_sluice_text%.}
        _sluice_is_whole "$_sluice_text" "$_sluice_wanted" || return 1
        _sluice_add_pairs "$_sluice_text"
        ;;
    [mM]ultipart/[fF]orm-[dD]ata*) _sluice_run_form ;;
    esac
}

# Whether a text has as many bytes as CONTENT_LENGTH says: if not, the client has left.
_sluice_is_whole() {
    _sluice_has_locale=${LC_ALL+x} _sluice_locale=${LC_ALL-}
    LC_ALL=C
    if [ "${#1}" -ne "$2" ]; then SLUICE_ERROR=400; fi
    if [ -n "$_sluice_has_locale" ]; then LC_ALL=$_sluice_locale; else unset LC_ALL; fi
    [ -z "$SLUICE_ERROR" ]
}

# Reads the form, once for each request. 2: SLUICE_ERROR is the status that tells why not.
_sluice_require_form() {
    if [ -n "$SLUICE_ERROR" ]; then return 2; fi
    if [ -n "$_sluice_count" ]; then return 0; fi
    _sluice_count=0
    if [ -n "${QUERY_STRING-}" ]; then _sluice_add_pairs "$QUERY_STRING" || :; fi
    if [ -z "$SLUICE_ERROR" ]; then _sluice_read_body || : "${SLUICE_ERROR:=500}"; fi
    if [ -n "$SLUICE_ERROR" ]; then return 2; fi
}

# sluice_parameters NAME INDEX: the value with this index, from 0. 1: there is none; 2: the form could not be read.
sluice_parameters() {
    REPLY=
    _sluice_require_form || return 2
    _sluice_number=0 _sluice_left=$2
    while [ "$_sluice_number" -lt "$_sluice_count" ]; do
        eval "_sluice_field=\$_sluice_name_$_sluice_number"
        if [ "$_sluice_field" = "$1" ]; then
            if [ "$_sluice_left" -eq 0 ]; then
                eval "REPLY=\$_sluice_value_$_sluice_number"
                return 0
            fi
            _sluice_left=$((_sluice_left - 1))
        fi
        _sluice_number=$((_sluice_number + 1))
    done
    return 1
}

# sluice_parameter NAME [DEFAULT]: the first value. 1: there is none, and REPLY is the default; 2: the form could not be read.
sluice_parameter() {
    sluice_parameters "$1" 0 && return 0 || _sluice_code=$?
    REPLY=${2-}
    return "$_sluice_code"
}

# The number of fields.
sluice_parameter_count() {
    REPLY=0
    _sluice_require_form || return 2
    REPLY=$_sluice_count
}

# sluice_parameter_at INDEX: sets SLUICE_NAME and REPLY, its value.
sluice_parameter_at() {
    REPLY= SLUICE_NAME=
    _sluice_require_form || return 2
    _sluice_is_number "$1" || return 1
    if [ "$1" -ge "$_sluice_count" ]; then return 1; fi
    eval "SLUICE_NAME=\$_sluice_name_$1 REPLY=\$_sluice_value_$1"
}

# sluice_uploads NAME INDEX: sets SLUICE_UPLOAD_NAME, …_FILE_NAME, …_TYPE, …_BYTES and …_PATH, and REPLY, the path. Returns as sluice_parameters.
sluice_uploads() {
    REPLY= SLUICE_UPLOAD_NAME= SLUICE_UPLOAD_FILE_NAME= SLUICE_UPLOAD_TYPE= SLUICE_UPLOAD_BYTES= SLUICE_UPLOAD_PATH=
    _sluice_require_form || return 2
    _sluice_number=0 _sluice_left=$2
    while [ "$_sluice_number" -lt "$_sluice_upload_count" ]; do
        eval "_sluice_field=\$_sluice_file_$_sluice_number"
        if [ "$_sluice_field" = "$1" ]; then
            if [ "$_sluice_left" -eq 0 ]; then
                SLUICE_UPLOAD_NAME=$_sluice_field
                eval "SLUICE_UPLOAD_FILE_NAME=\$_sluice_file_name_$_sluice_number SLUICE_UPLOAD_TYPE=\$_sluice_type_$_sluice_number"
                eval "SLUICE_UPLOAD_BYTES=\$_sluice_bytes_$_sluice_number SLUICE_UPLOAD_PATH=\$_sluice_path_$_sluice_number"
                REPLY=$SLUICE_UPLOAD_PATH
                return 0
            fi
            _sluice_left=$((_sluice_left - 1))
        fi
        _sluice_number=$((_sluice_number + 1))
    done
    return 1
}

sluice_upload() { sluice_uploads "$1" 0; }

# sluice_upload_limit BYTES: for the files of a request together; 1 GiB without it.
sluice_upload_limit() {
    _sluice_is_number "$1" || return 1
    _sluice_upload_bytes=$1
}

# ---- Responses ----

_sluice_reason() {
    case $1 in
    200) REPLY=OK ;; 201) REPLY=Created ;; 204) REPLY='No Content' ;; 301) REPLY='Moved Permanently' ;; 302) REPLY=Found ;;
    303) REPLY='See Other' ;; 304) REPLY='Not Modified' ;; 307) REPLY='Temporary Redirect' ;; 308) REPLY='Permanent Redirect' ;;
    400) REPLY='Bad Request' ;; 401) REPLY=Unauthorized ;; 403) REPLY=Forbidden ;; 404) REPLY='Not Found' ;; 405) REPLY='Method Not Allowed' ;;
    409) REPLY=Conflict ;; 410) REPLY=Gone ;; 413) REPLY='Content Too Large' ;; 415) REPLY='Unsupported Media Type' ;;
    422) REPLY='Unprocessable Content' ;; 429) REPLY='Too Many Requests' ;; 500) REPLY='Internal Server Error' ;;
    501) REPLY='Not Implemented' ;; 503) REPLY='Service Unavailable' ;; 507) REPLY='Insufficient Storage' ;; *) REPLY=Status ;;
    esac
}

_sluice_is_line() {
    case $1 in *"$_sluice_newline"* | *"$_sluice_cr"*) return 1 ;; esac
}

# sluice_status CODE: 200 to 599, before the head.
sluice_status() {
    case $1 in [2345][0123456789][0123456789]) ;; *) return 1 ;; esac
    if [ -n "$_sluice_is_headed" ]; then return 1; fi
    _sluice_status=$1
}

# sluice_header NAME VALUE: 1 if the name is not a token, the value has a line break, or the head has been written.
sluice_header() {
    case $1 in '' | *[!"$_sluice_letters"0123456789!\#\$%\&\'*+.^_\`\|~-]*) return 1 ;; esac
    if [ -n "$_sluice_is_headed" ] || ! _sluice_is_line "$2"; then return 1; fi
    case $1 in [cC][oO][nN][tT][eE][nN][tT]-[tT][yY][pP][eE]) _sluice_type=x ;; esac
    _sluice_fields=$_sluice_fields$1:\ $2$_sluice_newline
}

# sluice_respond [TYPE]: writes the head, once.
sluice_respond() {
    if [ -n "$_sluice_is_headed" ]; then return 0; fi
    _sluice_is_line "${1-}" || return 1
    _sluice_is_headed=x
    if [ -n "$_sluice_status" ]; then
        _sluice_reason "$_sluice_status"
        _sluice_fields="Status: $_sluice_status $REPLY$_sluice_newline$_sluice_fields"
    fi
    case $_sluice_type$_sluice_status in
    x* | 204 | 304) ;;
    *) _sluice_fields="${_sluice_fields}Content-Type: ${1-text/html; charset=utf-8}$_sluice_newline" ;;
    esac
    printf '%s\n' "$_sluice_fields"
}

# Writes the head if the script has set a part of it.
_sluice_begin_body() {
    if [ -z "$_sluice_is_headed" ] && [ -n "$_sluice_status$_sluice_fields" ]; then sluice_respond; fi
}

# sluice_redirect URL [CODE]: the whole response; 302 without a code.
sluice_redirect() {
    case ${2-302} in 301 | 302 | 303 | 307 | 308) ;; *) return 1 ;; esac
    if [ -z "$1" ]; then return 1; fi
    sluice_header Location "$1" || return 1
    sluice_status "${2-302}"
    sluice_respond 'text/plain; charset=utf-8'
    printf '%s\n' "$1"
}

# sluice_fail [STATUS [TEXT]]: the whole response. Without a status, that of a form that could not be read. 1: the head has been written.
sluice_fail() {
    _sluice_code=${1:-${SLUICE_ERROR:-500}}
    case $_sluice_code in [45]??) ;; *) return 1 ;; esac
    sluice_status "$_sluice_code" || return 1
    _sluice_fields= _sluice_type=
    sluice_respond 'text/plain; charset=utf-8'
    _sluice_reason "$_sluice_code"
    printf '%s\n' "$_sluice_code $REPLY" ${2:+"$2"}
}

sluice_write() {
    _sluice_begin_body
    printf '%s' "$*"
}

# What a shell prints is sent at once.
sluice_flush() { :; }

# sluice_event DATA [NAME [ID]]: a server-sent event; the first one writes the head.
sluice_event() {
    if ! _sluice_is_line "${2-}" || ! _sluice_is_line "${3-}"; then return 1; fi
    if [ -z "$_sluice_is_headed" ]; then
        sluice_header Cache-Control no-store
        sluice_header X-Accel-Buffering no
        sluice_respond text/event-stream
    fi
    _sluice_event=
    if [ -n "${2-}" ]; then _sluice_event="event: $2$_sluice_newline"; fi
    if [ -n "${3-}" ]; then _sluice_event="${_sluice_event}id: $3$_sluice_newline"; fi
    # Each line of the text is a line `data:`; CR and CR LF end lines, too.
    _sluice_replace "$1" "$_sluice_cr$_sluice_newline" "$_sluice_newline"
    _sluice_replace "$REPLY" "$_sluice_cr" "$_sluice_newline"
    _sluice_replace "$REPLY" "$_sluice_newline" "${_sluice_newline}data: "
    printf '%sdata: %s\n\n' "$_sluice_event" "$REPLY"
}

# ---- Callouts ----

# sluice_callout REQUEST: sets SLUICE_CODE and REPLY, the text of the answer. 1: the code is not 200; 2: no callout was made.
sluice_callout() {
    REPLY= SLUICE_CODE=
    if [ -z "$_sluice_escape" ] || [ -z "$1" ] || ! _sluice_is_line "$1" || [ ${#1} -gt 8000 ]; then return 2; fi
    _sluice_begin_body
    printf '%s\n%s\n%s\n' "$_sluice_escape" "$1" "$_sluice_close"
    case $1 in '!'* | '#'*) return 0 ;; esac
    IFS= read -r _sluice_line <&3 || return 2
    SLUICE_CODE=${_sluice_line%% *} REPLY=
    case $_sluice_line in *\ *) REPLY=${_sluice_line#* } ;; esac
    [ "$SLUICE_CODE" = 200 ]
}

# sluice_notice TEXT: a line in the server log.
sluice_notice() {
    _sluice_replace "$*" "$_sluice_newline" ' '
    _sluice_replace "$REPLY" "$_sluice_cr" ' '
    if [ -n "$_sluice_escape" ]; then sluice_callout "!NOTICED: $REPLY"; else printf '%s\n' "$REPLY" >&2; fi
}

# sluice_watch TEXT: a line for those who watch this request (WATCH, item callouts). While nobody does nothing is sent.
sluice_watch() {
    sluice_variable WATCH_SCRIPT || return 0
    _sluice_replace "$*" "$_sluice_newline" ' '
    _sluice_replace "$REPLY" "$_sluice_cr" ' '
    sluice_callout "!WATCH: $REPLY"
}

sluice_map_path() { sluice_callout "MAP-PATH: $1"; }
sluice_map_file() { sluice_callout "MAP-FILE: $1"; }
sluice_lifetime() { sluice_callout "LIFETIME: $1"; }

# ---- The memory buffer ----

# sluice_buffer_begin [BYTES]: before the head. REPLY is its size.
sluice_buffer_begin() {
    _sluice_buffer=0
    _sluice_is_number "${1-4194304}" || return 1
    _sluice_had_head=$_sluice_is_headed _sluice_is_headed=x # the callout must not write a head
    sluice_callout "BUFFER-BEGIN: $(((${1-4194304} + 65535) / 65536 * 64))k" && _sluice_code=0 || _sluice_code=$?
    _sluice_is_headed=$_sluice_had_head
    if [ "$_sluice_code" -ne 0 ]; then return "$_sluice_code"; fi
    _sluice_buffer=${REPLY#* } _sluice_buffer=${_sluice_buffer%% *}
    REPLY=$_sluice_buffer
}

# Sends standard input: program | sluice_buffer_write. 1: the client has left.
sluice_buffer_write() {
    if [ "${_sluice_buffer:-0}" -eq 0 ]; then return 1; fi
    _sluice_begin_body
    while :; do
        # A new description of the file begins at 0, and /proc tells how far dd has come.
        exec 5<>/dev/fd/4 || return 1
        dd bs=65536 iflag=fullblock count=$((_sluice_buffer / 65536)) status=none >&5 || return 1
        read -r _ _sluice_position </proc/self/fdinfo/5
        exec 5>&-
        if [ "$_sluice_position" -eq 0 ]; then return 0; fi
        sluice_callout "BUFFER-WRITE: $_sluice_position" || return 1
    done
}

# Waits until everything is sent. REPLY is the number of bytes.
sluice_buffer_end() {
    _sluice_buffer=0
    sluice_callout BUFFER-END:
}
