/* bulk: sends numbered bytes through a ring, in chunks of every size.

       ?<bytes>+<buffer bytes>+<largest chunk>+<letters>

   letters   c: with a Content-Length    t: "tail" through the mailbox after BUFFER-END    n: no BUFFER-END
             g: reports "half" in the middle and waits at the gate "go", so that the test can act first

   A failed write is reported to "failed". These three are FIFOs in $TEST_DIR.

   The body is the 32-bit numbers 0, 1, 2 … so that every position is recognisable. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sluice.h"

static unsigned seed;

static uint64_t key(const char *name)
{
    const char *value = sluice_variable(name);
    return value ? strtoull(value, NULL, 10) : 0;
}

static int has_letter(char letter)
{
    const char *letters = sluice_variable("KEY_4");
    return letters && strchr(letters, letter) != NULL;
}

static size_t some(uint64_t most)
{
    seed = seed * 1103515245u + 12345u;
    return 1 + (seed >> 4) % most;
}

static void number(unsigned char *to, uint64_t from, size_t count)
{
    for (size_t i = 0; i < count; i++) to[i] = (unsigned char)((from + i) / 4 >> 8 * ((from + i) % 4));
}

/* Writes `count` bytes by one of the library's two methods. */
static int put(uint64_t at, size_t count, uint64_t capacity)
{
    static unsigned char block[1 << 20];
    if (count > capacity || some(2) == 1) {
        number(block, at, count);
        return sluice_buffer_write(block, count);
    }
    unsigned char *room = sluice_buffer_reserve(count, NULL);
    if (!room) return -1;
    number(room, at, count);
    return sluice_buffer_commit(count);
}

/* Opens the test's FIFO of this name; NULL if the test created none. */
static FILE *fifo(const char *name, const char *mode)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", getenv("TEST_DIR"), name);
    return access(path, F_OK) ? NULL : fopen(path, mode);
}

static void report(const char *name, const char *text)
{
    FILE *listener = fifo(name, "w");
    if (listener) fprintf(listener, "%s\n", text), fclose(listener);
}

static void wait_at(const char *name)
{
    char line[16];
    FILE *gate = fifo(name, "r");
    if (gate) fgets(line, sizeof line, gate), fclose(gate);
}

static int send(uint64_t total, uint64_t chunk_max, uint64_t capacity)
{
    int waits = has_letter('g');
    for (uint64_t at = 0; at < total;) {
        if (waits && at >= total / 2) report("half", ""), wait_at("go"), waits = 0;
        size_t count = some(chunk_max);
        if (count > total - at) count = (size_t)(total - at);
        if (put(at, count, capacity)) return -1;
        at += count;
    }
    return 0;
}

static void respond(void)
{
    struct sluice_buffer buffer;
    uint64_t total = key("KEY_1"), chunk_max = key("KEY_3");
    if (sluice_buffer_begin(key("KEY_2"), &buffer)) {
        printf("Status: 500\nContent-Type: text/plain\n\nbegin: %s\n", strerror(errno));
        return;
    }
    printf("Content-Type: application/octet-stream\nX-Buffer: %s %llu\n", buffer.name, (unsigned long long)buffer.bytes);
    if (has_letter('c')) printf("Content-Length: %llu\n", (unsigned long long)(total + (has_letter('t') ? 4 : 0)));
    printf("X-Usage: %lu\nX-Pid: %d\n\n", sluice_uses(), (int)getpid());
    if (send(total, chunk_max && chunk_max <= 1 << 20 ? chunk_max : 1 << 16, buffer.bytes)) {
        report("failed", strerror(errno));
        return;
    }
    if (has_letter('n')) return;
    if (sluice_buffer_end()) fprintf(stderr, "end failed: %s\n", strerror(errno));
    if (has_letter('t')) printf("tail");
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    while (sluice_accept()) {
        seed = 1;
        respond();
        sluice_finish();
    }
    return 0;
}
