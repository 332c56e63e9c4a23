/* membufdemo: measures the throughput of bulk output, through the mailbox or through the memory buffer.

       ?<megabytes>+<m|b>+<record size>+<buffer megabytes>         ?5   ?100   ?5+b   ?250+m   ?100+m+32   ?100+b+32k+2

   1  MiB to send, 100 by default
   2  b: the memory buffer; anything else: the mailbox
   3  bytes in a record, that is, in one write to the mailbox; 32k and 1M are accepted. Default: WWW_GATEWAY_MRS, otherwise 8192
   4  MiB of the memory buffer; 0, the default: the server chooses

   Block n of the body is the byte n & 0xff, record size times; the last block is truncated. So both ways send the same bytes if the
   record size is the same. Runs as CGI and CGIplus; the mailbox also works under any other CGI server. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "content.h"
#include "query.h"
#include "sluice.h"

#define RECORD_MAX_BUFFER ((uint64_t)1 << 30) /* nothing is allocated for it, unlike a record of the mailbox (RECORD_MAX) */
#define BUFFER_MEGABYTES_MAX ((uint64_t)1 << 20)
/* Bytes filled and committed at a time: small enough to be in the processor's cache when the server sends them. */
#define CHUNK_MAX (128 * 1024)

/* The OpenVMS statuses with which WASD's program exits; even is failure. */
enum { STATUS_BADPARAM = 20, STATUS_EXQUOTA = 28, STATUS_NOPRIV = 36, STATUS_ABORT = 44, STATUS_INSFMEM = 292 };

struct transfer {
    uint64_t bytes, record, buffer_bytes;
    int by_buffer;
};

/* ---- The query ---- */

/* The largest record that the mailbox accepts, 0 if unknown. */
static uint64_t mailbox_record_max(void)
{
    const char *text = sluice_variable("WWW_GATEWAY_MRS");
    uint64_t bytes = 0;
    return text && query_number(text, 0, UINT32_MAX, &bytes) == NUMBER_GOOD ? bytes : 0;
}

static int read_megabytes(struct transfer *transfer)
{
    char text[KEYWORD_BYTES];
    uint64_t megabytes = 0;
    query_keyword(1, text);
    if (query_number(text, 0, MEGABYTES_MAX, &megabytes) == NUMBER_BAD) {
        query_refuse(1, text, "megabytes", "a whole number from 1 to 16777216");
        return -1;
    }
    transfer->bytes = (megabytes ? megabytes : MEGABYTES_DEFAULT) << 20;
    return 0;
}

static int read_record(struct transfer *transfer)
{
    char text[KEYWORD_BYTES], may_be[64];
    uint64_t mailbox_max = mailbox_record_max(), record = 0;
    uint64_t most = transfer->by_buffer ? RECORD_MAX_BUFFER : mailbox_max ? mailbox_max : RECORD_MAX;
    query_keyword(3, text);
    if (query_number(text, 1, most, &record) == NUMBER_BAD) {
        snprintf(may_be, sizeof may_be, "1 to %" PRIu64 " bytes, as in 8192, 32k or 1M", most);
        query_refuse(3, text, "record size", may_be);
        return -1;
    }
    transfer->record = record ? record : mailbox_max ? mailbox_max : RECORD_DEFAULT;
    return 0;
}

static int read_buffer_size(struct transfer *transfer)
{
    char text[KEYWORD_BYTES];
    uint64_t megabytes = 0;
    query_keyword(4, text);
    if (query_number(text, 0, BUFFER_MEGABYTES_MAX, &megabytes) == NUMBER_BAD) {
        query_refuse(4, text, "memory buffer megabytes", "a whole number; 0 leaves it to the server");
        return -1;
    }
    transfer->buffer_bytes = megabytes << 20;
    return 0;
}

/* Parses the query. 0, or -1 if it was invalid and has been answered. */
static int read_query(struct transfer *transfer)
{
    char text[KEYWORD_BYTES];
    query_keyword(2, text);
    transfer->by_buffer = *text == 'b';
    return read_megabytes(transfer) || read_record(transfer) || read_buffer_size(transfer) ? -1 : 0;
}

/* ---- The response ---- */

static void print_head(const struct transfer *transfer, const char *name, uint64_t buffer_bytes)
{
    printf("Content-Type: application/octet-stream\r\n"
           "Content-Length: %" PRIu64 "\r\n"
           "X-mrs: %" PRIu64 "\r\n"
           "X-mbuf: %s %" PRIu64 "\r\n\r\n",
           transfer->bytes, transfer->record, name, buffer_bytes);
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

/* Makes one write(2) per record, because that is how the mailbox is measured. */
static int send_by_mailbox(const struct transfer *transfer)
{
    static char *block;
    static uint64_t block_bytes;
    if (block_bytes < transfer->record) {
        free(block);
        block = malloc(transfer->record);
        block_bytes = block ? transfer->record : 0;
        if (!block) {
            perror("membufdemo: record");
            exit(EXIT_FAILURE);
        }
    }
    print_head(transfer, "NULL", 0);
    if (fflush(stdout) != 0) return -1;
    uint64_t left = has_no_body() ? 0 : transfer->bytes;
    for (unsigned value = 0; left > 0; value++) {
        size_t bytes = left < transfer->record ? left : transfer->record;
        memset(block, (int)(value & 0xff), bytes);
        if (write_all(block, bytes)) return -1;
        left -= bytes;
    }
    return 0;
}

/* The record size determines the content only: the ring is filled in place, in chunks of another size. */
static int fill_ring(const struct transfer *transfer, uint64_t capacity)
{
    struct pattern pattern = {.record = transfer->record, .left_in_block = transfer->record};
    uint64_t chunk_max = capacity / 4 < CHUNK_MAX ? capacity / 4 : CHUNK_MAX;
    for (uint64_t left = transfer->bytes; left > 0;) {
        size_t bytes = left < chunk_max ? left : chunk_max;
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
    case EACCES: return STATUS_NOPRIV;
    case ENOMEM: return STATUS_INSFMEM;
    default: return STATUS_ABORT;
    }
}

/* Answers that there is no buffer. A CGI process exits with the status; a CGIplus process continues. */
static int refuse_buffer(int error)
{
    int status = status_of(error);
    printf("Status: 500\r\nContent-Type: text/plain\r\n\r\nMemBufLib: no memory buffer: %s (%%X%08X)\n", strerror(error), (unsigned)status);
    if (sluice_is_persistent()) return 0;
    sluice_finish();
    exit(status & 0xff);
}

static int send_by_buffer(const struct transfer *transfer)
{
    struct sluice_buffer buffer;
    if (sluice_buffer_begin(transfer->buffer_bytes, &buffer)) return refuse_buffer(errno);
    print_head(transfer, buffer.name, buffer.bytes);
    if (!has_no_body() && fill_ring(transfer, buffer.bytes)) return -1;
    return sluice_buffer_end();
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN); /* if the client disconnects, a write fails and the exit status reports it */
    while (sluice_accept()) {
        struct transfer transfer;
        if (read_query(&transfer) == 0 && (transfer.by_buffer ? send_by_buffer(&transfer) : send_by_mailbox(&transfer))) exit(STATUS_ABORT);
        if (sluice_finish()) exit(STATUS_ABORT);
    }
    return 0;
}
