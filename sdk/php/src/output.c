/* output.c: the mailbox: the reply, the end sentinel, callouts.

   Here: one buffer for head, body and end sentinel, so that a small reply is one write(2). A body that does not fit goes to the output region
   (region.c) in parts, and a callout takes the place of each in the buffer. Not here: the format of the head (sapi.c).
   A record mailbox keeps the boundaries of writes: each write is at most WWW_GATEWAY_MRS bytes there, and a sentinel is a write of its own. */
#include "engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define BUFFER_BYTES (64 * 1024)
/* For records: the server joins writes of a multiple of 4096 bytes. */
#define RECORD_UNIT_BYTES 4096
#define FAILED_BYTES_MAX 1000
/* A longer head leaves the body to the mailbox: the head stays in the buffer, with a callout after it. */
#define REGION_HEAD_BYTES_MAX (32 * 1024)
/* Two sentinels, and a line of sluice_region_announce(). */
#define REGION_CALLOUT_BYTES_MAX 512
#define REGION_SENTINELS_BYTES_MAX 400

enum state { BETWEEN, OPEN, ENDED };

static struct {
    const char *end, *escape, *close; /* sentinels */
    size_t end_length;
    bool keeps_records, asked_for_struct;
    bool can_share; /* callouts for the output region can be made */
    enum state state;
    size_t body;     /* bytes of the body that the script has written */
    bool is_sent;    /* a byte of the reply has been written */
    bool is_broken;  /* the server is gone */
    size_t used;
    size_t preamble; /* bytes at the start of the buffer that are no part of the reply */
    bool has_head;   /* the head is complete */
    size_t body_from; /* once `has_head`: where the bytes in the buffer begin that are nothing but body */
    char bytes[BUFFER_BYTES];
} output;

static const char *sentinel(const char *name)
{
    const char *text = getenv(name);
    return text && *text ? strdup(text) : NULL;
}

void output_open(void)
{
    int type = 0;
    socklen_t size = sizeof type;
    output.end = sentinel("CGIPLUSEOF");
    output.escape = sentinel("CGIPLUSESC");
    output.close = sentinel("CGIPLUSEOT");
    output.end_length = output.end ? strlen(output.end) : 0;
    output.keeps_records = getsockopt(engine.mailbox, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET;
    output.can_share = !output.keeps_records && output.escape && output.close &&
                       strlen(output.escape) + strlen(output.close) <= REGION_SENTINELS_BYTES_MAX;
}

/* ---- Writing ---- */

static size_t record_max(void)
{
    const char *text = records_value(V_RECORD_MAX);
    size_t bytes = text ? strtoul(text, NULL, 10) : RECORD_UNIT_BYTES;
    return bytes < RECORD_UNIT_BYTES ? (bytes ? bytes : 1) : bytes / RECORD_UNIT_BYTES * RECORD_UNIT_BYTES;
}

static bool write_all(const char *from, size_t count)
{
    while (count > 0 && !output.is_broken) {
        size_t part = output.keeps_records && count > record_max() ? record_max() : count;
        ssize_t done = write(engine.mailbox, from, part);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) {
            output.is_broken = true;
            return false;
        }
        from += done;
        count -= (size_t)done;
    }
    return !output.is_broken;
}

/* Writes the buffer, and `more` after it without copying it. */
static bool write_out(const char *more, size_t count)
{
    output.body_from = 0;
    size_t used = output.used, start = 0;
    if (!engine_is_own_process()) output.used = used = count = 0;
    if (used + count > output.preamble) output.is_sent = true;
    output.used = output.preamble = 0;
    if (output.keeps_records || used == 0 || count == 0) return write_all(output.bytes, used) && write_all(more, count);
    while (start < used && !output.is_broken) {
        struct iovec parts[2] = {{output.bytes + start, used - start}, {(void *)more, count}};
        ssize_t done = writev(engine.mailbox, parts, 2);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) {
            output.is_broken = true;
        } else if ((size_t)done < used - start) {
            start += (size_t)done;
        } else {
            size_t beyond = (size_t)done - (used - start);
            return write_all(more + beyond, count - beyond);
        }
    }
    return false;
}

/* Announces the present part of the region to the server: a callout at the end of the buffer, which is written before if that has no room. */
static void place_region(void)
{
    char text[REGION_CALLOUT_BYTES_MAX], line[SLUICE_REGION_LINE_BYTES];
    if (region_used() == 0) return;
    sluice_region_announce(region_get(), line);
    int length = snprintf(text, sizeof text, "%s\n%s\n%s\n", output.escape, line, output.close);
    if ((size_t)length > BUFFER_BYTES - output.used) write_out(NULL, 0);
    memcpy(output.bytes + output.used, text, (size_t)length);
    output.used += (size_t)length;
    output.body_from = output.used;
}

static bool write_buffer_and(const char *more, size_t count)
{
    place_region();
    return write_out(more, count);
}

/* Whether the body in the buffer, and `count` bytes after it, are for the region. */
static bool suits_region(size_t count)
{
    if (!output.can_share || !output.has_head || output.body_from > REGION_HEAD_BYTES_MAX) return false;
    if (region_used() > 0) return true;
    return output.used - output.body_from + count >= SLUICE_REGION_BYTES_MIN && engine_is_own_process();
}

static int ask(void *unused, const char *line, char *answer, size_t size)
{
    (void)unused;
    return output_ask(line, answer, size);
}

/* Waits for room in the region; all that was put there has been announced. The buffer is written before. */
static bool wait_for_room(void)
{
    return sluice_region_wait(region_get(), ask, NULL) > 0;
}

/* Whether the region has room for the body in the buffer, after a wait if `count` bytes follow it: at the end of a reply the mailbox takes what
   is left. */
static bool region_takes_body(size_t count)
{
    size_t room = sluice_region_room(region_get());
    if (region_used() > 0 || (room > 0 && room >= output.used - output.body_from)) return true;
    return count > 0 && wait_for_room();
}

/* Puts the body in the buffer, and `more` after it, into the region, part after part; the mailbox takes what the region does not. */
static bool put_into_region(const char *more, size_t count)
{
    struct sluice_region *region = region_get();
    if (region->used == 0) {
        sluice_region_put(region, output.bytes + output.body_from, output.used - output.body_from);
        output.used = output.body_from;
    }
    for (;;) {
        size_t taken = sluice_region_put(region, more, count);
        more += taken;
        count -= taken;
        if (count == 0) return true;
        if (!write_buffer_and(NULL, 0)) return false;
        if (sluice_region_room(region) == 0 && !wait_for_room()) return write_out(more, count);
    }
}

/* Puts a sentinel or the line of a callout, which are no body: the region would hide them from the server. */
static void put(const char *text, size_t length)
{
    place_region();
    if (length > BUFFER_BYTES - output.used) write_buffer_and(NULL, 0);
    memcpy(output.bytes + output.used, text, length);
    output.used += length;
    output.body_from = output.used;
}

bool output_write(const char *from, size_t count)
{
    if (output.state == BETWEEN) { /* a worker that writes while it boots: there is no reply that this could be a part of */
        ssize_t ignored = write(STDERR_FILENO, from, count);
        (void)ignored;
        return true;
    }
    if (output.state == ENDED) return true; /* after fastcgi_finish_request() */
    if (output.is_broken) return false;
    if (count > BUFFER_BYTES - output.used || count >= SLUICE_REGION_BYTES_MIN || region_used() > 0) {
        if (suits_region(count) && region_takes_body(count)) return put_into_region(from, count);
        /* What the region has comes first. */
        if (count > BUFFER_BYTES - output.used || region_used() > 0) {
            if (count >= BUFFER_BYTES / 2) return write_buffer_and(from, count);
            if (!write_buffer_and(NULL, 0)) return false;
        }
    }
    memcpy(output.bytes + output.used, from, count);
    output.used += count;
    return true;
}

bool output_flush(void)
{
    if (output.state != OPEN || (output.used == 0 && region_used() == 0)) return !output.is_broken;
    return write_buffer_and(NULL, 0);
}

void output_note_head(void)
{
    output.has_head = true;
    output.body_from = output.used;
}

void output_note_body(size_t count)
{
    output.body += count;
}

bool output_has_body(void)
{
    return output.body != 0;
}

size_t output_body_bytes(void)
{
    return output.body;
}

bool output_is_sent(void)
{
    return output.is_sent;
}

bool output_has_ended(void)
{
    return output.state == ENDED;
}

/* ---- Callouts ---- */

static void put_callout(const char *line, size_t length)
{
    /* In a stream the LF after a sentinel belongs to the sentinel. */
    const char *newline = output.keeps_records ? "" : "\n";
    put(output.escape, strlen(output.escape));
    if (output.keeps_records) write_buffer_and(NULL, 0);
    put(line, length);
    put("\n", 1);
    if (output.keeps_records) write_buffer_and(NULL, 0);
    put(output.close, strlen(output.close));
    put(newline, strlen(newline));
    if (output.keeps_records) write_buffer_and(NULL, 0);
}

bool output_callout(const char *line, size_t length)
{
    if (output.state != OPEN || !output.escape || !output.close) {
        errno = ENOTSUP;
        return false;
    }
    bool was_sent = output.is_sent || output.used > output.preamble || region_used() > 0;
    put_callout(line, length);
    bool is_written = output_flush();
    output.is_sent = was_sent;
    if (!is_written) errno = EPIPE;
    return is_written;
}

int output_ask(const char *line, char *answer, size_t size)
{
    char text[CALLOUT_BYTES_MAX + 1];
    *answer = '\0';
    if (!output_callout(line, strlen(line))) return -1;
    if (*line == '!' || *line == '#') return 0;
    if (records_line(text, sizeof text) < 3) {
        errno = EPIPE;
        return -1;
    }
    for (int i = 0; i < 3; i++)
        if (text[i] < '0' || text[i] > '9') return -1;
    snprintf(answer, size, "%s", text[3] ? text + 4 : "");
    return (text[0] - '0') * 100 + (text[1] - '0') * 10 + (text[2] - '0');
}

/* ---- Begin and end ---- */

void output_begin(void)
{
    output.state = OPEN;
    output.is_sent = false;
    output.body = 0;
    output.used = output.preamble = output.body_from = 0;
    output.has_head = false;
    region_begin();
    if (output.asked_for_struct || !output.escape || !output.close) return;
    output.asked_for_struct = true;
    const char *ask = records_have_socket() ? "!CGIPLUS: struct socket" : "!CGIPLUS: struct";
    put_callout(ask, strlen(ask));
    output.preamble = output.used;
    output.is_sent = false;
}

static void put_end(void)
{
    if (!engine_is_own_process()) return;
    if (output.keeps_records) write_buffer_and(NULL, 0);
    if (suits_region(0) && region_takes_body(0)) put_into_region(NULL, 0);
    if (output.end) put(output.end, output.end_length);
    write_buffer_and(NULL, 0);
    output.state = ENDED;
}

void output_end(void)
{
    if (output.state == OPEN) put_end();
}

void output_fail(const char *text)
{
    char line[FAILED_BYTES_MAX] = "!FAILED: ";
    size_t length = strlen(line);
    if (output.state != OPEN) return;
    for (; *text && length < sizeof line - 1; text++) line[length++] = (unsigned char)*text < ' ' || *text == 127 ? ' ' : *text;
    if (!output.is_sent) { /* what has not been sent is no part of the error page */
        output.used = output.preamble;
        region_close();
    }
    if (output.escape && output.close) put_callout(line, length);
    put_end();
}

void output_close_in_child(bool has_failed)
{
    if (has_failed && !output.is_sent) {
        output.used = output.preamble;
        region_close();
    }
    output_flush();
    output.state = ENDED;
}

void output_forget(void)
{
    output.used = output.preamble = 0;
    region_close();
}

void output_forget_in_child(void)
{
    output_forget();
    output.state = ENDED;
}
