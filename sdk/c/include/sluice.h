/* sluice.h: the library for scripts: CGI, CGIplus, callouts and the memory buffer. Depends on libc only.

       while (sluice_accept()) {
           printf("Content-Type: text/plain\n\nHello, %s\n", sluice_variable("REMOTE_ADDR"));
           sluice_finish();
       }

   The same program works as a CGI script (the loop runs once), as a CGIplus script (it runs until the server closes CGIPLUSIN), and
   under any other CGI server. Functions that fail return -1 (or NULL, or 0 where documented) and set errno.

   Not thread-safe: call these functions, and write to stdout, from one thread only.
   Write output to stdout, by stdio or by write(2) after fflush(). The library flushes stdout before it writes there itself.
   sluice_accept() gives stdout a large buffer, so that a short response is sent in a single write.
   The library never exits and installs no signal handler. If the server has closed the mailbox, a write to it raises SIGPIPE, which
   ends the process, as for any CGI script; after signal(SIGPIPE, SIG_IGN) it fails with EPIPE instead. */
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

/* Waits for the next request. 1: there is one. 0: there is none, the script should exit; errno is 0 if the server closed CGIPLUSIN,
   otherwise EPROTO (malformed request), ENOMEM, or the error of finishing the previous response. Finishes the previous response if
   sluice_finish() was not called. */
int sluice_accept(void);

/* Ends the response: flushes stdout and writes the end sentinel (CGIplus). -1: a write failed; errno of write(2): EPIPE, EIO … */
int sluice_finish(void);

/* 1 if this process serves several requests (CGIplus), 0 in plain CGI. */
int sluice_is_persistent(void);

/* Number of requests that this process has accepted. */
unsigned long sluice_uses(void);

/* The value of a variable of this request, or NULL. The name is case-insensitive, with or without "WWW_".
   The next sluice_accept() invalidates all variables and pointers to them. */
const char *sluice_variable(const char *name);

/* The variable with this index as "NAME=value", from 0; NULL after the last. */
const char *sluice_variable_at(size_t index);

/* Reads up to `size` bytes of the request body, never past CONTENT_LENGTH. 0 at its end; -1: errno of read(2).
   It reads descriptor 0, so do not use stdin as well. The server discards any body that the script did not read. */
ssize_t sluice_body_read(void *into, size_t size);

/* ---- Callouts ---- */

/* Makes a callout: sluice_callout(text, sizeof text, "MAP-PATH: %s", path). Returns the code of the answer (200 …); `answer` gets its
   text, truncated to `size` (NULL, 0 if not needed). A request that begins with '!' or '#' has no answer: returns 0.
   -1: ENOTSUP the server has no callouts; EINVAL the request is empty or has a control character; EMSGSIZE it is longer than
   8191 bytes; EPIPE the server is gone; EPROTO the answer is malformed. */
int sluice_callout(char *answer, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* ---- The memory buffer: bulk output through memory shared with the server ----
   Call sluice_buffer_begin, print the head to stdout, call sluice_buffer_write (or reserve and commit) as often as needed, then
   sluice_buffer_end. */

struct sluice_buffer {
    uint64_t bytes; /* its capacity */
    char name[48];  /* its path, such as /dev/fd/4 */
};

/* Requests a buffer of at least `bytes` bytes (0: the server chooses), before the head of the response is flushed. `got` may be NULL.
   -1: EALREADY one is in use; EACCES the route allows none; EFBIG above the server's limit; ENOMEM no memory; EINVAL refused (for example, the head has been sent);
   EPROTO the buffer does not match the answer; other errors as in sluice_callout() and mmap(2). */
int sluice_buffer_begin(uint64_t bytes, struct sluice_buffer *got);

/* Contiguous room for at least `wanted` bytes (1 … capacity); waits until there is room. `*granted` (`granted` may be NULL) is set to the
   size of the room, all of which may be filled. NULL: EPIPE the client or the server is gone; EMSGSIZE more than the capacity;
   EINVAL 0 bytes; ENOTCONN no buffer; EPROTO an invalid counter in the control page. */
void *sluice_buffer_reserve(size_t wanted, size_t *granted);

/* Sends the first `bytes` bytes of the reserved room. -1: EPIPE the client or the server is gone; EINVAL more than was granted;
   ENOTCONN no buffer. */
int sluice_buffer_commit(size_t bytes);

/* Copies and sends any number of bytes; waits for room. Makes no system call while the server keeps up. -1: as reserve and commit. */
int sluice_buffer_write(const void *from, size_t bytes);

/* Waits until the server has sent everything, and releases the buffer; stdout continues the body. -1: EPIPE the client is gone;
   EIO the server sent a different number of bytes than were written; ENOTCONN no buffer; other errors as in sluice_callout(). */
int sluice_buffer_end(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
