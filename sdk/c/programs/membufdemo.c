/* membufdemo: how fast does bulk output of a script reach the client, through the mailbox and through the memory buffer?

       ?<megabytes>+<m|b>+<record size>+<buffer megabytes>         ?5   ?100   ?5+b   ?250+m   ?100+m+32   ?100+b+32k+2

   1  MiB to send, 100 by default
   2  b: the memory buffer; anything else: the mailbox
   3  bytes of a record, that is, of one write to the mailbox; 32k and 1M are understood. Default: WWW_GATEWAY_MRS, else 8192
   4  MiB of the memory buffer; 0, the default, leaves it to the server

   Block n of the body is the byte n & 0xff, record size times; the last block is cut. So both ways send the same bytes when
   the record size is the same. Runs as CGI and CGIplus, and the mailbox half under any CGI server. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "content.h"
#include "query.h"
#include "sluice.h"

#define RECORD_MAX_BUFFER ((uint64_t)1 << 30) /* nothing is allocated; a record of the mailbox is (RECORD_MAX) */
#define BUFFER_MEGABYTES_MAX ((uint64_t)1 << 20)
/* Filled and handed over at a time: small enough to be still in the processor's cache when the server sends it. */
#define PIECE_MAX (128 * 1024)

/* The statuses of OpenVMS that WASD's program ends with: odd is success. */
enum { STATUS_BADPARAM = 20, STATUS_EXQUOTA = 28, STATUS_ABORT = 44, STATUS_INSFMEM = 292 };

struct order {
    uint64_t bytes, record, buffer_bytes;
    int by_buffer;
};

/* ---- The query ---- */

/* The largest record the mailbox takes, 0 when nobody says. */
static uint64_t mailbox_record_max(void)
{
    const char *text = sluice_variable("WWW_GATEWAY_MRS");
    uint64_t bytes = 0;
    return text && query_number(text, 0, UINT32_MAX, &bytes) == NUMBER_GOOD ? bytes : 0;
}

static int read_megabytes(struct order *order)
{
    char text[KEYWORD_BYTES];
    uint64_t megabytes = 0;
    query_keyword(1, text);
    if (query_number(text, 0, MEGABYTES_MAX, &megabytes) == NUMBER_BAD) {
        query_refuse(1, text, "megabytes", "a whole number from 1 to 16777216");
        return -1;
    }
    order->bytes = (megabytes ? megabytes : MEGABYTES_DEFAULT) << 20;
    return 0;
}

static int read_record(struct order *order)
{
    char text[KEYWORD_BYTES], may_be[64];
    uint64_t mailbox_max = mailbox_record_max(), record = 0;
    uint64_t most = order->by_buffer ? RECORD_MAX_BUFFER : mailbox_max ? mailbox_max : RECORD_MAX;
    query_keyword(3, text);
    if (query_number(text, 1, most, &record) == NUMBER_BAD) {
        snprintf(may_be, sizeof may_be, "1 to %" PRIu64 " bytes, as in 8192, 32k or 1M", most);
        query_refuse(3, text, "record size", may_be);
        return -1;
    }
    order->record = record ? record : mailbox_max ? mailbox_max : RECORD_DEFAULT;
    return 0;
}

static int read_buffer_size(struct order *order)
{
    char text[KEYWORD_BYTES];
    uint64_t megabytes = 0;
    query_keyword(4, text);
    if (query_number(text, 0, BUFFER_MEGABYTES_MAX, &megabytes) == NUMBER_BAD) {
        query_refuse(4, text, "memory buffer megabytes", "a whole number; 0 leaves it to the server");
        return -1;
    }
    order->buffer_bytes = megabytes << 20;
    return 0;
}

/* 0, or -1 when the response is a refusal. */
static int read_order(struct order *order)
{
    char text[KEYWORD_BYTES];
    query_keyword(2, text);
    order->by_buffer = *text == 'b';
    return read_megabytes(order) || read_record(order) || read_buffer_size(order) ? -1 : 0;
}

/* ---- The response ---- */

static void print_head(const struct order *order, const char *name, uint64_t buffer_bytes)
{
    printf("Content-Type: application/octet-stream\r\n"
           "Content-Length: %" PRIu64 "\r\n"
           "X-mrs: %" PRIu64 "\r\n"
           "X-mbuf: %s %" PRIu64 "\r\n\r\n",
           order->bytes, order->record, name, buffer_bytes);
}

static int has_no_body(void)
{
    const char *method = sluice_variable("REQUEST_METHOD");
    return method && strcmp(method, "HEAD") == 0;
}

static int write_all(const char *from, size_t bytes)
{
    while (bytes > 0) {
        ssize_t done = write(STDOUT_FILENO, from, bytes);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return -1;
        from += done;
        bytes -= (size_t)done;
    }
    return 0;
}

/* One write(2) a record, as the mailbox is measured. */
static int send_by_mailbox(const struct order *order)
{
    static char *block;
    static uint64_t block_bytes;
    if (block_bytes < order->record) {
        free(block);
        block = malloc(order->record);
        block_bytes = block ? order->record : 0;
        if (!block) {
            perror("membufdemo: record");
            exit(EXIT_FAILURE);
        }
    }
    print_head(order, "NULL", 0);
    if (fflush(stdout) != 0) return -1;
    uint64_t left = has_no_body() ? 0 : order->bytes;
    for (unsigned value = 0; left > 0; value++) {
        size_t bytes = left < order->record ? left : order->record;
        memset(block, (int)(value & 0xff), bytes);
        if (write_all(block, bytes)) return -1;
        left -= bytes;
    }
    return 0;
}

/* What the record size cuts is the content only: the ring is filled in place, in pieces of its own. */
static int fill_ring(const struct order *order, uint64_t capacity)
{
    struct pattern pattern = {.record = order->record, .left_in_block = order->record};
    uint64_t piece_max = capacity / 4 < PIECE_MAX ? capacity / 4 : PIECE_MAX;
    for (uint64_t left = order->bytes; left > 0;) {
        size_t bytes = left < piece_max ? left : piece_max;
        char *room = sluice_buffer_reserve(bytes, NULL);
        if (!room) return -1;
        fill(&pattern, room, bytes);
        if (sluice_buffer_commit(bytes)) return -1;
        left -= bytes;
    }
    return 0;
}

static int status_of(int error)
{
    switch (error) {
    case EINVAL: return STATUS_BADPARAM;
    case EFBIG: return STATUS_EXQUOTA;
    case ENOMEM: return STATUS_INSFMEM;
    default: return STATUS_ABORT;
    }
}

/* No buffer: a response that says so. A CGI process ends with that status; one that is kept is as good as before. */
static int refuse_buffer(int error)
{
    int status = status_of(error);
    printf("Status: 500\r\nContent-Type: text/plain\r\n\r\nMemBufLib: no memory buffer: %s (%%X%08X)\n", strerror(error), (unsigned)status);
    if (sluice_is_persistent()) return 0;
    sluice_finish();
    exit(status & 0xff);
}

static int send_by_buffer(const struct order *order)
{
    struct sluice_buffer buffer;
    if (sluice_buffer_begin(order->buffer_bytes, &buffer)) return refuse_buffer(errno);
    print_head(order, buffer.name, buffer.bytes);
    if (!has_no_body() && fill_ring(order, buffer.bytes)) return -1;
    return sluice_buffer_end();
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN); /* a client that leaves is a failed write: the exit status says so */
    while (sluice_accept()) {
        struct order order;
        if (read_order(&order) == 0 && (order.by_buffer ? send_by_buffer(&order) : send_by_mailbox(&order))) exit(STATUS_ABORT);
        if (sluice_finish()) exit(STATUS_ABORT);
    }
    return 0;
}
