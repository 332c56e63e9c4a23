/* reply_region.c: which bytes of a reply go through memory shared with the server, instead of the mailbox.

   Here: the region that the server announces with a request (WWW_GATEWAY_REGION: its offset in the memory buffer's file, and its size), and the
   decision. Not here: the region's mapping and its parts (region.c), what is written to the mailbox (mailbox.c), and buffers that a script begins
   itself (buffer.c). */
#include "internal.h"
#include "sluice.h"
#include "sluice_region.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A longer head is not searched for its end; the server finds it in the region, at the cost of a copy. */
#define HEAD_BYTES_MAX ((size_t)8 << 10)

static struct {
    int is_sought; /* it has been opened, or cannot be */
    pid_t owner;   /* a child of the script must not write to it */
} request;

static struct sluice_region region;

void sluice_reply_region_start(void)
{
    request.is_sought = 0;
    sluice_region_close(&region);
    if (!request.owner) request.owner = getpid();
}

/* Opens the region that is announced. Its file is opened only if the region is not mapped yet. */
static void seek_region(void)
{
    const char *announced = sluice_variable("WWW_GATEWAY_REGION");
    if (!announced || !sluice_mailbox_sentinel(SLUICE_ESCAPE) || !sluice_mailbox_sentinel(SLUICE_CLOSE)) return;
    if (sluice_region_open(&region, -1, announced)) return;
    const char *name = getenv("CGIPLUSBUF");
    int memory = name ? open(name, O_RDWR | O_CLOEXEC) : -1;
    if (memory < 0) return;
    sluice_region_open(&region, memory, announced);
    close(memory);
}

static int is_usable(void)
{
    if (!request.is_sought) seek_region();
    request.is_sought = 1;
    return region.at && request.owner == getpid();
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

size_t sluice_reply_region_share(const char *output, size_t bytes)
{
    if (bytes < SLUICE_REGION_BYTES_MIN) return 0;
    size_t shared = bytes - head_bytes(output, bytes);
    return shared >= SLUICE_REGION_BYTES_MIN && is_usable() ? shared : 0;
}

struct sluice_region *sluice_reply_region(void)
{
    return &region;
}

static int callout(void *context, const char *line, char *answer, size_t size)
{
    (void)context;
    return sluice_callout(answer, size, "%s", line);
}

int sluice_reply_region_wait(void)
{
    return sluice_region_wait(&region, callout, NULL) > 0;
}
