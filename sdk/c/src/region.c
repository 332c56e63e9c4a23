/* region.c: the end of a large reply through memory shared with the server, instead of the mailbox.

   Here: the region that the server announces with a request (WWW_GATEWAY_REGION: its offset in the memory buffer's file, and its size), the decision,
   and the copy. Not here: how the callout is written (mailbox.c), and buffers that a script begins itself (buffer.c). */
#include "internal.h"
#include "sluice.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Below this, the pipe is as fast. */
#define REGION_BYTES_MIN ((size_t)16 << 10)
/* A longer head is not searched for its end; the server finds it in the region, at the cost of a copy. */
#define HEAD_BYTES_MAX ((size_t)8 << 10)
/* Regions of a process; the server announces one of them at a time. */
#define REGIONS_MAX 2

static struct mapping {
    char *at;
    unsigned long long offset, size;
} mappings[REGIONS_MAX];

/* The bytes of the head with the empty line that ends it; 0 if there is none. */
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

/* Maps the memory of a region, once for the life of the process. NULL if that fails: then the mailbox serves. */
static char *map(unsigned long long offset, unsigned long long size)
{
    struct mapping *mapping = mappings;
    for (; mapping < mappings + REGIONS_MAX && mapping->at; mapping++)
        if (mapping->offset == offset && mapping->size == size) return mapping->at;
    const char *name = getenv("CGIPLUSBUF");
    if (mapping == mappings + REGIONS_MAX || !name || size > SIZE_MAX / 2) return NULL;
    int file = open(name, O_RDWR | O_CLOEXEC);
    if (file < 0) return NULL;
    void *at = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)offset);
    close(file);
    if (at == MAP_FAILED) return NULL;
    *mapping = (struct mapping){.at = at, .offset = offset, .size = size};
    return at;
}

size_t sluice_region_fill(const char *output, size_t bytes)
{
    if (bytes < REGION_BYTES_MIN) return 0;
    unsigned long long offset, size;
    const char *region = sluice_variable("WWW_GATEWAY_REGION");
    if (!region || sscanf(region, "%llu %llu", &offset, &size) != 2) return 0;
    size_t head = head_bytes(output, bytes), shared = bytes - head;
    if (shared < REGION_BYTES_MIN || shared > size) return 0;
    char *to = map(offset, size);
    if (!to) return 0;
    memcpy(to, output + head, shared);
    return shared;
}
