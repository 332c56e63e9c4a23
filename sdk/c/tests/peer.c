/* peer: a minimal server in C for one membufdemo (or wasd_membuf) at a time: the reader's side of the ring with real atomics, at full
   speed.

       peer [--check] [--copy] [--ring <bytes>] <program> <query>...

   Prints the throughput of the body. The body is read without being used: from the mailbox into a 1 MiB buffer; from the ring not at
   all. --copy copies it out of the ring, the minimal cost of send(2); --check compares every byte. Exit 1: a byte was wrong or
   missing. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ESCAPE "$E-0123456789abcdef01234567-"
#define CLOSE "$D-0123456789abcdef01234567-"
#define CONTROL_BYTES 4096
#define MAILBOX_BYTES (1 << 20)

struct control {
    char magic[8];
    uint64_t capacity;
    char pad0[48];
    _Atomic uint64_t head, wake_at;
    _Atomic uint32_t writer_waits;
    char pad1[44];
    _Atomic uint64_t tail;
    _Atomic uint32_t reader_sleeps, closed;
};

static struct {
    int check, copy;
    uint64_t ring_bytes; /* 0: the size that the script requests */
    int memory, mailbox, cgiplusin;
    pid_t script;
    struct control *control;
    char *data;
    uint64_t capacity;
    uint64_t record, total, seen; /* of the body */
    uint64_t sleeps, wakes;
} peer;

static _Noreturn void give_up(const char *why)
{
    fprintf(stderr, "peer: %s (errno %s), %" PRIu64 " of %" PRIu64 " bytes\n", why, strerror(errno), peer.seen, peer.total);
    if (peer.script > 0) kill(peer.script, SIGKILL);
    exit(1);
}

/* ---- The body ---- */

static void check_bytes(const char *bytes, size_t count)
{
    for (size_t at = 0, run; at < count; at += run) {
        uint64_t position = peer.seen + at, left_in_block = peer.record - position % peer.record;
        run = count - at < left_in_block ? count - at : left_in_block;
        unsigned char value = (unsigned char)(position / peer.record & 0xff);
        if ((unsigned char)bytes[at] != value || memcmp(bytes + at, bytes + at + 1, run - 1) != 0) give_up("a wrong byte");
    }
}

static void receive(const char *bytes, size_t count)
{
    static char target[256 * 1024];
    if (peer.check) {
        check_bytes(bytes, count);
    } else if (peer.copy) {
        for (size_t at = 0; at < count; at += sizeof target)
            memcpy(target, bytes + at, count - at < sizeof target ? count - at : sizeof target);
        __asm__ volatile("" ::"r"(target) : "memory");
    }
    peer.seen += count;
}

/* ---- The ring ---- */

static void begin_ring(uint64_t kilobytes)
{
    uint64_t bytes = peer.ring_bytes ? peer.ring_bytes : kilobytes ? kilobytes << 10 : 1 << 20;
    bytes = (bytes + 4095) / 4096 * 4096;
    if (ftruncate(peer.memory, (off_t)(CONTROL_BYTES + bytes)) || fallocate(peer.memory, 0, 0, (off_t)(CONTROL_BYTES + bytes))) give_up("no memory");
    char *at = mmap(NULL, CONTROL_BYTES + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, peer.memory, 0);
    if (at == MAP_FAILED) give_up("no mapping");
    memset(at, 0, CONTROL_BYTES);
    peer.control = (struct control *)at;
    peer.data = at + CONTROL_BYTES;
    peer.capacity = peer.control->capacity = bytes;
    memcpy(peer.control->magic, "SLUICER1", 8);
}

/* Takes one contiguous chunk; 0 if the ring is empty. */
static int read_ring(void)
{
    uint64_t tail = peer.control->tail, head = peer.control->head;
    if (head < tail || head - tail > peer.capacity) give_up("invalid head counter");
    if (head == tail) return 0;
    uint64_t at = tail % peer.capacity, count = head - tail;
    if (count > peer.capacity - at) count = peer.capacity - at;
    if (count > 256 * 1024) count = 256 * 1024;
    receive(peer.data + at, count);
    peer.control->tail = tail + count;
    if (peer.control->writer_waits && tail + count >= peer.control->wake_at && atomic_exchange(&peer.control->writer_waits, 0)) {
        peer.wakes++;
        syscall(SYS_futex, &peer.control->writer_waits, FUTEX_WAKE, 1, NULL, NULL, 0);
    }
    return 1;
}

/* Reads until the ring is empty and the sleep is announced to the script. */
static void drain_ring(void)
{
    for (;;) {
        while (read_ring()) continue;
        peer.control->reader_sleeps = 1;
        if (peer.control->head == peer.control->tail) break;
        peer.control->reader_sleeps = 0;
    }
    peer.sleeps++;
}

/* ---- The mailbox ---- */

static char mailbox[MAILBOX_BYTES + 1];
static size_t mailbox_length;

/* 0 at end-of-file. */
static int read_mailbox(void)
{
    ssize_t got = read(peer.mailbox, mailbox + mailbox_length, MAILBOX_BYTES - mailbox_length);
    if (got < 0) give_up("mailbox");
    mailbox_length += (size_t)got;
    mailbox[mailbox_length] = '\0';
    return got > 0;
}

static void discard(size_t count)
{
    memmove(mailbox, mailbox + count, mailbox_length - count + 1);
    mailbox_length -= count;
}

/* Answers a callout at the start of the mailbox; 0 if it is incomplete. */
static int answer_callout(void)
{
    char *close = strstr(mailbox, CLOSE "\n"), answer[80];
    unsigned long long kilobytes;
    if (!close) return 0;
    const char *line = mailbox + strlen(ESCAPE) + 1;
    if (sscanf(line, "BUFFER-BEGIN: %lluk ring", &kilobytes) == 1) {
        begin_ring(kilobytes);
        snprintf(answer, sizeof answer, "200 /dev/fd/4 %" PRIu64 " ring\n", peer.capacity);
    } else {
        while (peer.control && read_ring()) continue;
        snprintf(answer, sizeof answer, "200 %" PRIu64 "\n", peer.seen);
    }
    if (write(peer.cgiplusin, answer, strlen(answer)) < 0) give_up("answer");
    discard((size_t)(close - mailbox) + strlen(CLOSE "\n"));
    return 1;
}

/* Reads everything before the body. */
static void read_head(void)
{
    char *end, *field;
    for (;;) {
        if (strncmp(mailbox, ESCAPE, strlen(ESCAPE)) == 0) {
            if (answer_callout()) continue;
        } else if ((end = strstr(mailbox, "\r\n\r\n"))) {
            break;
        }
        if (!read_mailbox()) give_up("no head");
    }
    if (strncmp(mailbox, "Status:", 7) == 0) give_up(mailbox);
    if (!(field = strstr(mailbox, "Content-Length: "))) give_up("no Content-Length");
    peer.total = strtoull(field + 16, NULL, 10);
    if (!(field = strstr(mailbox, "X-mrs: "))) give_up("no X-mrs");
    peer.record = strtoull(field + 7, NULL, 10);
    discard((size_t)(end + 4 - mailbox));
}

static void read_body_from_ring(void)
{
    for (;;) {
        drain_ring();
        while (mailbox_length > 0 && *mailbox == '\0') discard(1); /* doorbells */
        if (mailbox_length > 0 && !answer_callout() && strncmp(mailbox, ESCAPE, 3) != 0) give_up("neither doorbell nor callout");
        if (!read_mailbox()) break;
    }
    while (read_ring()) continue;
}

static void read_body_from_mailbox(void)
{
    do {
        receive(mailbox, mailbox_length);
        mailbox_length = 0;
    } while (read_mailbox());
}

/* ---- One run ---- */

static pid_t start(char *program, const char *query, int input, int output)
{
    static char query_string[300], keys[4][80];
    char *environment[] = {query_string, keys[0], keys[1], keys[2], keys[3], "WWW_GATEWAY_MRS=65536", "CGIPLUSIN=/dev/fd/3",
                           "WWW_GATEWAY_ESC=" ESCAPE, "WWW_GATEWAY_EOT=" CLOSE, NULL};
    snprintf(query_string, sizeof query_string, "QUERY_STRING=%s", query);
    for (int key = 0; key < 4; key++) {
        snprintf(keys[key], sizeof keys[key], "WWW_KEY_%d=%.*s", key + 1, (int)strcspn(query, "+"), query);
        query += strcspn(query, "+");
        query += *query == '+';
    }
    char *arguments[] = {program, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, output, 1);
    posix_spawn_file_actions_adddup2(&actions, input, 3);
    posix_spawn_file_actions_adddup2(&actions, peer.memory, 4);
    pid_t script;
    if (posix_spawn(&script, program, &actions, NULL, arguments, environment)) give_up("no script");
    posix_spawn_file_actions_destroy(&actions);
    return script;
}

/* Moves a descriptor above the numbers that the script gets. */
static int high(int descriptor)
{
    int moved = fcntl(descriptor, F_DUPFD_CLOEXEC, 20);
    close(descriptor);
    return moved;
}

static void run(char *program, const char *query)
{
    int output[2], cgiplusin[2], status;
    struct timespec began, ended;
    peer.control = NULL;
    peer.seen = peer.total = peer.sleeps = peer.wakes = mailbox_length = 0;
    mailbox[0] = '\0';
    if (pipe(output) || pipe(cgiplusin)) give_up("no pipe");
    for (int i = 0; i < 2; i++) output[i] = high(output[i]), cgiplusin[i] = high(cgiplusin[i]);
    fcntl(output[0], F_SETPIPE_SZ, MAILBOX_BYTES);
    peer.memory = high(memfd_create("ring", 0));
    peer.mailbox = output[0];
    peer.cgiplusin = cgiplusin[1];

    clock_gettime(CLOCK_MONOTONIC, &began);
    peer.script = start(program, query, cgiplusin[0], output[1]);
    close(output[1]);
    close(cgiplusin[0]);
    read_head();
    if (peer.control) read_body_from_ring();
    else read_body_from_mailbox();
    waitpid(peer.script, &status, 0);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    peer.script = 0;
    close(output[0]);
    close(cgiplusin[1]);
    close(peer.memory);
    if (peer.control) munmap(peer.control, CONTROL_BYTES + peer.capacity);

    double seconds = (double)(ended.tv_sec - began.tv_sec) + (double)(ended.tv_nsec - began.tv_nsec) / 1e9;
    printf("%-20s %6.2f GB/s   %.3f s, record %" PRIu64 ", ring %" PRIu64 ", reader slept %" PRIu64 ", woke the writer %" PRIu64 "\n", query,
           (double)peer.seen / seconds / 1e9, seconds, peer.record, peer.control ? peer.capacity : 0, peer.sleeps, peer.wakes);
    if (status != 0 || peer.seen != peer.total) give_up("the body is incomplete");
}

int main(int count, char **arguments)
{
    int at = 1;
    for (; at < count && strncmp(arguments[at], "--", 2) == 0; at++) {
        if (strcmp(arguments[at], "--check") == 0) peer.check = 1;
        else if (strcmp(arguments[at], "--copy") == 0) peer.copy = 1;
        else if (strcmp(arguments[at], "--ring") == 0 && at + 1 < count) peer.ring_bytes = strtoull(arguments[++at], NULL, 10);
        else give_up("unknown option");
    }
    if (count - at < 2) give_up("usage: peer [--check] [--copy] [--ring <bytes>] <program> <query>...");
    for (int query = at + 1; query < count; query++) run(arguments[at], arguments[query]);
    return 0;
}
