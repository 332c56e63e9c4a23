/* region.c: the output region of a request (docs/internals/memory-buffer.md, "Output regions"): the body of a large reply is copied into memory
   that the server sends from, instead of into a pipe.

   Here: one part after the other, and waiting for room. Not here: what is put there and when it is announced (output.c), the mapping
   (libsluice, sluice_region.h). */
#include "engine.h"
#include "sluice_region.h"

#include <stdio.h>
#include <string.h>

#define MEMORY 4
/* The server sends a part while the script makes the next. */
#define PART_BYTES_MAX ((size_t)128 * 1024)

static struct {
    bool is_open; /* it may be used for this request */
    bool is_mapped;
    char *at;
    size_t size;
    size_t start; /* where this part begins */
    size_t used;  /* its bytes */
    size_t limit; /* the end of the bytes that may be filled */
} region;

void region_begin(void)
{
    /* A process that answers one request would map the memory for that one, which takes longer than the pipe. */
    region.is_open = !engine.forks && records_value(V_REGION);
    region.is_mapped = false;
    region.start = region.used = 0;
}

static bool is_usable(void)
{
    if (region.is_open && !region.is_mapped) {
        region.at = sluice_region_map(MEMORY, records_value(V_REGION), &region.size);
        region.is_open = region.at != NULL;
        region.is_mapped = true;
        region.limit = region.size;
    }
    return region.is_open;
}

size_t region_room(void)
{
    if (!is_usable()) return 0;
    size_t room = region.limit - region.start - region.used, part = PART_BYTES_MAX - region.used;
    return room < part ? room : part;
}

size_t region_put(const char *from, size_t count)
{
    size_t room = region_room(), part = count < room ? count : room;
    if (part > 0) memcpy(region.at + region.start + region.used, from, part);
    region.used += part;
    return part;
}

size_t region_used(void)
{
    return region.used;
}

size_t region_start(void)
{
    return region.start;
}

void region_next(void)
{
    region.start += region.used;
    region.used = 0;
    /* A server with the small region takes one part. */
    if (region.size <= SLUICE_REGION_SINGLE_BYTES) region.is_open = false;
}

bool region_wait(void)
{
    if (!is_usable()) return false;
    size_t half = region.size / 2;
    size_t start = region.limit == region.size ? 0 : half, wanted = start == 0 ? half : region.size - half;
    char line[96], answer[64];
    snprintf(line, sizeof line, "BUFFER-FREE: %zu %zu", wanted, start);
    /* Another answer may be one that the script has not read; then it is not known what is free. */
    if (functions_callout(line, answer, sizeof answer) != 200 || strcmp(answer, line + strlen("BUFFER-FREE: ")) != 0) {
        region.is_open = false;
        return false;
    }
    region.start = start;
    region.limit = start + wanted;
    return true;
}

void region_close(void)
{
    region.is_open = false;
    region.used = 0;
}
