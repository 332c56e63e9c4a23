/* buffer.c: the memory buffer: a ring in memory shared with the server, which sends from it to the client.

   Here: the writer's side. One writer (this process), one reader (the server).

       reserve -> the script fills -> commit: head moves -> the server sends -> tail moves -> room again

   The data area is mapped twice, one mapping directly after the other, so a chunk that wraps around its end is still contiguous.
   Sleep and wake-up, on both sides: announce the sleep, check the counter again, then sleep; the other side moves its counter, then
   checks for the announcement. All four accesses are sequentially consistent, so one side always sees the other's store. */
#include "internal.h"
#include "sluice.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
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

static struct {
    struct control *control; /* the mapping: control page, data, data again; reused for the next request */
    char *data;
    uint64_t capacity;
    int active;
    int failed;        /* errno of every further write; 0 without error */
    int flushed;       /* the head of the response was flushed before the first byte of the ring */
    pid_t parent;
    uint64_t head;     /* private copy, because other code in this process could overwrite the shared one */
    uint64_t tail;     /* the last value read; the current one is never smaller */
    uint64_t position; /* head modulo capacity */
} ring;

static int fail(int error)
{
    errno = error;
    return -1;
}

/* Fails, and makes every further write fail with the same error. */
static int fail_permanently(int error)
{
    ring.failed = error;
    return fail(error);
}

/* ---- Begin and end ---- */

static void unmap(void)
{
    if (ring.control) munmap(ring.control, CONTROL_BYTES + 2 * (size_t)ring.capacity);
    ring.control = NULL;
    ring.capacity = 0;
}

/* Maps the control page and the data twice, in one reserved range of addresses. */
static int map(int memory, uint64_t capacity)
{
    size_t data = (size_t)capacity;
    struct stat file;
    if (fstat(memory, &file)) return -1;
    if (capacity == 0 || capacity > SIZE_MAX / 4 || (uint64_t)file.st_size < CONTROL_BYTES + capacity) return fail(EPROTO);
    char *at = mmap(NULL, CONTROL_BYTES + 2 * data, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return -1;
    const int access = PROT_READ | PROT_WRITE, fixed = MAP_SHARED | MAP_FIXED;
    if (mmap(at, CONTROL_BYTES + data, access, fixed, memory, 0) == MAP_FAILED ||
        mmap(at + CONTROL_BYTES + data, data, access, fixed, memory, CONTROL_BYTES) == MAP_FAILED) {
        int error = errno;
        munmap(at, CONTROL_BYTES + 2 * data);
        return fail(error);
    }
    ring.control = (struct control *)at;
    ring.data = at + CONTROL_BYTES;
    ring.capacity = capacity;
    return 0;
}

/* Maps the buffer. The file only grows, so a mapping of the same capacity is still valid. */
static int open_memory(const char *name, uint64_t capacity)
{
    if (ring.control && ring.capacity == capacity) return 0;
    unmap();
    int memory = open(name, O_RDWR | O_CLOEXEC);
    if (memory < 0) return -1;
    int status = map(memory, capacity), error = errno;
    close(memory);
    errno = error;
    return status;
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

int sluice_buffer_begin(uint64_t bytes, struct sluice_buffer *got)
{
    return ring.active ? fail(EALREADY) : sluice_buffer_begin_unless_open(bytes, got);
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
    if (open_memory(buffer.name, capacity)) return -1;
    if (memcmp(ring.control->magic, "SLUICER1", 8) != 0 || ring.control->capacity != capacity) return fail(EPROTO);

    ring.active = 1;
    ring.failed = ring.flushed = 0;
    ring.head = ring.tail = ring.position = 0;
    ring.parent = getppid();
    buffer.bytes = capacity;
    if (got) *got = buffer;
    return 0;
}

void sluice_buffer_abandon(void)
{
    ring.active = 0;
}

int sluice_buffer_end(void)
{
    if (!ring.active) return fail(ENOTCONN);
    ring.active = 0;
    if (ring.failed) return fail(ring.failed);
    char answer[64];
    int code = sluice_callout(answer, sizeof answer, "BUFFER-END:");
    if (code != 200) return refused(code);
    return strtoull(answer, NULL, 10) == ring.head ? 0 : fail(EIO);
}

/* ---- Waiting for room ---- */

/* Reads tail and closed again. 0, or -1 if further writes are useless. */
static int update_tail(void)
{
    uint64_t tail = atomic_load_explicit(&ring.control->tail, memory_order_seq_cst); /* pairs with the server's tail store */
    if (atomic_load_explicit(&ring.control->closed, memory_order_seq_cst)) return fail_permanently(EPIPE);
    if (tail < ring.tail || tail > ring.head) return fail_permanently(EPROTO);
    ring.tail = tail;
    return 0;
}

static uint64_t room(void)
{
    return ring.capacity - (ring.head - ring.tail);
}

/* 1 if the server has died: its end of the mailbox is closed, or the parent process has changed. */
static int is_server_gone(void)
{
    struct pollfd mailbox = {.fd = STDOUT_FILENO, .events = 0};
    return getppid() != ring.parent || (poll(&mailbox, 1, 0) > 0 && (mailbox.revents & (POLLERR | POLLHUP | POLLNVAL)));
}

/* Waits until `wanted` bytes are free. Asks to be woken when at least a quarter is, so that one wake-up serves many writes. */
static int wait_for_room(uint64_t wanted)
{
    /* A limit, because a server that died cannot wake this process. */
    static const struct timespec sleep_max = {.tv_sec = 1};
    struct control *control = ring.control;
    uint64_t wake_bytes = wanted > ring.capacity / 4 ? wanted : ring.capacity / 4;
    if (update_tail()) return -1;
    while (room() < wanted) {
        if (sluice_mailbox_flush()) return fail_permanently(errno); /* without the head the server would never read the ring */
        atomic_store_explicit(&control->wake_at, ring.head + wake_bytes - ring.capacity, memory_order_seq_cst);
        atomic_store_explicit(&control->writer_waits, 1, memory_order_seq_cst); /* pairs with the server's swap after its tail store */
        if (update_tail()) return -1;
        if (room() >= wanted) break;
        long status = syscall(SYS_futex, &control->writer_waits, FUTEX_WAIT, 1, &sleep_max, NULL, 0);
        if (status < 0 && errno != EAGAIN && is_server_gone()) return fail_permanently(EPIPE);
        if (update_tail()) return -1;
    }
    atomic_store_explicit(&control->writer_waits, 0, memory_order_seq_cst); /* saves the server a needless futex call */
    return 0;
}

/* ---- Writing ---- */

static int may_write(void)
{
    if (!ring.active) return fail(ENOTCONN);
    return ring.failed ? fail(ring.failed) : 0;
}

void *sluice_buffer_reserve(size_t wanted, size_t *granted)
{
    if (may_write()) return NULL;
    if (wanted == 0 || wanted > ring.capacity) {
        errno = wanted ? EMSGSIZE : EINVAL;
        return NULL;
    }
    if (room() < wanted && wait_for_room(wanted)) return NULL;
    if (granted) *granted = (size_t)room();
    return ring.data + ring.position;
}

static int ring_doorbell(void)
{
    if (atomic_exchange_explicit(&ring.control->reader_sleeps, 0, memory_order_seq_cst) == 0) return 0;
    return sluice_mailbox_flush() || sluice_mailbox_write("", 1) ? fail_permanently(errno) : 0;
}

int sluice_buffer_commit(size_t bytes)
{
    if (may_write()) return -1;
    if (bytes > room()) return fail(EINVAL);
    if (!ring.flushed) {
        if (sluice_mailbox_flush()) return fail_permanently(errno);
        ring.flushed = 1;
    }
    ring.head += bytes;
    ring.position += bytes;
    if (ring.position >= ring.capacity) ring.position -= ring.capacity;
    struct control *control = ring.control;
    /* Publishes the bytes; pairs with the server's head load after it stored reader_sleeps. */
    atomic_store_explicit(&control->head, ring.head, memory_order_seq_cst);
    if (atomic_load_explicit(&control->closed, memory_order_seq_cst)) return fail_permanently(EPIPE);
    return atomic_load_explicit(&control->reader_sleeps, memory_order_seq_cst) ? ring_doorbell() : 0;
}

int sluice_buffer_write(const void *from, size_t bytes)
{
    if (may_write()) return -1;
    /* In chunks, so that the server sends the first while this process copies the next. */
    size_t chunk_max = (size_t)ring.capacity / 4;
    for (const char *at = from; bytes > 0;) {
        size_t chunk = bytes < chunk_max ? bytes : chunk_max;
        void *to = sluice_buffer_reserve(chunk, NULL);
        if (!to) return -1;
        memcpy(to, at, chunk);
        if (sluice_buffer_commit(chunk)) return -1;
        at += chunk;
        bytes -= chunk;
    }
    return 0;
}
