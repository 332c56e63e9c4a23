/* callout.c: a request to the server in the middle of a response, and its answer.

   Each callout has one request line and reads one answer, so no answer is left for the next reader of CGIPLUSIN. */
#include "internal.h"
#include "sluice.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The server accepts lines up to 8 KiB, LF included. */
#define LINE_BYTES_MAX 8191

/* A line break would start a second request, whose answer nothing would read. */
static int is_one_line(const char *line)
{
    if (!*line) return 0;
    for (; *line; line++)
        if (iscntrl((unsigned char)*line) && *line != '\t') return 0;
    return 1;
}

/* Reads the answer to the pending request: returns its code and copies its text, truncated to `size`; or -1: errno. */
static int read_answer(char *answer, size_t size)
{
    static struct sluice_bytes line;
    line.length = 0;
    int status = sluice_cgiplusin_read_line(&line);
    if (status <= 0) {
        if (status == 0) errno = EPIPE;
        return -1;
    }
    const unsigned char *text = (const unsigned char *)line.at;
    if (!isdigit(text[0]) || !isdigit(text[1]) || !isdigit(text[2]) || (text[3] && text[3] != ' ')) {
        errno = EPROTO;
        return -1;
    }
    if (answer && size) snprintf(answer, size, "%s", text[3] ? line.at + 4 : "");
    return (text[0] - '0') * 100 + (text[1] - '0') * 10 + (text[2] - '0');
}

int sluice_callout(char *answer, size_t size, const char *format, ...)
{
    char line[LINE_BYTES_MAX + 1];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);

    if (answer && size) *answer = '\0';
    if (length < 0 || (size_t)length >= sizeof line) {
        errno = EMSGSIZE;
        return -1;
    }
    if (!is_one_line(line)) {
        errno = EINVAL;
        return -1;
    }
    if (sluice_mailbox_callout(line, (size_t)length)) return -1;
    return *line == '!' || *line == '#' ? 0 : read_answer(answer, size);
}

/* ---- Callouts with names ---- */

/* The result for the code of an answer: 0, or -1 and errno. */
static int result(int code)
{
    if (code == 200 || code == -1) return code == 200 ? 0 : -1;
    errno = code == 404 ? ENOENT : EINVAL;
    return -1;
}

int sluice_notice(const char *format, ...)
{
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (length < 0) return -1;
    for (char *at = line; *at; at++)
        if (iscntrl((unsigned char)*at)) *at = ' ';
    if (sluice_callout(NULL, 0, "!NOTICED: %s", line) == 0) return 0;
    return errno == ENOTSUP && fprintf(stderr, "%s\n", line) > 0 ? 0 : -1;
}

int sluice_watch(const char *format, ...)
{
    if (!sluice_variable("WATCH_SCRIPT")) return 0;
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (length < 0) return -1;
    for (char *at = line; *at; at++)
        if (iscntrl((unsigned char)*at)) *at = ' ';
    return sluice_callout(NULL, 0, "!WATCH: %s", line);
}

int sluice_map_path(char *file, size_t size, const char *path)
{
    return result(sluice_callout(file, size, "MAP-PATH: %s", path));
}

int sluice_map_file(char *path, size_t size, const char *file)
{
    return result(sluice_callout(path, size, "MAP-FILE: %s", file));
}

int sluice_lifetime(const char *time)
{
    return result(sluice_callout(NULL, 0, "LIFETIME: %s", time));
}
