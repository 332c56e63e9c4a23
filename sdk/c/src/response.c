/* response.c: the head of a response and its output: sluice_status() to sluice_event().

   Here: the fields that a script has set, until the head is written. Everything goes through stdout, so that it stays in order with what the
   script prints itself. Not here: sentinels and records (mailbox.c). */
#include "internal.h"
#include "sluice.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Bytes of all fields of a head. Servers accept less. */
#define FIELDS_BYTES_MAX ((size_t)64 << 10)

static struct {
    int status;
    int is_written; /* the head */
    int has_type;   /* the script has set Content-Type itself */
    struct sluice_bytes fields;
} response;

static int fail(int error)
{
    errno = error;
    return -1;
}

static const struct {
    int status;
    const char *text;
} reasons[] = {
    {200, "OK"}, {201, "Created"}, {202, "Accepted"}, {204, "No Content"}, {206, "Partial Content"}, {301, "Moved Permanently"},
    {302, "Found"}, {303, "See Other"}, {304, "Not Modified"}, {307, "Temporary Redirect"}, {308, "Permanent Redirect"},
    {400, "Bad Request"}, {401, "Unauthorized"}, {403, "Forbidden"}, {404, "Not Found"}, {405, "Method Not Allowed"},
    {406, "Not Acceptable"}, {408, "Request Timeout"}, {409, "Conflict"}, {410, "Gone"}, {411, "Length Required"},
    {412, "Precondition Failed"}, {413, "Content Too Large"}, {414, "URI Too Long"}, {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"}, {422, "Unprocessable Content"}, {428, "Precondition Required"}, {429, "Too Many Requests"},
    {500, "Internal Server Error"}, {501, "Not Implemented"}, {502, "Bad Gateway"}, {503, "Service Unavailable"},
    {504, "Gateway Timeout"}, {507, "Insufficient Storage"},
};

const char *sluice_response_reason(int status)
{
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].status == status) return reasons[i].text;
    return "Status";
}

void sluice_response_start(void)
{
    response.status = response.is_written = response.has_type = 0;
    response.fields.length = 0;
}

/* ---- Fields ---- */

int sluice_status(int status)
{
    if (status < 200 || status > 599) return fail(EINVAL);
    if (response.is_written) return fail(EALREADY);
    response.status = status;
    return 0;
}

/* RFC 9110 §5.6.2: token. */
static int is_token(const char *text)
{
    if (!*text) return 0;
    for (; *text; text++)
        if (!isalnum((unsigned char)*text) && !strchr("!#$%&'*+-.^_`|~", *text)) return 0;
    return 1;
}

int sluice_response_is_line(const char *text)
{
    for (; *text; text++)
        if (((unsigned char)*text < ' ' && *text != '\t') || *text == 0x7f) return 0;
    return 1;
}

int sluice_header(const char *name, const char *value)
{
    if (!is_token(name) || !sluice_response_is_line(value)) return fail(EINVAL);
    if (strcasecmp(name, "Status") == 0) return sluice_status(atoi(value));
    if (response.is_written) return fail(EALREADY);
    size_t more = strlen(name) + strlen(value) + 3;
    if (more > FIELDS_BYTES_MAX - response.fields.length) return fail(EMSGSIZE);
    if (sluice_bytes_room(&response.fields, more + 1)) return -1;
    response.fields.length += (size_t)sprintf(response.fields.at + response.fields.length, "%s: %s\n", name, value);
    if (strcasecmp(name, "Content-Type") == 0) response.has_type = 1;
    return 0;
}

/* ---- The head ---- */

static int is_without_body(int status)
{
    return status == 204 || status == 304;
}

int sluice_respond(const char *type)
{
    if (response.is_written) return 0;
    if (type && !sluice_response_is_line(type)) return fail(EINVAL);
    int status = response.status ? response.status : 200;
    response.is_written = 1;
    if (response.status) printf("Status: %d %s\n", status, sluice_response_reason(status));
    if (response.fields.length) sluice_mailbox_put(response.fields.at, response.fields.length);
    if (!response.has_type && !is_without_body(status)) printf("Content-Type: %s\n", type ? type : "text/html; charset=utf-8");
    return putchar('\n') == EOF ? -1 : 0;
}

int sluice_response_finish(void)
{
    return (response.status || response.fields.length) && !response.is_written ? sluice_respond(NULL) : 0;
}

int sluice_redirect(const char *url, int status)
{
    static const int statuses[] = {301, 302, 303, 307, 308};
    if (status == 0) status = 302;
    int is_redirect = 0;
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) is_redirect |= status == statuses[i];
    if (!is_redirect || !*url) return fail(EINVAL);
    /* With a status, a path is sent to the client too; without, the server would answer with that path itself. */
    if (sluice_header("Location", url) || sluice_status(status) || sluice_respond("text/plain; charset=utf-8")) return -1;
    return printf("%d %s: %s\n", status, sluice_response_reason(status), url) < 0 ? -1 : 0;
}

static int status_of(int error)
{
    switch (error) {
    case EFBIG: return 413;
    case EBADMSG: return 400;
    case ENOSPC:
    case EDQUOT: return 507;
    default: return 500;
    }
}

int sluice_fail(int status, const char *text)
{
    if (status == 0) status = status_of(errno);
    if (status < 400 || status > 599) return fail(EINVAL);
    if (response.is_written) return fail(EALREADY);
    response.fields.length = 0;
    response.has_type = 0;
    if (sluice_status(status) || sluice_respond("text/plain; charset=utf-8")) return -1;
    printf("%d %s\n", status, sluice_response_reason(status));
    if (text && *text) printf("%s\n", text);
    return ferror(stdout) ? fail(EIO) : 0;
}

/* ---- Output ---- */

int sluice_write(const void *from, size_t bytes)
{
    if (sluice_response_finish()) return -1;
    return sluice_mailbox_put(from, bytes) == bytes ? 0 : -1;
}

int sluice_flush(void)
{
    return sluice_mailbox_flush();
}

/* One line `data:` for each line of the text. A CR ends a line too, so none may stay in it. */
static void put_data(const char *text)
{
    for (;;) {
        size_t length = strcspn(text, "\r\n");
        fputs("data: ", stdout);
        sluice_mailbox_put(text, length);
        putchar('\n');
        text += length;
        if (!*text) return;
        text += text[0] == '\r' && text[1] == '\n' ? 2 : 1;
    }
}

int sluice_event(const char *data, const char *name, const char *id)
{
    if ((name && strpbrk(name, "\r\n")) || (id && strpbrk(id, "\r\n"))) return fail(EINVAL);
    if (!response.is_written && (sluice_header("Cache-Control", "no-store") || sluice_header("X-Accel-Buffering", "no"))) return -1;
    if (sluice_respond("text/event-stream")) return -1;
    if (name && *name) printf("event: %s\n", name);
    if (id) printf("id: %s\n", id);
    put_data(data);
    putchar('\n');
    return sluice_mailbox_flush();
}
