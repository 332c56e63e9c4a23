/* cgiplusin.c: reading CGIPLUSIN, on which the server sends requests and the answers to callouts.

   After the first request, requests come by a socket, if the server has one (CGIPLUSSOCK) and request.c has asked for it; answers stay here. If the server has not heard of
   it, it closes the socket, and requests stay here, too.

   Here: a buffered reader of lines and of blocks with a given length. Not here: their meaning (request.c, callout.c).
   Between a request and the end of its response the server sends only answers, so the buffer here never holds a byte that a script
   that reads CGIPLUSIN itself would miss. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    int descriptor; /* 0: not opened yet; -1: there is none */
    int socket;     /* of requests; 0: not looked for yet; -1: the server has passed no socket, or it is closed */
    int uses_socket; /* the next read is from the socket */
    size_t start, end;
    char bytes[32 * 1024];
} cgiplusin;

/* `/dev/fd/3` is descriptor 3; any other name is opened. */
static int descriptor_of(const char *name)
{
    static const char prefix[] = "/dev/fd/";
    if (strncmp(name, prefix, sizeof prefix - 1) == 0) {
        char *after;
        long number = strtol(name + sizeof prefix - 1, &after, 10);
        if (*after == '\0' && number > 0 && number < 1024 && fcntl((int)number, F_GETFD) >= 0) return (int)number;
        return -1;
    }
    return open(name, O_RDONLY | O_CLOEXEC);
}

int sluice_cgiplusin_exists(void)
{
    if (cgiplusin.descriptor == 0) {
        const char *name = getenv("CGIPLUSIN");
        cgiplusin.descriptor = name && *name ? descriptor_of(name) : -1;
    }
    return cgiplusin.descriptor > 0;
}

int sluice_cgiplusin_has_socket(void)
{
    if (cgiplusin.socket == 0) {
        const char *text = getenv("CGIPLUSSOCK");
        char *after;
        long number = text && *text ? strtol(text, &after, 10) : -1;
        struct stat about;
        int is_there = number > 2 && number < 1024 && !*after && !fstat((int)number, &about) && S_ISSOCK(about.st_mode);
        /* Programs that the script starts are not to have it. */
        cgiplusin.socket = is_there && !fcntl((int)number, F_SETFD, FD_CLOEXEC) ? (int)number : -1;
    }
    return cgiplusin.socket > 0;
}

void sluice_cgiplusin_await_request(void)
{
    if (!sluice_cgiplusin_has_socket()) return;
    cgiplusin.uses_socket = 1;
    cgiplusin.start = cgiplusin.end; /* answers that nobody has read */
}

void sluice_cgiplusin_await_answers(void)
{
    cgiplusin.uses_socket = 0;
}

/* Reads what there is into the buffer. */
static ssize_t read_some(void)
{
    for (;;) {
        int from = cgiplusin.uses_socket ? cgiplusin.socket : cgiplusin.descriptor;
        ssize_t got = read(from, cgiplusin.bytes, sizeof cgiplusin.bytes);
        if (got < 0 && errno == EINTR) continue;
        if (got != 0 || !cgiplusin.uses_socket) return got;
        close(cgiplusin.socket);
        cgiplusin.socket = -1;
        cgiplusin.uses_socket = 0;
    }
}

/* Fills the buffer if it is empty. 1 if there are bytes, 0 at end-of-file, -1: errno. */
static int fill(void)
{
    if (cgiplusin.start < cgiplusin.end) return 1;
    if (!sluice_cgiplusin_exists()) {
        errno = ENOTSUP;
        return -1;
    }
    ssize_t got = read_some();
    if (got < 0) return -1;
    cgiplusin.start = 0;
    cgiplusin.end = (size_t)got;
    return got > 0;
}

/* Makes room for `more` bytes at the end. */
static int grow(struct sluice_bytes *bytes, size_t more)
{
    if (more > SLUICE_REQUEST_BYTES_MAX - bytes->length) {
        errno = EPROTO;
        return -1;
    }
    return sluice_bytes_room(bytes, more);
}

/* Moves `count` buffered bytes to the end of `into`. */
static int take(struct sluice_bytes *into, size_t count)
{
    if (grow(into, count)) return -1;
    memcpy(into->at + into->length, cgiplusin.bytes + cgiplusin.start, count);
    into->length += count;
    cgiplusin.start += count;
    return 0;
}

/* The error for a line or block that ends early: EPROTO at end-of-file, otherwise errno of read(2). */
static int truncated(int status)
{
    if (status == 0) errno = EPROTO;
    return -1;
}

int sluice_cgiplusin_read_line(struct sluice_bytes *into)
{
    for (int first = 1;; first = 0) {
        int status = fill();
        if (status <= 0) return first ? status : truncated(status);
        char *from = cgiplusin.bytes + cgiplusin.start;
        char *newline = memchr(from, '\n', cgiplusin.end - cgiplusin.start);
        if (take(into, newline ? (size_t)(newline - from) + 1 : cgiplusin.end - cgiplusin.start)) return -1;
        if (!newline) continue;
        into->at[into->length - 1] = '\0';
        return 1;
    }
}

int sluice_cgiplusin_read_block(struct sluice_bytes *into, size_t count)
{
    while (count > 0) {
        int status = fill();
        if (status <= 0) return truncated(status);
        size_t buffered = cgiplusin.end - cgiplusin.start < count ? cgiplusin.end - cgiplusin.start : count;
        if (take(into, buffered)) return -1;
        count -= buffered;
    }
    return 0;
}
