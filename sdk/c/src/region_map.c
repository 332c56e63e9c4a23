/* region_map.c: the mapping of an output region (sluice_region.h). Not here: what is copied there (region.c, and engines in other languages). */
#include "sluice_region.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* Regions of a process; the server announces one of them at a time. */
#define REGIONS_MAX 2

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

/* Reads the value of WWW_GATEWAY_REGION. 0: it is malformed. */
static int parse(const char *announced, unsigned long long *offset, unsigned long long *bytes)
{
    return announced && sscanf(announced, "%llu %llu", offset, bytes) == 2 && *bytes <= SIZE_MAX / 2;
}

size_t sluice_region_bytes(const char *announced)
{
    unsigned long long offset, bytes;
    return parse(announced, &offset, &bytes) ? (size_t)bytes : 0;
}

char *sluice_region_map(int memory, const char *announced, size_t *size)
{
    unsigned long long offset, bytes;
    if (!parse(announced, &offset, &bytes)) return NULL;
    *size = (size_t)bytes;
    struct mapping *mapping = mappings;
    for (; mapping < mappings + REGIONS_MAX && mapping->at; mapping++)
        if (mapping->offset == offset && mapping->size == bytes) return mapping->at;
    if (mapping == mappings + REGIONS_MAX || !is_servers_file(memory, offset + bytes)) return NULL;
    void *at = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, (off_t)offset);
    if (at == MAP_FAILED) return NULL;
    *mapping = (struct mapping){.at = at, .offset = offset, .size = bytes};
    return at;
}
