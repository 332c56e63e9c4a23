/* region.c: the end of a large reply through memory shared with the server, instead of the mailbox.

   Here: the region that the server announces with a request (WWW_GATEWAY_REGION: its offset in the memory buffer's file, and its size), the decision,
   and the copy. Not here: the mapping (region_map.c), how the callout is written (mailbox.c), and buffers that a script begins itself (buffer.c). */
#include "internal.h"
#include "sluice.h"
#include "sluice_region.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A longer head is not searched for its end; the server finds it in the region, at the cost of a copy. */
#define HEAD_BYTES_MAX ((size_t)8 << 10)

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

size_t sluice_region_fill(const char *output, size_t bytes)
{
    if (bytes < SLUICE_REGION_BYTES_MIN) return 0;
    const char *announced = sluice_variable("WWW_GATEWAY_REGION");
    if (!announced) return 0;
    size_t head = head_bytes(output, bytes), shared = bytes - head, size;
    if (shared < SLUICE_REGION_BYTES_MIN) return 0;
    char *to = map(announced, &size);
    if (!to || shared > size) return 0;
    memcpy(to, output + head, shared);
    return shared;
}
