/* request.c: the request loop: accept a request, read its variables and its body, end its response.

   Here: record mode and struct mode of the variables. The library asks for struct mode after the first request, as WASD's does,
   unless CGIPLUS_VAR_RECORD is set. In plain CGI the variables are the environment. */
#include "internal.h"
#include "sluice.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

extern char **environ;

#define LENGTH_UNKNOWN UINT64_MAX

static struct {
    unsigned long uses;
    int open;            /* 1 between sluice_accept() and sluice_finish() */
    struct sluice_bytes bytes;
    const char **names;  /* the "NAME=value" entries in `bytes`, NULL after the last; CGI: not used */
    size_t count, names_max;
    uint64_t body_left;
    int body_is_touched; /* the script has read from it */
} request;

int sluice_is_persistent(void)
{
    return sluice_mailbox_sentinel(SLUICE_END) != NULL;
}

unsigned long sluice_uses(void)
{
    return request.uses;
}

/* ---- Variables ---- */

static const char *without_prefix(const char *name)
{
    return strncasecmp(name, "WWW_", 4) == 0 ? name + 4 : name;
}

/* The value of an entry if its name matches, WWW_ prefixes ignored; otherwise NULL. */
static const char *value_in(const char *entry, const char *name)
{
    entry = without_prefix(entry);
    name = without_prefix(name);
    size_t length = strlen(name);
    return strncasecmp(entry, name, length) == 0 && entry[length] == '=' ? entry + length + 1 : NULL;
}

const char *sluice_variable_at(size_t index)
{
    if (sluice_is_persistent()) return index < request.count ? request.names[index] : NULL;
    for (size_t i = 0; environ && environ[i]; i++)
        if (i == index) return environ[i];
    return NULL;
}

const char *sluice_variable(const char *name)
{
    const char **entries = sluice_is_persistent() ? request.names : (const char **)environ;
    const char *other_prefix = NULL;
    size_t length = strlen(name);
    for (; entries && *entries; entries++) {
        const char *value = value_in(*entries, name);
        if (!value) continue;
        if (value == *entries + length + 1) return value; /* an exact match takes precedence over one that differs in WWW_ */
        if (!other_prefix) other_prefix = value;
    }
    return other_prefix;
}

static int add_entry(const char *entry)
{
    if (request.count + 1 >= request.names_max) {
        size_t more = request.names_max ? request.names_max * 2 : 128;
        const char **names = realloc(request.names, more * sizeof *names);
        if (!names) return -1;
        request.names = names;
        request.names_max = more;
    }
    request.names[request.count++] = entry;
    request.names[request.count] = NULL;
    return 0;
}

static int protocol_error(void)
{
    errno = EPROTO;
    return -1;
}

/* Record mode: one line per variable, an empty line after the last. */
static int read_records(void)
{
    size_t start;
    do {
        start = request.bytes.length;
        int status = sluice_cgiplusin_read_line(&request.bytes);
        if (status <= 0) return status == 0 ? protocol_error() : -1;
    } while (request.bytes.at[start] != '\0');
    for (size_t at = 0; at < start; at += strlen(request.bytes.at + at) + 1)
        if (add_entry(request.bytes.at + at)) return -1;
    return 0;
}

/* Struct mode: `count` bytes of {16-bit little-endian length including the NUL, NAME=value, NUL} …, 0. */
static int read_struct(size_t count)
{
    if (count < 2) return protocol_error();
    if (sluice_cgiplusin_read_block(&request.bytes, count)) return -1;
    const unsigned char *at = (unsigned char *)request.bytes.at, *end = at + count;
    for (;;) {
        if (end - at < 2) return protocol_error();
        size_t length = at[0] | (size_t)at[1] << 8;
        at += 2;
        if (length == 0) return at == end ? 0 : protocol_error();
        if ((size_t)(end - at) < length || memchr(at, '\0', length) != at + length - 1) return protocol_error();
        if (add_entry((const char *)at)) return -1;
        at += length;
    }
}

#define NOT_A_STRUCT SIZE_MAX

/* The length of a struct-mode request from its start record `!!n`, bytes; NOT_A_STRUCT for any other line, 0 if it is too large. */
static size_t struct_bytes(const char *line)
{
    if (strncmp(line, "!!", 2) != 0 || !isdigit((unsigned char)line[2])) return NOT_A_STRUCT;
    char *after;
    unsigned long long bytes = strtoull(line + 2, &after, 10);
    if (*after != '\0') return NOT_A_STRUCT;
    return bytes <= SLUICE_REQUEST_BYTES_MAX ? (size_t)bytes : 0;
}

/* Skips lines up to the start record of a request (they are unread answers), then reads its variables.
   1; 0 at end-of-file; -1: errno. */
static int read_request(void)
{
    request.count = 0;
    if (request.names) request.names[0] = NULL;
    for (;;) {
        request.bytes.length = 0;
        int status = sluice_cgiplusin_read_line(&request.bytes);
        if (status <= 0) return status;
        int records = strcmp(request.bytes.at, "!") == 0;
        size_t bytes = struct_bytes(request.bytes.at);
        if (!records && bytes == NOT_A_STRUCT) continue;
        request.bytes.length = 0;
        if (records ? read_records() : read_struct(bytes)) return -1;
        return 1;
    }
}

static void ask_for_faster_requests(void)
{
    const char *unwanted = getenv("CGIPLUS_VAR_RECORD");
    const char *form = unwanted && *unwanted ? "" : " struct";
    const char *way = sluice_cgiplusin_has_socket() ? " socket" : "";
    if (*form || *way) sluice_callout(NULL, 0, "!CGIPLUS:%s%s", form, way); /* if it fails, all stays as it is */
}

/* ---- The loop ---- */

static uint64_t body_length(void)
{
    const char *text = sluice_variable("CONTENT_LENGTH");
    if (!text || !*text) return sluice_is_persistent() ? 0 : LENGTH_UNKNOWN; /* CGI: the body ends with end-of-file */
    char *after;
    errno = 0;
    unsigned long long bytes = strtoull(text, &after, 10);
    return isdigit((unsigned char)*text) && *after == '\0' && errno == 0 ? bytes : 0;
}

int sluice_accept(void)
{
    if (request.open && sluice_finish()) return 0;
    if (sluice_is_persistent()) {
        if (request.uses > 0) sluice_cgiplusin_await_request();
        int status = read_request();
        sluice_cgiplusin_await_answers();
        if (status <= 0) {
            if (status == 0) errno = 0;
            return 0;
        }
        if (request.uses == 0) ask_for_faster_requests();
    } else if (request.uses > 0) {
        errno = 0;
        return 0;
    }
    sluice_reply_region_start();
    sluice_mailbox_open();
    sluice_response_start();
    request.uses++;
    request.open = 1;
    request.body_left = body_length();
    request.body_is_touched = 0;
    return 1;
}

int sluice_finish(void)
{
    request.open = 0;
    request.body_left = 0;
    sluice_buffer_abandon();
    int failed = sluice_response_finish(), error = errno;
    sluice_form_start();
    sluice_coding_start();
    errno = error;
    return sluice_mailbox_end() || failed ? -1 : 0;
}

int sluice_request_body_is_touched(void)
{
    return request.body_is_touched;
}

ssize_t sluice_body_read(void *into, size_t size)
{
    if (size > request.body_left) size = (size_t)request.body_left;
    request.body_is_touched = 1;
    if (size == 0) return 0;
    ssize_t got;
    do got = read(STDIN_FILENO, into, size);
    while (got < 0 && errno == EINTR);
    if (got > 0 && request.body_left != LENGTH_UNKNOWN) request.body_left -= (uint64_t)got;
    if (got == 0) request.body_left = 0;
    return got;
}
