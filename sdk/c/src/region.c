/* region.c: the body of a large reply through memory shared with the server, instead of the mailbox.

   Here: the region that the server announces with a request (WWW_GATEWAY_REGION: its offset in the memory buffer's file, and its size), the decision,
   the copy, and waiting for room. Not here: the mapping (region_map.c), how the callout is written (mailbox.c), and buffers that a script
   begins itself (buffer.c). */
#include "internal.h"
#include "sluice.h"
#include "sluice_region.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A longer head is not searched for its end; the server finds it in the region, at the cost of a copy. */
#define HEAD_BYTES_MAX ((size_t)8 << 10)

/* The server sends a part while this process copies the next. */
#define PART_BYTES_MAX ((size_t)128 << 10)

/* The region of this request. */
static struct {
    int is_sought; /* it has been mapped, or cannot be */
    char *at;      /* NULL: it was not announced, or cannot be mapped; then the mailbox carries all */
    size_t size;
    size_t used;   /* where the next part begins */
    size_t limit;  /* the end of the bytes that may be filled */
    pid_t owner;   /* a child of the script must not write to it */
} region;

void sluice_region_start(void)
{
    region.is_sought = 0;
    region.at = NULL;
    if (!region.owner) region.owner = getpid();
}

/* The memory of the region that was announced, which is mapped once. NULL if that fails: then the mailbox serves. */
static char *map(const char *announced, size_t *size)
{
    char *at = sluice_region_map(-1, announced, size);
    const char *name = at ? NULL : getenv("CGIPLUSBUF");
    int memory = name ? open(name, O_RDWR | O_CLOEXEC) : -1;
    if (memory < 0) return at;
    at = sluice_region_map(memory, announced, size);
    close(memory);
    return at;
}

static int is_usable(void)
{
    if (!region.is_sought) {
        const char *announced = sluice_variable("WWW_GATEWAY_REGION");
        int has_callouts = sluice_mailbox_sentinel(SLUICE_ESCAPE) && sluice_mailbox_sentinel(SLUICE_CLOSE);
        region.is_sought = 1;
        region.at = announced && has_callouts ? map(announced, &region.size) : NULL;
        region.used = 0;
        region.limit = region.size;
    }
    return region.at && region.owner == getpid();
}

/* The bytes of the head with the empty line that ends it; 0 if the output begins with no complete head. */
static size_t head_bytes(const char *output, size_t bytes)
{
    const char *end = output + (bytes < HEAD_BYTES_MAX ? bytes : HEAD_BYTES_MAX);
    for (const char *line = output; line < end;) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        if (!newline) return 0;
        if (newline == line || (newline == line + 1 && *line == '\r')) return (size_t)(newline + 1 - output);
        line = newline + 1;
    }
    return 0;
}

size_t sluice_region_share(const char *output, size_t bytes)
{
    if (bytes < SLUICE_REGION_BYTES_MIN) return 0;
    size_t shared = bytes - head_bytes(output, bytes);
    if (shared < SLUICE_REGION_BYTES_MIN || !is_usable()) return 0;
    /* An older server takes one part. */
    if (region.size <= SLUICE_REGION_SINGLE_BYTES && shared > region.limit - region.used) return 0;
    return shared;
}

size_t sluice_region_put(const char *from, size_t bytes, size_t *start)
{
    if (!region.at || region.used == region.limit) return 0;
    size_t part = region.limit - region.used;
    if (part > PART_BYTES_MAX) part = PART_BYTES_MAX;
    if (part > bytes) part = bytes;
    memcpy(region.at + region.used, from, part);
    *start = region.used;
    region.used += part;
    return part;
}

int sluice_region_wait(void)
{
    if (!region.at || region.size <= SLUICE_REGION_SINGLE_BYTES) return 0;
    size_t half = region.size / 2, start = region.used == region.size ? 0 : region.used;
    size_t wanted = (start < half ? half : region.size) - start;
    char answer[64], expected[64];
    snprintf(expected, sizeof expected, "%zu %zu", wanted, start);
    /* Another answer may be one that the script has not read; then it is not known what is free. */
    if (sluice_callout(answer, sizeof answer, "BUFFER-FREE: %s", expected) != 200 || strcmp(answer, expected) != 0) {
        region.at = NULL;
        return 0;
    }
    region.used = start;
    region.limit = start + wanted;
    return 1;
}
