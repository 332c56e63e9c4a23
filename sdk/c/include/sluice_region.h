/* sluice_region.h: the memory of an output region, for engines and libraries in other languages. The functions are in libsluice; they use libc
   only, and none of the rest of libsluice.

   The server announces a region with a request (WWW_GATEWAY_REGION), to CGIplus programs and to the engines for Python and PHP. Such a program
   copies parts of a large reply there, and writes a callout to the mailbox instead of these bytes: docs/internals/memory-buffer.md, "Output
   regions". The functions are called in this order, for each reply:

       sluice_region_open(&region, 4, announced);
       while there are bytes:
           put = sluice_region_put(&region, from, bytes);
           if put is 0, or the part is to be sent now:
               if (sluice_region_announce(&region, line)) write `line` to the mailbox, between ESC and EOT
               else if (sluice_region_wait(&region, callout, context) <= 0) the mailbox carries the rest: write(2)
       announce the last part, and end the reply

   A part has 128 KiB at most. Announce parts of 16 KiB or more: there may be 32 between two waits. Not thread-safe. */
#ifndef SLUICE_REGION_H
#define SLUICE_REGION_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Of replies with less body than this, the mailbox is as fast. */
#define SLUICE_REGION_BYTES_MIN ((size_t)16 << 10)

/* The size of the region that `announced`, the value of WWW_GATEWAY_REGION, names, bytes. 0: the value is malformed or NULL. */
size_t sluice_region_bytes(const char *announced);

/* Bytes of a line of sluice_region_announce(), with the NUL. */
#define SLUICE_REGION_LINE_BYTES 80

/* The region of one reply. All zero: there is none, and the mailbox carries all. The fields are for reading only. */
struct sluice_region {
    char *at;       /* NULL: there is none */
    size_t size;    /* bytes */
    size_t start;   /* where the part begins that has not been announced */
    size_t used;    /* its bytes */
    size_t limit;   /* the end of the bytes that may be filled: first all of the region, then one half after the other */
    unsigned parts; /* announced since the last wait */
};

/* Opens the region that `announced`, the value of WWW_GATEWAY_REGION, names in the file `memory` (descriptor 4). The mapping stays for the life of
   the process, and neither `memory` nor `announced` is used afterwards; `memory` -1 opens only a region that is mapped already. 1; 0 and no
   region: the value is malformed or NULL, `memory` is not the server's file, or mmap(2) failed. */
int sluice_region_open(struct sluice_region *region, int memory, const char *announced);

/* Leaves the rest of the reply to the mailbox. What has not been announced is thrown away. */
void sluice_region_close(struct sluice_region *region);

/* Bytes that the present part can take. 0: announce it, if it has bytes; otherwise wait, if there is a region. */
size_t sluice_region_room(const struct sluice_region *region);

/* Copies the start of these bytes to the present part. Returns how many: as many as sluice_region_room() at most. */
size_t sluice_region_put(struct sluice_region *region, const char *from, size_t bytes);

/* Ends the present part. Sets `line` to the callout that the caller is to write to the mailbox, between the sentinels ESC and EOT, where the bytes
   of the part belong; it has no LF. Returns its length; 0 if the part has no bytes. An older server takes one part: then there is no region any
   more. */
size_t sluice_region_announce(struct sluice_region *region, char line[SLUICE_REGION_LINE_BYTES]);

/* Makes a callout, with `context` of sluice_region_wait(): writes all output that the program has collected, then `line`, and reads the answer.
   Returns its code, with the text after the code and a blank in `answer` (`size` bytes with the NUL); or -1. */
typedef int sluice_region_callout(void *context, const char *line, char *answer, size_t size);

/* Waits, by `callout`, until the server has sent the other half of the region, which the next parts fill; the rest of this half is not used. 1; 0 if
   that is not possible: then there is no region any more; -1: a part has not been announced (EINVAL), and nothing has changed. */
int sluice_region_wait(struct sluice_region *region, sluice_region_callout *callout, void *context);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
