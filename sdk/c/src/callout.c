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
