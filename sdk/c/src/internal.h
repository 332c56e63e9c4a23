/* internal.h: what the files of the library know of each other. Not installed, not for scripts.

   request.c -> cgiplusin.c (CGIPLUSIN), mailbox.c (stdout), buffer.c
   callout.c -> cgiplusin.c, mailbox.c
   buffer.c  -> callout.c, mailbox.c
   wasd.c, membuflib.c, cgilib.c: the compatibility headers of wasd/, on top of all */
#ifndef SLUICE_INTERNAL_H
#define SLUICE_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

/* Bytes that grow; never shrinks, lives as long as the process. */
struct sluice_bytes {
    char *at;
    size_t length, capacity;
};

/* ---- cgiplusin.c: CGIPLUSIN ---- */

/* 1 when this process has a CGIPLUSIN. */
int sluice_cgiplusin_exists(void);

/* Appends the next line, with a NUL in place of its LF, to `into`. 1; 0 at end-of-file; -1 errno (EPROTO: cut off or endless). */
int sluice_cgiplusin_read_line(struct sluice_bytes *into);

/* Appends exactly `count` bytes to `into`. 0, or -1 errno (EPROTO: cut off). */
int sluice_cgiplusin_read_block(struct sluice_bytes *into, size_t count);

/* Largest request the library takes from the server (variables of one request, bytes). A server that sends more is broken. */
#define SLUICE_REQUEST_BYTES_MAX ((size_t)16 << 20)

/* ---- mailbox.c: stdout ---- */

enum sluice_sentinel { SLUICE_END, SLUICE_ESCAPE, SLUICE_CLOSE };

/* The text of a sentinel, NULL when the server gave none. */
const char *sluice_mailbox_sentinel(enum sluice_sentinel which);

/* 1 when the mailbox keeps records (one write = one record), 0 when it is a stream. */
int sluice_mailbox_keeps_records(void);

/* Gives stdout its large buffer, once a process. */
void sluice_mailbox_open(void);

/* Flushes stdout. 0, or -1 errno. */
int sluice_mailbox_flush(void);

/* Writes all of it past stdio, which the caller has flushed. 0, or -1 errno. */
int sluice_mailbox_write(const void *bytes, size_t count);

/* Flushes stdout and the end sentinel behind it, in one write where that may be. 0, or -1 errno. */
int sluice_mailbox_end(void);

/* Writes a callout of one line (without LF). 0, or -1 errno. */
int sluice_mailbox_callout(const char *line, size_t length);

/* ---- buffer.c ---- */

/* Forgets a buffer that was not ended: the end of the response ends it for the server (no callout). */
void sluice_buffer_abandon(void);

#endif
