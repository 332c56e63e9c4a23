/* sluice_region.h: the memory of an output region, for engines and libraries in other languages. Depends on libc only.

   The server announces a region with a request (WWW_GATEWAY_REGION). Such a library copies parts of a large reply there, and writes the
   callout `!BUFFER-REGION: <bytes> <start>` to the mailbox instead of these bytes: docs/internals/memory-buffer.md, "Output regions". */
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

/* Maps the region that `announced`, the value of WWW_GATEWAY_REGION, names in the file `memory` (descriptor 4). The mapping stays for the life
   of the process, and `memory` is not used again for the same region. Sets `*size` to its bytes. NULL: the value is malformed, `memory` is not
   the server's file, or mmap(2) failed; then the mailbox serves. Not thread-safe. */
char *sluice_region_map(int memory, const char *announced, size_t *size);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
