/* probe: a script for the tests. The variable PROBE selects an action; the response shows how the library behaved. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sluice.h"

static const char *const errors[] = {
    [EPIPE] = "EPIPE",     [EPROTO] = "EPROTO",   [EINVAL] = "EINVAL",     [EMSGSIZE] = "EMSGSIZE", [ENOTSUP] = "ENOTSUP", [EALREADY] = "EALREADY",
    [EFBIG] = "EFBIG",     [ENOMEM] = "ENOMEM",   [ENOTCONN] = "ENOTCONN", [EIO] = "EIO",           [ENOENT] = "ENOENT",
};

static const char *error_name(int error)
{
    static char number[16];
    snprintf(number, sizeof number, "%d", error);
    return error == 0 ? "none" : error < (int)(sizeof errors / sizeof *errors) && errors[error] ? errors[error] : number;
}

static const char *argument(const char *name, const char *otherwise)
{
    const char *value = sluice_variable(name);
    return value ? value : otherwise;
}

static void head(void)
{
    printf("Content-Type: text/plain\n\n");
}

static void show_variable(void)
{
    head();
    printf("%s", argument(argument("WANTED", ""), "(none)"));
}

static void show_uses(void)
{
    head();
    printf("%lu %s", sluice_uses(), sluice_is_persistent() ? "persistent" : "once");
}

static void echo_body(void)
{
    char chunk[64];
    ssize_t got;
    head();
    while ((got = sluice_body_read(chunk, strtoul(argument("CHUNK", "64"), NULL, 10))) > 0) fwrite(chunk, 1, (size_t)got, stdout);
    printf("|%zd", got);
}

/* Each line of the body is a callout. */
static void make_callouts(void)
{
    static char lines[40000], answer[300];
    size_t length = 0;
    ssize_t got;
    while ((got = sluice_body_read(lines + length, sizeof lines - 1 - length)) > 0) length += (size_t)got;
    lines[length] = '\0';
    head();
    for (char *at = lines, *line; (line = strsep(&at, "\n")) && at;) {
        for (char *mark = line; *mark; mark++)
            if (*mark == '\\') *mark = '\n'; /* how a test puts a line break into a request */
        int code = sluice_callout(answer, strtoul(argument("ANSWER_SIZE", "300"), NULL, 10), "%s", line);
        printf("%d %s\n", code, code < 0 ? error_name(errno) : answer);
    }
}

/* Output that begins with a line feed directly after a callout, by stdio and by write(2). */
static void mix_output(void)
{
    head();
    printf("one");
    sluice_callout(NULL, 0, "NOOP:");
    printf("\ntwo");
    fflush(stdout);
    if (write(STDOUT_FILENO, "\nthree", 6) != 6) exit(9);
    sluice_callout(NULL, 0, "!NOOP:");
    printf("\nfour");
}

/* ---- The memory buffer: the body is the 32-bit numbers 0, 1, 2 …, so that a test detects every misplaced byte ---- */

static unsigned seed;

/* A pseudo-random number from 1 to `most`. */
static size_t some(size_t most)
{
    seed = seed * 1103515245u + 12345u;
    return 1 + (seed >> 8) % most;
}

static unsigned char byte_at(uint64_t at)
{
    return (unsigned char)(at / 4 >> 8 * (at % 4));
}

static void number(unsigned char *to, uint64_t from, size_t count)
{
    for (size_t i = 0; i < count; i++) to[i] = byte_at(from + i);
}

/* Writes `count` bytes in one of the two ways. */
static int put(uint64_t at, size_t count, uint64_t capacity)
{
    static unsigned char block[1 << 16];
    if (some(2) == 1 || count > capacity) {
        number(block, at, count);
        return sluice_buffer_write(block, count);
    }
    size_t granted;
    unsigned char *room = sluice_buffer_reserve(count, &granted);
    if (!room) return -1;
    if (granted < count || granted > capacity) exit(7);
    number(room, at, granted); /* all granted bytes are writable */
    return sluice_buffer_commit(count);
}

static void use_buffer(void)
{
    uint64_t total = strtoull(argument("TOTAL", "0"), NULL, 10);
    size_t chunk_max = strtoul(argument("CHUNK", "1000"), NULL, 10);
    seed = (unsigned)strtoul(argument("SEED", "1"), NULL, 10);
    struct sluice_buffer buffer;
    if (sluice_buffer_begin(strtoull(argument("BUFFER", "0"), NULL, 10), &buffer)) {
        head();
        printf("begin %s", error_name(errno));
        return;
    }
    printf("Content-Type: application/octet-stream\nX-Buffer: %s %llu\n\n", buffer.name, (unsigned long long)buffer.bytes);
    for (uint64_t at = 0; at < total;) {
        size_t count = some(chunk_max);
        if (count > total - at) count = (size_t)(total - at);
        if (put(at, count, buffer.bytes)) {
            fprintf(stderr, "write %s\n", error_name(errno));
            /* further writes fail, too */
            fprintf(stderr, "again %s\n", sluice_buffer_write("x", 1) ? error_name(errno) : "written");
            fprintf(stderr, "end %s\n", sluice_buffer_end() ? error_name(errno) : "ended");
            return;
        }
        at += count;
    }
    if (strcmp(argument("END", "yes"), "yes") == 0) {
        if (sluice_buffer_end()) fprintf(stderr, "end %s\n", error_name(errno));
        else printf("%s", argument("TAIL", ""));
    }
}

static void misuse_buffer(void)
{
    struct sluice_buffer buffer;
    char text[1024] = "", *at = text;
#define SAY(call) at += sprintf(at, "%s ", (call) ? error_name(errno) : "fine")
    SAY(sluice_buffer_write("x", 1));
    SAY(!sluice_buffer_reserve(1, NULL));
    SAY(sluice_buffer_commit(0));
    SAY(sluice_buffer_end());
    SAY(sluice_buffer_begin(0, &buffer));
    SAY(sluice_buffer_begin(0, NULL));
    printf("Content-Type: text/plain\n\n");
    SAY(!sluice_buffer_reserve(0, NULL));
    SAY(!sluice_buffer_reserve(buffer.bytes + 1, NULL));
    SAY(sluice_buffer_commit(buffer.bytes + 1));
    SAY(sluice_buffer_write("", 0));
    SAY(sluice_buffer_end());
    SAY(sluice_buffer_end());
    printf("%s", text);
}

static const struct {
    const char *name;
    void (*run)(void);
} actions[] = {
    {"variable", show_variable}, {"uses", show_uses},     {"body", echo_body},      {"callouts", make_callouts},
    {"mix", mix_output},         {"buffer", use_buffer}, {"misuse", misuse_buffer},
};

int main(void)
{
    if (getenv("PROBE_IGNORES_SIGPIPE")) signal(SIGPIPE, SIG_IGN);
    while (sluice_accept()) {
        for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
            if (strcmp(actions[i].name, argument("PROBE", "")) == 0) actions[i].run();
        /* every second response is ended by sluice_accept() */
        if (sluice_uses() % 2 && sluice_finish()) fprintf(stderr, "finish %s\n", error_name(errno));
    }
    fprintf(stderr, "left %s\n", error_name(errno));
    return 0;
}
