/* mailbox.c: writing to the mailbox: stdout, sentinels and callouts, in the right order.

   In a stream mailbox one LF after a sentinel belongs to the sentinel. So the end of a callout is always written with one; otherwise
   the server would drop the first LF of the script's output. In a record mailbox every sentinel is a record of its own. */
#include "internal.h"
#include "sluice.h"
#include "sluice_region.h"

#include <errno.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* For a stream: a 64 KiB body, its head and the sentinel fit in one write. */
#define STREAM_BUFFER_BYTES (128 * 1024)
/* The same if the server announces a region (region.c), through which all of it goes at the end. */
#define SHARED_BUFFER_BYTES (512 * 1024)
/* Replies that get the smaller buffer after one that did not fit the larger: the earlier the mailbox has bytes, the earlier the server sends them. */
#define SMALLER_REPLIES 31
/* For records, while WWW_GATEWAY_MRS is unknown: the usual size of output buffers, which the server knows. */
#define RECORD_BUFFER_BYTES 4096
/* The largest buffer for records: no route has to have larger ones. */
#define RECORD_BUFFER_BYTES_MAX (64 * 1024)

const char *sluice_mailbox_sentinel(enum sluice_sentinel which)
{
    static const char *const names[][2] = {
        [SLUICE_END] = {"CGIPLUSEOF", NULL}, /* in plain CGI, end-of-file ends the response */
        [SLUICE_ESCAPE] = {"CGIPLUSESC", "WWW_GATEWAY_ESC"},
        [SLUICE_CLOSE] = {"CGIPLUSEOT", "WWW_GATEWAY_EOT"},
    };
    static const char *texts[3];
    for (int i = 0; i < 2 && !texts[which] && names[which][i]; i++) {
        const char *value = getenv(names[which][i]);
        if (value && *value) texts[which] = strdup(value);
    }
    return texts[which];
}

int sluice_mailbox_keeps_records(void)
{
    static int known = -1;
    if (known < 0) {
        int type = 0;
        socklen_t size = sizeof type;
        known = getsockopt(STDOUT_FILENO, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET;
    }
    return known;
}

size_t sluice_mailbox_record_max(void)
{
    const char *text = sluice_variable("WWW_GATEWAY_MRS");
    unsigned long bytes = text ? strtoul(text, NULL, 10) : 0;
    return bytes ? bytes : RECORD_BUFFER_BYTES;
}

/* The size of stdout's buffer for records: a line that does not fit is written in blocks of this size. The server joins blocks that
   are a multiple of 4096 bytes. */
static size_t record_buffer_bytes(void)
{
    size_t most = sluice_mailbox_record_max();
    if (most > RECORD_BUFFER_BYTES_MAX) most = RECORD_BUFFER_BYTES_MAX;
    return most < RECORD_BUFFER_BYTES ? most : most / RECORD_BUFFER_BYTES * RECORD_BUFFER_BYTES;
}

/* Bytes that the C library keeps for ungetc() at the start of a buffer. */
#ifdef __GLIBC__
#define STDIO_OFFSET ((size_t)0)
#else
#define STDIO_OFFSET ((size_t)8) /* musl */
#endif

/* stdout's buffer. */
static char stream[SHARED_BUFFER_BYTES];

static struct {
    size_t bytes;           /* of `stream` that stdout has */
    unsigned smaller_count; /* replies to come that get the smaller buffer */
} buffer;

/* The last byte of stdout's buffer is not 0 once that was full. Then stdio has written it, unless it was emptied here. */
static char *last_byte(void)
{
    return stream + buffer.bytes - 1;
}

/* The first request decides whether there are regions; a later one may have none because all are being sent. */
static size_t stream_buffer_bytes(void)
{
    static int has_regions = -1;
    if (has_regions < 0) has_regions = sluice_region_bytes(sluice_variable("WWW_GATEWAY_REGION")) >= SHARED_BUFFER_BYTES;
    if (!has_regions) return STREAM_BUFFER_BYTES;
    if (!buffer.smaller_count) return SHARED_BUFFER_BYTES;
    buffer.smaller_count--;
    return STREAM_BUFFER_BYTES;
}

/* 1 if stdout has the buffer that it was given here: the script may have given it another one. */
static int has_own_buffer(void)
{
    return __fbufsize(stdout) + STDIO_OFFSET == buffer.bytes;
}

void sluice_mailbox_open(void)
{
    if (isatty(STDOUT_FILENO)) return;
    int keeps_records = sluice_mailbox_keeps_records();
    size_t wanted = keeps_records ? record_buffer_bytes() : stream_buffer_bytes();
    if (buffer.bytes != wanted && (!buffer.bytes || has_own_buffer())) {
        fflush(stdout);
        /* Records: one for each line, because the server would otherwise end a line where a short write ended. */
        setvbuf(stdout, stream, keeps_records ? _IOLBF : _IOFBF, wanted);
        buffer.bytes = wanted;
    }
    *last_byte() = '\0';
}

int sluice_mailbox_flush(void)
{
    if (fflush(stdout) != 0) return -1;
    if (!ferror(stdout)) return 0;
    errno = EIO; /* an earlier write failed and its data is lost */
    return -1;
}

/* In parts that are no larger than a record and end with a newline if there is one. Otherwise stdio would write what is larger than its
   buffer at once. */
static size_t put_records(const char *from, size_t bytes)
{
    size_t most = sluice_mailbox_record_max(), written = 0;
    while (written < bytes) {
        size_t part = bytes - written < most ? bytes - written : most;
        const char *newline = part < bytes - written ? memrchr(from + written, '\n', part) : NULL;
        if (newline) part = (size_t)(newline - from) + 1 - written;
        size_t done = fwrite(from + written, 1, part, stdout);
        written += done;
        if (done < part) break;
    }
    return written;
}

int sluice_mailbox_write(const void *bytes, size_t count)
{
    const char *from = bytes;
    while (count > 0) {
        ssize_t done = write(STDOUT_FILENO, from, count);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return -1;
        from += done;
        count -= (size_t)done;
    }
    return 0;
}

/* 1 if the `pending` bytes of stdout are at the start of `stream`, with these last ones, which were printed just now. A script may have given stdout
   another buffer, and a C library may use this one in another way. */
static int is_in_stream(size_t pending, const char *last, size_t length)
{
    return !ferror(stdout) && __fpending(stdout) == pending && pending + STDIO_OFFSET <= sizeof stream &&
           memcmp(stream + STDIO_OFFSET + pending - length, last, length) == 0;
}

/* Prints the sentinel. 1 if it and the `pending` bytes before it are in `stream`. */
static int print_end(const char *end, size_t pending)
{
    size_t length = strlen(end);
    int fits = pending + length <= sizeof stream - STDIO_OFFSET;
    if (fits) stream[STDIO_OFFSET + pending] = '\0'; /* no sentinel of an earlier reply */
    fputs(end, stdout);
    return fits && is_in_stream(pending + length, end, length);
}

/* What is written to the mailbox at once: callouts, and what stands before and after them. */
static struct sluice_bytes line;

static int write_line(void)
{
    int failed = sluice_mailbox_write(line.at, line.length);
    line.length = 0;
    return failed;
}

static int add_text(const char *text)
{
    return sluice_bytes_add(&line, text, strlen(text));
}

/* Adds a callout of a stream mailbox to `line`. */
static int add_callout(const char *text, size_t length)
{
    return add_text(sluice_mailbox_sentinel(SLUICE_ESCAPE)) || add_text("\n") || sluice_bytes_add(&line, text, length) || add_text("\n") ||
                   add_text(sluice_mailbox_sentinel(SLUICE_CLOSE)) || add_text("\n")
               ? -1
               : 0;
}

/* Sends the first `pending` bytes of `stream`, the last `shared` of them through the region, and then `end`. Each callout is written at once, but the
   last with `end`, and the first with what is before it. */
static int send_shared(size_t pending, size_t shared, const char *end)
{
    struct sluice_region *region = sluice_reply_region();
    const char *from = stream + STDIO_OFFSET;
    char text[SLUICE_REGION_LINE_BYTES];
    __fpurge(stdout);
    line.length = 0;
    if (sluice_bytes_add(&line, from, pending - shared)) return -1;
    for (from += pending - shared; shared > 0;) {
        size_t part = sluice_region_put(region, from, shared);
        if (part == 0) {
            if (write_line()) return -1;
            if (sluice_reply_region_wait()) continue;
            if (sluice_mailbox_write(from, shared)) return -1;
            break;
        }
        if (add_callout(text, sluice_region_announce(region, text))) return -1;
        from += part;
        shared -= part;
        if (shared > 0 && write_line()) return -1;
    }
    *last_byte() = '\0';
    return add_text(end) ? -1 : write_line();
}

/* What does not fit stdout's buffer goes through the region, if there is one. */
static size_t put_stream(const char *from, size_t bytes)
{
    size_t done = 0;
    for (;;) {
        size_t pending = __fpending(stdout), room = has_own_buffer() && buffer.bytes > pending + STDIO_OFFSET ? buffer.bytes - STDIO_OFFSET - pending : 0;
        if (room == 0 || bytes - done < room) return done + fwrite(from + done, 1, bytes - done, stdout);
        /* What an earlier reply has left at the end of `stream` must not look like these bytes. */
        stream[STDIO_OFFSET + pending + room - 1] = (char)~from[done + room - 1];
        done += fwrite(from + done, 1, room, stdout);
        pending += room;
        size_t compared = room < 64 ? room : 64;
        size_t shared = is_in_stream(pending, from + done - compared, compared) ? sluice_reply_region_share(stream + STDIO_OFFSET, pending) : 0;
        if (shared == 0) return done + fwrite(from + done, 1, bytes - done, stdout);
        if (send_shared(pending, shared, "")) return 0;
    }
}

size_t sluice_mailbox_put(const char *from, size_t bytes)
{
    return sluice_mailbox_keeps_records() ? put_records(from, bytes) : put_stream(from, bytes);
}

int sluice_mailbox_end(void)
{
    const char *end = sluice_mailbox_sentinel(SLUICE_END);
    if (!end) return sluice_mailbox_flush();
    if (sluice_mailbox_keeps_records()) {
        int failed = sluice_mailbox_flush();
        return sluice_mailbox_write(end, strlen(end)) || failed ? -1 : 0;
    }
    size_t pending = __fpending(stdout), shared = 0;
    if (buffer.bytes == SHARED_BUFFER_BYTES && *last_byte()) buffer.smaller_count = SMALLER_REPLIES;
    if (print_end(end, pending)) shared = sluice_reply_region_share(stream + STDIO_OFFSET, pending);
    return shared ? send_shared(pending, shared, end) : sluice_mailbox_flush();
}

static int write_text(const char *text)
{
    return sluice_mailbox_write(text, strlen(text));
}

int sluice_mailbox_callout(const char *text, size_t length)
{
    const char *escape = sluice_mailbox_sentinel(SLUICE_ESCAPE), *close = sluice_mailbox_sentinel(SLUICE_CLOSE);
    if (!escape || !close || !sluice_cgiplusin_exists()) {
        errno = ENOTSUP;
        return -1;
    }
    if (sluice_mailbox_flush()) return -1;
    if (sluice_mailbox_keeps_records())
        return write_text(escape) || sluice_mailbox_write(text, length) || write_text(close) ? -1 : 0;
    line.length = 0;
    return add_callout(text, length) ? -1 : write_line();
}
