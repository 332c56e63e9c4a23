/* region.c: an output region (sluice_region.h): its mapping, and its use in parts. Not here: what goes there, and when (reply_region.c, and engines
   in other languages). */
#include "sluice_region.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* Regions of a process; the server announces one of them at a time. */
#define REGIONS_MAX 2

/* The server sends a part while this process makes the next. */
#define PART_BYTES_MAX ((size_t)128 << 10)

/* Parts between two waits. The server takes 64 in flight, and those of the half before may still be. */
#define PARTS_MAX 32

/* A server that announces no more than this takes one part in a request, at the start of the region, and knows no BUFFER-FREE. */
#define SINGLE_BYTES ((size_t)128 << 10)

static struct mapping {
    char *at;
    unsigned long long offset, size;
} mappings[REGIONS_MAX];

/* The server seals its file against shrinking, and it reaches so far. Whatever else a script has put there instead must not be written to. */
static int is_servers_file(int memory, unsigned long long end)
{
    struct stat file;
    int seals = fcntl(memory, F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_SHRINK) && !fstat(memory, &file) && end <= (unsigned long long)file.st_size;
}

/* Reads the value of WWW_GATEWAY_REGION. 0: it is malformed or NULL. */
static int parse(const char *announced, unsigned long long *offset, unsigned long long *bytes)
{
    return announced && sscanf(announced, "%llu %llu", offset, bytes) == 2 && *bytes <= SIZE_MAX / 2;
}

size_t sluice_region_bytes(const char *announced)
{
    unsigned long long offset, bytes;
    return parse(announced, &offset, &bytes) ? (size_t)bytes : 0;
}

/* NULL: errno, or the file is not the server's. */
static char *map(int memory, unsigned long long offset, unsigned long long bytes)
{
    struct mapping *mapping = mappings;
    for (; mapping < mappings + REGIONS_MAX && mapping->at; mapping++)
        if (mapping->offset == offset && mapping->size == bytes) return mapping->at;
    if (mapping == mappings + REGIONS_MAX || !is_servers_file(memory, offset + bytes)) return NULL;
    void *at = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, (off_t)offset);
    if (at == MAP_FAILED) return NULL;
    *mapping = (struct mapping){.at = at, .offset = offset, .size = bytes};
    return at;
}

int sluice_region_open(struct sluice_region *region, int memory, const char *announced)
{
    unsigned long long offset, bytes;
    *region = (struct sluice_region){.at = NULL};
    if (!parse(announced, &offset, &bytes)) return 0;
    region->at = map(memory, offset, bytes);
    if (region->at) region->size = region->limit = (size_t)bytes;
    return region->at != NULL;
}

void sluice_region_close(struct sluice_region *region)
{
    *region = (struct sluice_region){.at = NULL};
}

size_t sluice_region_room(const struct sluice_region *region)
{
    size_t room = region->limit - region->start - region->used, part = PART_BYTES_MAX - region->used;
    if (region->parts == PARTS_MAX) return 0;
    return room < part ? room : part;
}

size_t sluice_region_put(struct sluice_region *region, const char *from, size_t bytes)
{
    size_t room = sluice_region_room(region), part = bytes < room ? bytes : room;
    if (part > 0) memcpy(region->at + region->start + region->used, from, part);
    region->used += part;
    return part;
}

size_t sluice_region_announce(struct sluice_region *region, char line[SLUICE_REGION_LINE_BYTES])
{
    char start[24] = "";
    line[0] = '\0';
    if (region->used == 0) return 0;
    /* Servers without parts know no offset. */
    if (region->start > 0) snprintf(start, sizeof start, " %zu", region->start);
    int length = snprintf(line, SLUICE_REGION_LINE_BYTES, "!BUFFER-REGION: %zu%s", region->used, start);
    region->start += region->used;
    region->used = 0;
    region->parts++;
    if (region->size <= SINGLE_BYTES) sluice_region_close(region);
    return (size_t)length;
}

int sluice_region_wait(struct sluice_region *region, sluice_region_callout *callout, void *context)
{
    static const char keyword[] = "BUFFER-FREE: ";
    if (region->used > 0) {
        errno = EINVAL;
        return -1;
    }
    if (!region->at) return 0;
    size_t half = region->size / 2;
    size_t start = region->limit == region->size ? 0 : half, wanted = start == 0 ? half : region->size - half;
    char line[SLUICE_REGION_LINE_BYTES], answer[SLUICE_REGION_LINE_BYTES];
    snprintf(line, sizeof line, "%s%zu %zu", keyword, wanted, start);
    /* Another answer may be one that the script has not read; then it is not known what is free. */
    if (callout(context, line, answer, sizeof answer) != 200 || strcmp(answer, line + strlen(keyword)) != 0) {
        sluice_region_close(region);
        return 0;
    }
    region->start = start;
    region->limit = start + wanted;
    region->parts = 0;
    return 1;
}
