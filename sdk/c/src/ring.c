/* ring.c: the writer's side of the ring in the memory buffer, which the server reads and sends to the client.

   Here: the mapping, room, commits, and waiting. Not here: the callouts that begin and end a buffer (buffer.c, or a library in another
   language). One writer (this process), one reader (the server).

       reserve -> the script fills -> commit: head moves -> the server sends -> tail moves -> room again

   The data area is mapped twice, one mapping directly after the other, so a chunk that wraps around its end is still contiguous.
   Sleep and wake-up, on both sides: announce the sleep, check the counter again, then sleep; the other side moves its counter, then
   checks for the announcement. All four accesses are sequentially consistent, so one side always sees the other's store. */
#include "internal.h"
#include "sluice_ring.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CONTROL_BYTES 4096

/* The first page. Three groups in cache lines of their own: constants, the script's fields, the server's fields. */
struct control {
    char magic[8]; /* "SLUICER1" */
    uint64_t capacity;
    char pad0[48];
    _Atomic uint64_t head;         /* bytes committed since BUFFER-BEGIN */
    _Atomic uint64_t wake_at;      /* the value of tail at which the script wants to be woken */
    _Atomic uint32_t writer_waits; /* futex: 1 before the script sleeps, 0 when it is woken */
    char pad1[44];
    _Atomic uint64_t tail;          /* bytes sent since BUFFER-BEGIN */
    _Atomic uint32_t reader_sleeps; /* 1: the server waits for a doorbell, one NUL on the mailbox */
    _Atomic uint32_t closed;        /* 1: the client is gone or the exchange has ended */
};
_Static_assert(offsetof(struct control, capacity) == 8 && offsetof(struct control, head) == 64, "layout");
_Static_assert(offsetof(struct control, wake_at) == 72 && offsetof(struct control, writer_waits) == 80, "layout");
_Static_assert(offsetof(struct control, tail) == 128 && offsetof(struct control, reader_sleeps) == 136, "layout");
_Static_assert(offsetof(struct control, closed) == 140, "layout");

struct sluice_ring {
    struct control *control; /* the mapping: control page, data, data again */
    char *data;
    uint64_t capacity;
    dev_t device; /* with `file`: the mapped file */
    ino_t file;
    int (*flush)(void); /* flushes what the caller has buffered for the mailbox; NULL if it buffers nothing */
    int failed;         /* errno of every further write; 0 without error */
    int flushed;        /* the head of the response was flushed before the first byte of the ring */
    pid_t parent;
    uint64_t head;     /* private copy, because other code in this process could overwrite the shared one */
    uint64_t tail;     /* the last value read; the current one is never smaller */
    uint64_t position; /* head modulo capacity */
};

/* The ring that was closed last: its mapping is used again if the next one has the same capacity, because the file only grows. */
static struct sluice_ring *spare;

static int fail(int error)
{
    errno = error;
    return -1;
}

/* Fails, and makes every further write fail with the same error. */
static int fail_permanently(struct sluice_ring *ring, int error)
{
    ring->failed = error;
    return fail(error);
}

/* ---- Attach and close ---- */

static void discard(struct sluice_ring *ring)
{
    if (!ring) return;
    munmap(ring->control, CONTROL_BYTES + 2 * (size_t)ring->capacity);
    free(ring);
}

/* Maps the control page and the data twice, in one reserved range of addresses. */
static int map(struct sluice_ring *ring, int memory, uint64_t capacity)
{
    size_t data = (size_t)capacity;
    char *at = mmap(NULL, CONTROL_BYTES + 2 * data, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return -1;
    const int access = PROT_READ | PROT_WRITE, fixed = MAP_SHARED | MAP_FIXED;
    if (mmap(at, CONTROL_BYTES + data, access, fixed, memory, 0) == MAP_FAILED ||
        mmap(at + CONTROL_BYTES + data, data, access, fixed, memory, CONTROL_BYTES) == MAP_FAILED) {
        int error = errno;
        munmap(at, CONTROL_BYTES + 2 * data);
        return fail(error);
    }
    ring->control = (struct control *)at;
    ring->data = at + CONTROL_BYTES;
    ring->capacity = capacity;
    return 0;
}

/* A ring with a mapping: the spare one if it is of this file and capacity, otherwise a new one. */
static struct sluice_ring *mapped(int memory, uint64_t capacity, const struct stat *file)
{
    struct sluice_ring *ring = spare;
    spare = NULL;
    if (ring && ring->capacity == capacity && ring->device == file->st_dev && ring->file == file->st_ino) return ring;
    discard(ring);
    ring = malloc(sizeof *ring);
    if (!ring) return NULL;
    if (map(ring, memory, capacity)) {
        int error = errno;
        free(ring);
        errno = error;
        return NULL;
    }
    ring->device = file->st_dev;
    ring->file = file->st_ino;
    return ring;
}

struct sluice_ring *sluice_ring_attach(int memory, uint64_t capacity)
{
    struct stat file;
    if (fstat(memory, &file)) return NULL;
    if (capacity == 0 || capacity > SIZE_MAX / 4 || (uint64_t)file.st_size < CONTROL_BYTES + capacity) {
        errno = EPROTO;
        return NULL;
    }
    struct sluice_ring *ring = mapped(memory, capacity, &file);
    if (!ring) return NULL;
    if (memcmp(ring->control->magic, "SLUICER1", 8) != 0 || ring->control->capacity != capacity) {
        discard(ring);
        errno = EPROTO;
        return NULL;
    }
    ring->flush = NULL;
    ring->failed = ring->flushed = 0;
    ring->head = ring->tail = ring->position = 0;
    ring->parent = getppid();
    return ring;
}

void sluice_ring_flushes(struct sluice_ring *ring, int (*flush)(void))
{
    ring->flush = flush;
}

int sluice_ring_close(struct sluice_ring *ring, uint64_t *committed)
{
    int failed = ring->failed;
    if (committed) *committed = ring->head;
    if (spare != ring) discard(spare);
    spare = ring;
    return failed ? fail(failed) : 0;
}

/* ---- Waiting for room ---- */

static int flush(struct sluice_ring *ring)
{
    return ring->flush ? ring->flush() : 0;
}

/* Reads tail and closed again. 0, or -1 if further writes are useless. */
static int update_tail(struct sluice_ring *ring)
{
    uint64_t tail = atomic_load_explicit(&ring->control->tail, memory_order_seq_cst); /* pairs with the server's tail store */
    if (atomic_load_explicit(&ring->control->closed, memory_order_seq_cst)) return fail_permanently(ring, EPIPE);
    if (tail < ring->tail || tail > ring->head) return fail_permanently(ring, EPROTO);
    ring->tail = tail;
    return 0;
}

static uint64_t room(const struct sluice_ring *ring)
{
    return ring->capacity - (ring->head - ring->tail);
}

/* 1 if the server has died: its end of the mailbox is closed, or the parent process has changed. */
static int is_server_gone(const struct sluice_ring *ring)
{
    struct pollfd mailbox = {.fd = STDOUT_FILENO, .events = 0};
    return getppid() != ring->parent || (poll(&mailbox, 1, 0) > 0 && (mailbox.revents & (POLLERR | POLLHUP | POLLNVAL)));
}

/* Waits until `wanted` bytes are free. Asks to be woken when at least a quarter is, so that one wake-up serves many writes. */
static int wait_for_room(struct sluice_ring *ring, uint64_t wanted)
{
    /* A limit, because a server that died cannot wake this process. */
    static const struct timespec sleep_max = {.tv_sec = 1};
    struct control *control = ring->control;
    uint64_t wake_bytes = wanted > ring->capacity / 4 ? wanted : ring->capacity / 4;
    if (update_tail(ring)) return -1;
    while (room(ring) < wanted) {
        if (flush(ring)) return fail_permanently(ring, errno); /* without the head the server would never read the ring */
        atomic_store_explicit(&control->wake_at, ring->head + wake_bytes - ring->capacity, memory_order_seq_cst);
        atomic_store_explicit(&control->writer_waits, 1, memory_order_seq_cst); /* pairs with the server's swap after its tail store */
        if (update_tail(ring)) return -1;
        if (room(ring) >= wanted) break;
        long status = syscall(SYS_futex, &control->writer_waits, FUTEX_WAIT, 1, &sleep_max, NULL, 0);
        if (status < 0 && errno != EAGAIN && is_server_gone(ring)) return fail_permanently(ring, EPIPE);
        if (update_tail(ring)) return -1;
    }
    atomic_store_explicit(&control->writer_waits, 0, memory_order_seq_cst); /* saves the server a needless futex call */
    return 0;
}

/* ---- Writing ---- */

void *sluice_ring_reserve(struct sluice_ring *ring, size_t wanted, size_t *granted)
{
    if (ring->failed || wanted == 0 || wanted > ring->capacity) {
        errno = ring->failed ? ring->failed : wanted ? EMSGSIZE : EINVAL;
        return NULL;
    }
    if (room(ring) < wanted && wait_for_room(ring, wanted)) return NULL;
    if (granted) *granted = (size_t)room(ring);
    return ring->data + ring->position;
}

static int ring_doorbell(struct sluice_ring *ring)
{
    if (atomic_exchange_explicit(&ring->control->reader_sleeps, 0, memory_order_seq_cst) == 0) return 0;
    return flush(ring) || sluice_mailbox_write("", 1) ? fail_permanently(ring, errno) : 0;
}

int sluice_ring_commit(struct sluice_ring *ring, size_t bytes)
{
    if (ring->failed) return fail(ring->failed);
    if (bytes > room(ring)) return fail(EINVAL);
    if (!ring->flushed) {
        if (flush(ring)) return fail_permanently(ring, errno);
        ring->flushed = 1;
    }
    ring->head += bytes;
    ring->position += bytes;
    if (ring->position >= ring->capacity) ring->position -= ring->capacity;
    struct control *control = ring->control;
    /* Publishes the bytes; pairs with the server's head load after it stored reader_sleeps. */
    atomic_store_explicit(&control->head, ring->head, memory_order_seq_cst);
    if (atomic_load_explicit(&control->closed, memory_order_seq_cst)) return fail_permanently(ring, EPIPE);
    return atomic_load_explicit(&control->reader_sleeps, memory_order_seq_cst) ? ring_doorbell(ring) : 0;
}

int sluice_ring_write(struct sluice_ring *ring, const void *from, size_t bytes)
{
    if (ring->failed) return fail(ring->failed);
    /* In chunks, so that the server sends the first while this process copies the next. */
    size_t chunk_max = (size_t)ring->capacity / 4;
    for (const char *at = from; bytes > 0;) {
        size_t chunk = bytes < chunk_max ? bytes : chunk_max;
        void *to = sluice_ring_reserve(ring, chunk, NULL);
        if (!to) return -1;
        memcpy(to, at, chunk);
        if (sluice_ring_commit(ring, chunk)) return -1;
        at += chunk;
        bytes -= chunk;
    }
    return 0;
}
