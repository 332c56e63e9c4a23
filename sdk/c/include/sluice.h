/* sluice.h: a script's side of Sluice. CGI, CGIplus, callouts and the memory buffer, in C, on nothing but libc.

       while (sluice_accept()) {
           printf("Content-Type: text/plain\n\nHello, %s\n", sluice_variable("REMOTE_ADDR"));
           sluice_finish();
       }

   The same program is a CGI script (the loop runs once), a CGIplus script (it runs until the server says stop), and
   runs under any other CGI server. Functions that fail return -1 (or NULL, or 0 where said) and set errno.

   One thread: call all of this, and write to stdout, from one thread only.
   Output goes to stdout, by stdio or by write(2) after fflush(); the library flushes stdout before anything it writes
   there itself. sluice_accept() gives stdout a large buffer, so that a short response leaves in a single write.
   The library never exits and installs no signal handler. When the server has closed the mailbox, a write to it raises
   SIGPIPE, which ends the process, as for any CGI script; signal(SIGPIPE, SIG_IGN) turns that into EPIPE. */
#ifndef SLUICE_H
#define SLUICE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* ---- Requests ---- */

/* Waits for the next request. 1: there is one. 0: no more: leave; errno is 0 when the server ordered it, else EPROTO (not
   understood), ENOMEM, or why the last response could not be finished. Finishes the previous response when forgotten. */
int sluice_accept(void);

/* Ends the response: stdout is flushed, then the end sentinel (CGIplus). -1: EPIPE, EIO … of write(2), if any of it failed. */
int sluice_finish(void);

/* 1 when this process is kept for more requests (CGIplus), 0 in plain CGI. */
int sluice_is_persistent(void);

/* How many requests this process has accepted. */
unsigned long sluice_uses(void);

/* The value of a variable of this request, NULL when there is none. Upper or lower case, with or without "WWW_".
   Every variable, and every pointer to one, is gone at the next sluice_accept(). */
const char *sluice_variable(const char *name);

/* The variables one by one as "NAME=value", from index 0; NULL after the last. */
const char *sluice_variable_at(size_t index);

/* Reads up to `size` bytes of the request body, never past CONTENT_LENGTH. 0 at its end; -1: errno of read(2).
   Reads descriptor 0: do not mix with stdin. What is left unread the server throws away. */
ssize_t sluice_body_read(void *into, size_t size);

/* ---- Callouts ---- */

/* Asks the server: sluice_callout(text, sizeof text, "MAP-PATH: %s", path). Returns the code of the answer (200 …) with
   its text, cut to `size`, in `answer` (NULL, 0 when not wanted). A request that begins with '!' or '#' has no answer: 0.
   -1: ENOTSUP this server has no callouts; EINVAL a control character or no text in the request; EMSGSIZE longer than
   8191 bytes; EPIPE the server is gone; EPROTO its answer was not understood. */
int sluice_callout(char *answer, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* ---- The memory buffer: bulk output through memory shared with the server ----
   sluice_buffer_begin, the head on stdout, sluice_buffer_write (or reserve and commit) as often as needed, sluice_buffer_end. */

struct sluice_buffer {
    uint64_t bytes; /* its capacity */
    char name[48];  /* the server's name for it */
};

/* Asks for a buffer of at least `bytes` (0: the server's choice), before the head of the response is flushed. `got` may be NULL.
   -1: EALREADY one is in use; EFBIG over the server's limit; ENOMEM no memory; EINVAL refused (the head is out already …);
   EPROTO the buffer is not as agreed; and as sluice_callout() and mmap(2). */
int sluice_buffer_begin(uint64_t bytes, struct sluice_buffer *got);

/* Room for at least `wanted` bytes (1 … capacity) in one piece; waits until there is. `*granted` (may be NULL): all that may be filled.
   NULL: EPIPE the client or the server is gone; EMSGSIZE more than the capacity; EINVAL 0 bytes; ENOTCONN no buffer; EPROTO. */
void *sluice_buffer_reserve(size_t wanted, size_t *granted);

/* Sends the first `bytes` of what was reserved. -1: EPIPE; EINVAL more than was granted; ENOTCONN no buffer. */
int sluice_buffer_commit(size_t bytes);

/* Copies and sends any number of bytes; waits for room. No system call while the server keeps up. -1: as reserve and commit. */
int sluice_buffer_write(const void *from, size_t bytes);

/* Waits until everything is on its way to the client and gives the buffer up; stdout continues the body. -1: EPIPE the
   client is gone; EIO the server counted other bytes than were written; ENOTCONN no buffer; as sluice_callout(). */
int sluice_buffer_end(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
