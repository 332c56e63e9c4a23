/* A script in C for the chaos test: CGI and CGIplus. Each response carries a value of its request. PATH_INFO names the action, the query is
   SIZE+VALUE: so many bytes of "VALUE\n", repeated, by the mailbox or by the ring; a body that is sent back; or lies in shared memory. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sluice.h"

/* The layout of the control page: docs/internals/memory-buffer.md. */
enum { CAPACITY = 8, HEAD = 64, WAKE_AT = 72, WRITER_WAITS = 80, TAIL = 128, READER_SLEEPS = 136, CLOSED = 140, CONTROL = 4096 };

static char block[65536];

static const char *variable(const char *name)
{
    const char *value = sluice_variable(name);
    return value ? value : "";
}

/* The parts of the query; a block of lines with the value, and its size. */
static const char *value_of(unsigned long long *size)
{
    char *end;
    *size = strtoull(variable("QUERY_STRING"), &end, 10);
    return *end ? end + 1 : end;
}

static size_t fill(const char *value)
{
    size_t line = strlen(value) + 1, filled = 0;
    for (; filled + line <= sizeof block; filled += line) {
        memcpy(block + filled, value, line - 1);
        block[filled + line - 1] = '\n';
    }
    return filled;
}

static void produce(int (*write_bytes)(const void *, size_t))
{
    unsigned long long left;
    size_t filled = fill(value_of(&left));
    while (left > 0) {
        size_t part = left < filled ? left : filled;
        if (write_bytes(block, part) != 0)
            exit(5);
        left -= part;
    }
}

static void out(void)
{
    sluice_respond("text/plain");
    produce(sluice_write);
}

static void ring(void)
{
    if (sluice_buffer_begin(1 << 20, NULL) != 0) {
        /* No memory, or no room in the budget of the server. */
        sluice_fail(503, "no memory buffer");
        return;
    }
    sluice_respond("text/plain");
    produce(sluice_buffer_write);
    if (sluice_buffer_end() != 0)
        exit(6);
}

static void echo(void)
{
    ssize_t got;
    sluice_respond("application/octet-stream");
    printf("%s\n", variable("QUERY_STRING"));
    while ((got = sluice_body_read(block, sizeof block)) > 0)
        sluice_write(block, got);
    if (got < 0)
        exit(7);
}

/* Reads a body and says how long it was. */
static void sink(void)
{
    unsigned long long all = 0;
    for (ssize_t got; (got = sluice_body_read(block, sizeof block)) > 0;)
        all += got;
    sluice_respond("text/plain");
    printf("%llu\n", all);
}

/* Waits for one byte of the named pipe of the test. */
static void wait_at_gate(void)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/gate", getenv("PROBE_DIR"));
    int gate = open(path, O_RDONLY);
    if (gate < 0 || read(gate, block, 1) != 1)
        exit(9);
    close(gate);
    sluice_respond("text/plain");
    printf("%s\n", variable("QUERY_STRING"));
}

static void process(void)
{
    sluice_respond("text/plain");
    printf("%s %d\n", variable("QUERY_STRING"), getpid());
}

static void poke(int file, off_t offset, unsigned long long number, size_t bytes)
{
    if (pwrite(file, &number, bytes, offset) < 0)
        exit(8);
}

/* Writes to the ring as it should, and meanwhile changes what it must not: the number in the query says what. */
static void lie(void)
{
    unsigned long long which, capacity = 0;
    const char *value = value_of(&which);
    size_t filled = fill(value);
    struct sluice_buffer got;
    if (sluice_buffer_begin(1 << 16, &got) != 0) {
        sluice_fail(503, "no memory buffer");
        return;
    }
    int file = open(got.name, O_RDWR);
    sluice_respond("text/plain");
    fflush(stdout);
    sluice_buffer_write(block, filled);
    switch (which) {
    case 0: poke(file, HEAD, ~0ull, 8); break;
    case 1: poke(file, HEAD, 0, 8); break;
    case 2: poke(file, CAPACITY, ~0ull, 8); poke(file, TAIL, ~0ull, 8); poke(file, CLOSED, 1, 4); break;
    case 3: poke(file, WAKE_AT, ~0ull, 8); poke(file, WRITER_WAITS, ~0ull, 4); poke(file, READER_SLEEPS, ~0ull, 4); break;
    case 4:
        if (fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, CONTROL + got.bytes) != 0)
            exit(8);
        break;
    case 5:
        if (pread(file, &capacity, 8, CAPACITY) != 8)
            exit(8);
        poke(file, HEAD, filled + capacity, 8);
        break;
    case 6:
        if (ftruncate(file, 0) == 0 || ftruncate(file, 1ll << 40) == 0)
            printf("the memory can be shrunk or grown\n");
        break;
    default:
        memset(block, 0xff, CONTROL);
        if (pwrite(file, block, CONTROL, 0) != CONTROL)
            exit(8);
        fill(value);
    }
    for (int i = 0; i < 100; i++)
        if (write(1, "", 1) != 1)
            exit(8);
    sluice_buffer_write(block, filled);
    sluice_buffer_end();
    close(file);
}

int main(void)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } actions[] = {{"/out", out}, {"/ring", ring}, {"/echo", echo}, {"/lie", lie},
                 {"/sink", sink}, {"/wait", wait_at_gate}, {"/process", process}};
    while (sluice_accept()) {
        for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
            if (strcmp(actions[i].name, variable("PATH_INFO")) == 0)
                actions[i].run();
        sluice_finish();
    }
}
