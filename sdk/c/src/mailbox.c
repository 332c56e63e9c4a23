/* mailbox.c: writing to the mailbox: stdout, sentinels and callouts, in the right order.

   In a stream mailbox one LF after a sentinel belongs to the sentinel. So the end of a callout is always written with one; otherwise
   the server would drop the first LF of the script's output. In a record mailbox every sentinel is a record of its own. */
#include "internal.h"
#include "sluice.h"

#include <errno.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* For a stream: a 64 KiB body, its head and the sentinel fit in one write. */
#define STREAM_BUFFER_BYTES (128 * 1024)
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
static char stream[STREAM_BUFFER_BYTES];

void sluice_mailbox_open(void)
{
    static size_t open; /* the size in use */
    if (isatty(STDOUT_FILENO)) return;
    int keeps_records = sluice_mailbox_keeps_records();
    size_t wanted = keeps_records ? record_buffer_bytes() : sizeof stream;
    if (open == wanted) return;
    open = wanted;
    fflush(stdout);
    /* Records: one for each line, because the server would otherwise end a line where a short write ended. */
    setvbuf(stdout, stream, keeps_records ? _IOLBF : _IOFBF, wanted);
}

int sluice_mailbox_flush(void)
{
    if (fflush(stdout) != 0) return -1;
    if (!ferror(stdout)) return 0;
    errno = EIO; /* an earlier write failed and its data is lost */
    return -1;
}

/* In a record mailbox: in parts that are no larger than a record and end with a newline if there is one. Otherwise stdio would write what
   is larger than its buffer at once. */
size_t sluice_mailbox_put(const char *from, size_t bytes)
{
    if (!sluice_mailbox_keeps_records()) return fwrite(from, 1, bytes, stdout);
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

/* Prints the sentinel. 1 if it and the `pending` bytes before it are in `stream`, which their order shows: a script may have given stdout another
   buffer, and a C library may use this one in another way. */
static int print_end(const char *end, size_t pending)
{
    size_t length = strlen(end);
    int fits = pending + length <= sizeof stream - STDIO_OFFSET;
    char *after = stream + STDIO_OFFSET + (fits ? pending : 0);
    if (fits) *after = '\0'; /* no sentinel of an earlier reply */
    fputs(end, stdout);
    return fits && !ferror(stdout) && __fpending(stdout) == pending + length && memcmp(after, end, length) == 0;
}

/* Ends a reply whose last `shared` bytes are in the region: the first `kept` bytes in stdout's buffer, the callout and the sentinel, in one write. */
static int end_with_region(size_t kept, size_t shared)
{
    const char *escape = sluice_mailbox_sentinel(SLUICE_ESCAPE), *close = sluice_mailbox_sentinel(SLUICE_CLOSE);
    char *at = stream + STDIO_OFFSET;
    __fpurge(stdout);
    int length = sprintf(at + kept, "%s\n!BUFFER-REGION: %zu\n%s\n%s", escape, shared, close, sluice_mailbox_sentinel(SLUICE_END));
    return sluice_mailbox_write(at, kept + (size_t)length);
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
    if (print_end(end, pending)) shared = sluice_region_fill(stream + STDIO_OFFSET, pending);
    return shared ? end_with_region(pending - shared, shared) : sluice_mailbox_flush();
}

static int write_text(const char *text)
{
    return sluice_mailbox_write(text, strlen(text));
}

int sluice_mailbox_callout(const char *line, size_t length)
{
    const char *escape = sluice_mailbox_sentinel(SLUICE_ESCAPE), *close = sluice_mailbox_sentinel(SLUICE_CLOSE);
    if (!escape || !close || !sluice_cgiplusin_exists()) {
        errno = ENOTSUP;
        return -1;
    }
    if (sluice_mailbox_flush()) return -1;
    if (sluice_mailbox_keeps_records())
        return write_text(escape) || sluice_mailbox_write(line, length) || write_text(close) ? -1 : 0;
    static struct sluice_bytes whole;
    size_t wanted = strlen(escape) + strlen(close) + length + 4;
    if (whole.capacity < wanted) {
        char *at = realloc(whole.at, wanted);
        if (!at) return -1;
        whole.at = at;
        whole.capacity = wanted;
    }
    whole.length = (size_t)snprintf(whole.at, whole.capacity, "%s\n%.*s\n%s\n", escape, (int)length, line, close);
    return sluice_mailbox_write(whole.at, whole.length);
}
