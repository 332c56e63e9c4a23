/* bytes.c: a byte buffer that grows. */
#include "internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int sluice_bytes_room(struct sluice_bytes *bytes, size_t more)
{
    if (more > SIZE_MAX / 4 - bytes->length) {
        errno = ENOMEM;
        return -1;
    }
    size_t wanted = bytes->length + more;
    if (wanted <= bytes->capacity) return 0;
    size_t capacity = bytes->capacity ? bytes->capacity : 4096;
    while (capacity < wanted) capacity *= 2;
    char *at = realloc(bytes->at, capacity);
    if (!at) return -1;
    bytes->at = at;
    bytes->capacity = capacity;
    return 0;
}

int sluice_bytes_add(struct sluice_bytes *bytes, const void *from, size_t count)
{
    if (sluice_bytes_room(bytes, count)) return -1;
    if (count) memcpy(bytes->at + bytes->length, from, count);
    bytes->length += count;
    return 0;
}

void sluice_bytes_clear(struct sluice_bytes *bytes)
{
    /* The memory of one large request is not kept for all small ones after it. */
    if (bytes->capacity > SLUICE_BYTES_KEPT) {
        free(bytes->at);
        bytes->at = NULL;
        bytes->capacity = 0;
    }
    bytes->length = 0;
}
