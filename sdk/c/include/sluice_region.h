/* sluice_region.h: the memory of an output region, for engines and libraries in other languages. Depends on libc only.

   The server announces a region with a request (WWW_GATEWAY_REGION). Such a library copies parts of a large reply there, and writes a callout
   to the mailbox instead of these bytes: docs/internals/memory-buffer.md, "Output regions". */
#ifndef SLUICE_REGION_H
#define SLUICE_REGION_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Below this, the mailbox is as fast. */
#define SLUICE_REGION_BYTES_MIN ((size_t)16 << 10)

/* A server that announces no more than this takes one part in a request, at the start of the region, and knows no BUFFER-FREE. */
#define SLUICE_REGION_SINGLE_BYTES ((size_t)128 << 10)

/* The size of the region that `announced`, the value of WWW_GATEWAY_REGION, names, bytes. 0: the value is malformed or NULL. */
size_t sluice_region_bytes(const char *announced);

/* Bytes of a line of sluice_region_announce(), with the NUL. */
#define SLUICE_REGION_LINE_BYTES 80

/* The region of one reply. All zero: there is none, and the mailbox carries all. */
struct sluice_region {
    char *at;     /* NULL: there is none */
    size_t size;  /* bytes */
    size_t start; /* where the part begins that has not been announced */
    size_t used;  /* its bytes */
    size_t limit; /* the end of the bytes that may be filled */
};

/* Opens the region that `announced`, the value of WWW_GATEWAY_REGION, names in the file `memory` (descriptor 4). The mapping stays for the life of
   the process, and `memory` is not used again for the same region. 1; 0 and no region: the value is malformed or NULL, `memory` is not the
   server's file, or mmap(2) failed. Not thread-safe. */
int sluice_region_open(struct sluice_region *region, int memory, const char *announced);

/* Leaves the rest of the reply to the mailbox. What has not been announced is thrown away. */
void sluice_region_close(struct sluice_region *region);

/* Bytes that the present part can take. 0: there is no room, or no region. */
size_t sluice_region_room(const struct sluice_region *region);

/* Copies the start of these bytes to the present part. Returns how many: as many as sluice_region_room() at most. */
size_t sluice_region_put(struct sluice_region *region, const char *from, size_t bytes);

/* Ends the present part, which has bytes. Sets `line` to the callout, without LF, that the caller is to write to the mailbox in their place, and
   returns its length. An older server takes one part: then there is no region any more. */
size_t sluice_region_announce(struct sluice_region *region, char line[SLUICE_REGION_LINE_BYTES]);

/* Makes a callout and reads its answer: returns the code, with the text in `answer`, or -1. */
typedef int sluice_region_callout(const char *line, char *answer, size_t size);

/* Waits, by `callout`, until the server has sent the other half of the region, which the next parts fill; the rest of this half is not used. All
   parts must have been announced, and all output written. 1; 0 if that is not possible: then there is no region any more. */
int sluice_region_wait(struct sluice_region *region, sluice_region_callout *callout);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
