/* buffer.c: the memory buffer for scripts in C: the callouts that begin and end it, and its writes, which are those of the ring (ring.c)
   with stdout flushed before. */
#include "internal.h"
#include "sluice.h"
#include "sluice_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct sluice_ring *ring; /* NULL: no buffer is open */

static int fail(int error)
{
    errno = error;
    return -1;
}

/* The error for the answer to a callout that is not 200. */
static int refused(int code)
{
    switch (code) {
    case -1: return -1;
    case 403: return fail(EACCES);
    case 413: return fail(EFBIG);
    case 503: return fail(ENOMEM);
    case 400: return fail(EINVAL);
    case 410: return fail(EPIPE);
    default: return fail(EPROTO);
    }
}

static int attach(const char *name, uint64_t capacity)
{
    int memory = open(name, O_RDWR | O_CLOEXEC);
    if (memory < 0) return -1;
    ring = sluice_ring_attach(memory, capacity);
    int error = errno;
    close(memory);
    if (!ring) return fail(error);
    sluice_ring_flushes(ring, sluice_mailbox_flush);
    return 0;
}

int sluice_buffer_begin(uint64_t bytes, struct sluice_buffer *got)
{
    return ring ? fail(EALREADY) : sluice_buffer_begin_unless_open(bytes, got);
}

int sluice_buffer_begin_unless_open(uint64_t bytes, struct sluice_buffer *got)
{
    uint64_t kilobytes = bytes / 1024 + (bytes % 1024 != 0);
    char answer[256], shape[8] = "";
    int code = sluice_callout(answer, sizeof answer, "BUFFER-BEGIN: %lluk ring", (unsigned long long)kilobytes);
    if (code != 200) return refused(code);

    struct sluice_buffer buffer;
    unsigned long long capacity;
    if (sscanf(answer, "%47s %llu %7s", buffer.name, &capacity, shape) != 3 || strcmp(shape, "ring") != 0) return fail(EPROTO);
    sluice_buffer_abandon();
    if (attach(buffer.name, capacity)) return -1;
    buffer.bytes = capacity;
    if (got) *got = buffer;
    return 0;
}

void sluice_buffer_abandon(void)
{
    if (ring) sluice_ring_close(ring, NULL);
    ring = NULL;
}

int sluice_buffer_end(void)
{
    if (!ring) return fail(ENOTCONN);
    uint64_t committed;
    int failed = sluice_ring_close(ring, &committed);
    ring = NULL;
    if (failed) return -1;
    char answer[64];
    int code = sluice_callout(answer, sizeof answer, "BUFFER-END:");
    if (code != 200) return refused(code);
    return strtoull(answer, NULL, 10) == committed ? 0 : fail(EIO);
}

void *sluice_buffer_reserve(size_t wanted, size_t *granted)
{
    if (ring) return sluice_ring_reserve(ring, wanted, granted);
    errno = ENOTCONN;
    return NULL;
}

int sluice_buffer_commit(size_t bytes)
{
    return ring ? sluice_ring_commit(ring, bytes) : fail(ENOTCONN);
}

int sluice_buffer_write(const void *from, size_t bytes)
{
    return ring ? sluice_ring_write(ring, from, bytes) : fail(ENOTCONN);
}
