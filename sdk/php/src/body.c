/* body.c: the request body: CONTENT_LENGTH bytes of descriptor 0, of which main.c has made a copy.

   Here: reading in large parts, never beyond the end of the body. Not here: forms and uploads, which PHP parses. */
#include "engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    uint64_t left; /* bytes of this request's body that are still in the pipe */
    size_t start, end;
    char bytes[128 * 1024]; /* PHP reads a form in parts of 5 KiB: an upload of 100 MB would be 20,000 system calls */
} body;

void body_begin(void)
{
    const char *length = records_value(V_CONTENT_LENGTH);
    body.left = length && *length ? strtoull(length, NULL, 10) : 0;
    body.start = body.end = 0;
}

void body_discard(void)
{
    body.left = 0;
    body.start = body.end = 0;
}

/* One read(2). False at the end of the body, or if the server has closed it. */
static bool fill(void)
{
    if (body.left == 0) return false;
    ssize_t got;
    do got = read(engine.body, body.bytes, body.left < sizeof body.bytes ? (size_t)body.left : sizeof body.bytes);
    while (got < 0 && errno == EINTR);
    if (got <= 0) {
        body.left = 0;
        return false;
    }
    body.left -= (uint64_t)got;
    body.start = 0;
    body.end = (size_t)got;
    return true;
}

size_t body_read(char *into, size_t size)
{
    size_t done = 0;
    while (done < size) {
        if (body.start == body.end && !fill()) break;
        size_t part = body.end - body.start < size - done ? body.end - body.start : size - done;
        memcpy(into + done, body.bytes + body.start, part);
        body.start += part;
        done += part;
    }
    return done;
}
