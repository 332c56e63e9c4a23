/* region.c: the output region of a request (docs/internals/memory-buffer.md, "Output regions"): the body of a large reply is copied into memory
   that the server sends from, instead of into a pipe.

   Here: when a request has one. Not here: what is put there and when it is announced (output.c), its mapping and its parts (libsluice,
   sluice_region.h). */
#include "engine.h"

#define MEMORY 4

static struct sluice_region region;
static bool is_sought; /* it has been opened, or cannot be */

void region_begin(void)
{
    sluice_region_close(&region);
    /* A process that answers one request would map the memory for that one, which takes longer than the pipe. */
    is_sought = engine.forks;
}

struct sluice_region *region_get(void)
{
    if (!is_sought) sluice_region_open(&region, MEMORY, records_value(V_REGION));
    is_sought = true;
    return &region;
}

size_t region_used(void)
{
    return region.used;
}

void region_close(void)
{
    is_sought = true;
    sluice_region_close(&region);
}
