/* region.c: the output region of a request (docs/internals/memory-buffer.md, "Output regions"): the body of a large reply is copied into memory
   that the server sends from, instead of into a pipe.

   Not here: what is put there and when it is announced (output.c), the mapping (libsluice, sluice_region.h). */
#include "engine.h"
#include "sluice_region.h"

#include <string.h>

#define MEMORY 4

static struct {
    bool is_open; /* it may be used for this request */
    size_t used;
} region;

void region_begin(void)
{
    /* A process that answers one request would map the memory for that one, which takes longer than the pipe. */
    region.is_open = !engine.forks && records_value(V_REGION);
    region.used = 0;
}

bool region_put(const char *from, size_t count)
{
    size_t size;
    char *at = region.is_open ? sluice_region_map(MEMORY, records_value(V_REGION), &size) : NULL;
    if (!at || count > size - region.used) {
        if (region.used == 0) region.is_open = false;
        return false;
    }
    if (count > 0) memcpy(at + region.used, from, count);
    region.used += count;
    return true;
}

size_t region_used(void)
{
    return region.used;
}

void region_close(void)
{
    region.is_open = false;
    region.used = 0;
}
