/* internal.h: the functions shared by the files of the library. Not installed, not for scripts.

   request.c -> cgiplusin.c (CGIPLUSIN), mailbox.c (stdout, which asks request.c for WWW_GATEWAY_MRS), buffer.c
   callout.c -> cgiplusin.c, mailbox.c
   buffer.c  -> callout.c, mailbox.c, ring.c
   ring.c    -> mailbox.c; libraries in other languages call it by sluice_ring.h
   wasd.c, membuflib.c, cgilib.c: the implementation of the headers in wasd/, on top of all */
#ifndef SLUICE_INTERNAL_H
#define SLUICE_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

/* A growing byte buffer; it never shrinks and lives as long as the process. */
struct sluice_bytes {
    char *at;
    size_t length, capacity;
};

/* ---- cgiplusin.c: CGIPLUSIN ---- */

/* 1 if this process has a CGIPLUSIN, otherwise 0. */
int sluice_cgiplusin_exists(void);

/* Appends the next line to `into`, with a NUL instead of its LF. 1; 0 at end-of-file; -1: errno (EPROTO: truncated or too long). */
int sluice_cgiplusin_read_line(struct sluice_bytes *into);

/* Appends exactly `count` bytes to `into`. 0, or -1: errno (EPROTO: truncated). */
int sluice_cgiplusin_read_block(struct sluice_bytes *into, size_t count);

/* Bytes in the largest request (all its variables) that the library accepts. A server that sends more is broken. */
#define SLUICE_REQUEST_BYTES_MAX ((size_t)16 << 20)

/* ---- mailbox.c: stdout ---- */

enum sluice_sentinel { SLUICE_END, SLUICE_ESCAPE, SLUICE_CLOSE };

/* The text of a sentinel; NULL if the server gave none. */
const char *sluice_mailbox_sentinel(enum sluice_sentinel which);

/* 1 if the mailbox keeps records (one write is one record), 0 if it is a stream. */
int sluice_mailbox_keeps_records(void);

/* Bytes in the largest record: WWW_GATEWAY_MRS, 4096 while it is unknown. */
size_t sluice_mailbox_record_max(void);

/* Gives stdout its large buffer; in a record mailbox also line buffering. */
void sluice_mailbox_open(void);

/* Flushes stdout. 0, or -1: errno. */
int sluice_mailbox_flush(void);

/* Writes all bytes with write(2); the caller has flushed stdio. 0, or -1: errno. */
int sluice_mailbox_write(const void *bytes, size_t count);

/* Flushes stdout, followed by the end sentinel, in one write if possible. 0, or -1: errno. */
int sluice_mailbox_end(void);

/* Writes a callout of one line (without LF). 0, or -1: errno. */
int sluice_mailbox_callout(const char *line, size_t length);

/* ---- ring.c ---- */

/* Makes the ring call `flush` before it waits, before its first commit and before a doorbell. */
struct sluice_ring;
void sluice_ring_flushes(struct sluice_ring *ring, int (*flush)(void));

/* ---- buffer.c ---- */

/* As sluice_buffer_begin(), but the server knows whether a buffer is open: it refuses a second one (EINVAL), and the first stays open. For
   scripts that end a response without the library, and with it the buffer. */
struct sluice_buffer;
int sluice_buffer_begin_unless_open(uint64_t bytes, struct sluice_buffer *got);

/* Forgets a buffer that was not ended. It needs no callout, because the end of the response ends the buffer for the server. */
void sluice_buffer_abandon(void);

#endif
