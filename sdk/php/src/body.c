/* body.c: the request body: CONTENT_LENGTH bytes of descriptor 0, of which main.c has made a copy.

   Here: reading in large parts, never beyond the end of the body; the last bytes, which say whether a form is whole. Not here: forms and uploads, which PHP parses. */
#include "engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Enough for the last boundary of a form (RFC 2046: 70 bytes) and a short epilogue. */
#define TAIL_BYTES 512

static struct {
    char bytes[TAIL_BYTES];
    size_t used;
} tail;

static struct {
    uint64_t left; /* bytes of this request's body that are still in the pipe */
    bool is_cut;   /* it has ended before CONTENT_LENGTH bytes */
    size_t start, end;
    char bytes[128 * 1024]; /* PHP reads a form in parts of 5 KiB: an upload of 100 MB would be 20,000 system calls */
} body;

void body_begin(void)
{
    const char *length = records_value(V_CONTENT_LENGTH);
    body.left = length && *length ? strtoull(length, NULL, 10) : 0;
    body.start = body.end = 0;
    body.is_cut = false;
    tail.used = 0;
}

bool body_is_cut(void)
{
    return body.is_cut;
}

void body_discard(void)
{
    body.left = 0;
    body.start = body.end = 0;
}

static void note_tail(const char *from, size_t count)
{
    size_t kept = count >= TAIL_BYTES ? 0 : tail.used < TAIL_BYTES - count ? tail.used : TAIL_BYTES - count;
    if (count > TAIL_BYTES) {
        from += count - TAIL_BYTES;
        count = TAIL_BYTES;
    }
    memmove(tail.bytes, tail.bytes + tail.used - kept, kept);
    memcpy(tail.bytes + kept, from, count);
    tail.used = kept + count;
}

bool body_ends_with(const char *text, size_t length)
{
    return memmem(tail.bytes, tail.used, text, length) != NULL;
}

/* One read(2). False at the end of the body, or if the server has closed it. */
static bool fill(void)
{
    if (body.left == 0) return false;
    ssize_t got;
    do got = read(engine.body, body.bytes, body.left < sizeof body.bytes ? (size_t)body.left : sizeof body.bytes);
    while (got < 0 && errno == EINTR);
    if (got <= 0) {
        /* The client has left within the body (or the server is gone): a part of it must not be taken for all of it. */
        body.left = 0;
        body.is_cut = true;
        return false;
    }
    body.left -= (uint64_t)got;
    body.start = 0;
    body.end = (size_t)got;
    note_tail(body.bytes, body.end);
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
