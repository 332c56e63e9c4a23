/* sluice_ring.h: the ring of the memory buffer alone, for libraries in other languages. Depends on libc only.

   Such a library makes the callouts itself, with its own buffers of output and of answers:

       BUFFER-BEGIN: <size> ring          answer: 200 /dev/fd/4 <bytes> ring
       ring = sluice_ring_attach(4, bytes)
       write the head to descriptor 1
       sluice_ring_write(ring, …) as often as needed, or sluice_ring_reserve and sluice_ring_commit to fill the room in place
       sluice_ring_close(ring, &total)
       BUFFER-END:                        answer: 200 <total>

   The head must have been written to descriptor 1, by write(2), before the first commit. Between that and BUFFER-END write nothing there
   but callouts. Scripts in C use the functions sluice_buffer_… of sluice.h instead, which do all of this.

   Functions that fail return -1 or NULL and set errno. Not thread-safe: one thread at a time. Waiting functions do not return for signals. */
#ifndef SLUICE_RING_H
#define SLUICE_RING_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct sluice_ring;

/* Maps the ring of `capacity` bytes (the number in the answer to BUFFER-BEGIN) in the file `memory` (descriptor 4), which is not closed.
   NULL: EPROTO the file does not match; ENOMEM; other errors of mmap(2). */
struct sluice_ring *sluice_ring_attach(int memory, uint64_t capacity);

/* Contiguous room for at least `wanted` bytes (1 … capacity); waits until there is room. `*granted` (`granted` may be NULL) is set to the
   size of the room, all of which may be filled. NULL: EPIPE the client or the server is gone; EMSGSIZE more than the capacity;
   EINVAL 0 bytes; EPROTO an invalid counter in the control page. */
void *sluice_ring_reserve(struct sluice_ring *ring, size_t wanted, size_t *granted);

/* Sends the first `bytes` bytes of the reserved room. -1: EPIPE the client or the server is gone; EINVAL more than was granted. */
int sluice_ring_commit(struct sluice_ring *ring, size_t bytes);

/* Copies and sends any number of bytes; waits for room. Makes no system call while the server keeps up. -1: as reserve and commit. */
int sluice_ring_write(struct sluice_ring *ring, const void *from, size_t bytes);

/* Releases the ring; `*committed` (may be NULL) is set to the bytes that were committed. 0; -1: a write has failed, errno is its error, and
   BUFFER-END is not needed. The mapping is kept for the next attach. */
int sluice_ring_close(struct sluice_ring *ring, uint64_t *committed);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
