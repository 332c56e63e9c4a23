/* internal.h: the functions shared by the files of the library. Not installed, not for scripts.

   request.c -> cgiplusin.c (CGIPLUSIN), mailbox.c (stdout, which asks request.c for WWW_GATEWAY_MRS), buffer.c
   callout.c -> cgiplusin.c, mailbox.c
   buffer.c  -> callout.c, mailbox.c, ring.c
   mailbox.c -> reply_region.c -> region.c; reply_region.c -> callout.c, to wait
   ring.c    -> mailbox.c; libraries in other languages call it by sluice_ring.h
   response.c -> mailbox.c; form.c -> request.c, multipart.c, upload.c, coding.c; request.c starts and ends each of them with the request
   wasd.c, membuflib.c, cgilib.c, cgilib_form.c, cgilib_response.c: the implementation of the headers in wasd/, on top of all */
#ifndef SLUICE_INTERNAL_H
#define SLUICE_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

/* A growing byte buffer; it lives as long as the process. */
struct sluice_bytes {
    char *at;
    size_t length, capacity;
};

/* A buffer of more than this is freed when its request has ended. */
#define SLUICE_BYTES_KEPT ((size_t)256 << 10)

/* Makes room for `more` bytes at the end. 0, or -1: ENOMEM. */
int sluice_bytes_room(struct sluice_bytes *bytes, size_t more);

/* Appends bytes. 0, or -1: ENOMEM. */
int sluice_bytes_add(struct sluice_bytes *bytes, const void *from, size_t count);

/* Empties the buffer. */
void sluice_bytes_clear(struct sluice_bytes *bytes);

/* ---- cgiplusin.c: CGIPLUSIN ---- */

/* 1 if this process has a CGIPLUSIN, otherwise 0. */
int sluice_cgiplusin_exists(void);

/* 1 if the server can send requests by a socket, for which a script has to ask within its first request, otherwise 0. */
int sluice_cgiplusin_has_socket(void);

/* The next read waits for a request after the first one; or for an answer, as at the start. */
void sluice_cgiplusin_await_request(void);
void sluice_cgiplusin_await_answers(void);

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

/* Prints bytes to stdout. Returns how many. In a record mailbox, lines stay whole and no record is too large. */
size_t sluice_mailbox_put(const char *from, size_t bytes);

/* Writes a callout of one line (without LF). 0, or -1: errno. */
int sluice_mailbox_callout(const char *line, size_t length);

/* ---- reply_region.c ---- */

/* Forgets the region of the previous request. */
void sluice_reply_region_start(void);

/* How many bytes at the end of an output, without the head that it may begin with, are to go through memory shared with the server; 0 if the
   mailbox carries all. */
size_t sluice_reply_region_share(const char *output, size_t bytes);

/* Where these bytes go. */
struct sluice_region;
struct sluice_region *sluice_reply_region(void);

/* As sluice_region_wait(), for that region. 1, or 0. */
int sluice_reply_region_wait(void);

/* ---- ring.c ---- */

/* Makes the ring call `flush` before it waits, before its first commit and before a doorbell. */
struct sluice_ring;
void sluice_ring_flushes(struct sluice_ring *ring, int (*flush)(void));

/* ---- cgilib_form.c ---- */

/* The value of a field of the body for a name such as "FORM_NAME", after CgiLibFormRequestBody(); NULL if there is none. */
char *sluice_cgilib_field(const char *name);

/* ---- buffer.c ---- */

/* As sluice_buffer_begin(), but the server knows whether a buffer is open: it refuses a second one (EINVAL), and the first stays open. For
   scripts that end a response without the library, and with it the buffer. */
struct sluice_buffer;
int sluice_buffer_begin_unless_open(uint64_t bytes, struct sluice_buffer *got);

/* Forgets a buffer that was not ended. It needs no callout, because the end of the response ends the buffer for the server. */
void sluice_buffer_abandon(void);

/* ---- request.c ---- */

/* 1 if the script has read from the body itself. */
int sluice_request_body_is_touched(void);

/* ---- response.c ---- */

/* Forgets the fields of the previous response. */
void sluice_response_start(void);

/* Writes the head if the script has set a part of it. 0, or -1: errno. */
int sluice_response_finish(void);

/* The reason phrase for a status. */
const char *sluice_response_reason(int status);

/* 1 if the text has no control characters but tabs. */
int sluice_response_is_line(const char *text);

/* ---- coding.c: the first three write a NUL and at most `size` bytes, and return the length of the whole result, as snprintf ---- */

size_t sluice_coding_html(char *into, size_t size, const char *text, size_t bytes);
size_t sluice_coding_encode(char *into, size_t size, const char *text, size_t bytes);

/* Decodes in place: `%41` and `+`. Returns the new length. */
size_t sluice_coding_decode(char *text, size_t bytes);

/* Memory that lives until the next request. NULL: ENOMEM. */
char *sluice_coding_allocate(size_t bytes);

/* Frees the results of the previous request. */
void sluice_coding_start(void);

/* ---- form.c ---- */

/* Forgets the form of the previous request and removes its uploads. */
void sluice_form_start(void);

/* Reads the form from a body in memory, which the script has read itself. 0, or -1: errno as sluice_parameter_count(). */
int sluice_form_read_from(const char *body, size_t length);

/* ---- upload.c ---- */

/* A new file without a name, in TMPDIR, /var/tmp or /tmp. Its descriptor, or -1: errno. */
int sluice_upload_create(void);

/* Writes all bytes. 0, or -1: errno. */
int sluice_upload_write(int file, const void *bytes, size_t count);

#endif
