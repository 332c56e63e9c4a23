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
   sluice_write(), sluice_respond() and the others print to stdout, too, so they may be mixed with printf().
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

/* Ends the response: flushes stdout and writes the end sentinel (CGIplus). If stdout has collected 16 KiB or more (512 KiB at most), they go
   through memory shared with the server, if it offers that. -1: a write failed; errno of write(2): EPIPE, EIO … */
int sluice_finish(void);

/* 1 if sluice_accept() can be true again: the loop of a CGIplus program. 0 in plain CGI. */
int sluice_is_persistent(void);

/* Number of requests that this process has got, this one included. */
unsigned long sluice_uses(void);

/* The value of a variable of this request, or NULL. The name is case-insensitive, with or without "WWW_".
   The next sluice_accept() invalidates all variables and pointers to them. */
const char *sluice_variable(const char *name);

/* The variable with this index as "NAME=value", from 0; NULL after the last. */
const char *sluice_variable_at(size_t index);

/* Reads up to `size` bytes of the request body, never past CONTENT_LENGTH. 0 at its end; -1: errno of read(2).
   It reads descriptor 0, so do not use stdin as well. The server discards any body that the script did not read. */
ssize_t sluice_body_read(void *into, size_t size);

/* ---- Responses ----
   sluice_status() and sluice_header() set parts of the head; sluice_respond() writes it. A script may print its head itself instead. If a
   script sets a part of the head and never calls sluice_respond(), sluice_write() and sluice_finish() do. */

/* Sets the status (200 … 599; 200 without it). -1: EINVAL; EALREADY the head has been written. */
int sluice_status(int status);

/* Adds a field to the head. -1: EINVAL the name is not a token, or the value has a control character, such as a line break; EALREADY the
   head has been written; EMSGSIZE more than 64 KiB of fields. */
int sluice_header(const char *name, const char *value);

/* Writes the head, once: a second call has no effect. `type` is the Content-Type, NULL for "text/html; charset=utf-8"; one that was set by
   sluice_header() takes precedence. -1: EINVAL a control character in `type`; errno of write(2). */
int sluice_respond(const char *type);

/* Sends the client to another URL, or path of this site: 301, 302 (also for 0), 303, 307 or 308. It is the whole response. -1: EINVAL
   another status, or a control character in the URL; EALREADY the head has been written. */
int sluice_redirect(const char *url, int status);

/* Answers with an error (400 … 599), as a line of plain text, followed by `text` (NULL: none). It is the whole response; fields that were set
   before are dropped. Status 0 chooses it by errno, for a form that could not be read: 413 for EFBIG, 400 for EBADMSG, 507 for ENOSPC,
   otherwise 500. -1: EINVAL; EALREADY the head has been written, so that the status can no longer change. Then
   sluice_callout(NULL, 0, "!FAILED: reason") makes the server abort the response, so that the client does not take it for complete. */
int sluice_fail(int status, const char *text);

/* Prints bytes to stdout. Those that do not fit its buffer go through memory shared with the server, if it offers that; then it may wait until
   the client has taken others. In a record mailbox, large ones are written as several records, lines whole. -1: errno of write(2). */
int sluice_write(const void *from, size_t bytes);

/* Flushes stdout: sends everything so far. -1: errno of write(2). */
int sluice_flush(void);

/* Sends a server-sent event, at once. The first one writes the head (text/event-stream, not cached). `data` may have several lines; `name`
   and `id` may be NULL. -1: EINVAL a line break in `name` or `id`; errno of write(2). */
int sluice_event(const char *data, const char *name, const char *id);

/* ---- Forms and uploads ----
   The fields of the query (`?a=1&flag`: a field without a value is empty) and of the body (application/x-www-form-urlencoded or
   multipart/form-data), in order. The first of these calls in a request reads them all. At most 1000 fields and files, 8 MiB of names and
   values, and sluice_upload_limit() bytes of files are read. Results are valid until the next sluice_accept() or sluice_finish().

   All of them fail in the same way, in every call of the request: EFBIG more than these limits; EBADMSG the body is malformed, or incomplete
   because the client has left; EALREADY the script has read from the body before; ENOMEM, ENOSPC and other errors of read(2), write(2) and
   open(2). sluice_fail(0, NULL) has the right status for each:

       if (sluice_parameter_count() < 0) sluice_fail(0, NULL); */

/* The first value of the field with this name; NULL if there is none (errno is 0), or the form could not be read (errno as above). */
const char *sluice_parameter(const char *name);

/* The value with this index, from 0, of the field with this name. NULL as above. */
const char *sluice_parameters(const char *name, size_t index);

/* Number of fields, without files. -1: errno as above. */
ssize_t sluice_parameter_count(void);

/* The field with this index: returns its value, and sets its name and the length of the value (NULL if not needed). NULL as above. */
const char *sluice_parameter_at(size_t index, const char **name, size_t *length);

/* A file of a form. It is stored in TMPDIR, /var/tmp or /tmp, has no name there, and is removed when the request ends. */
struct sluice_upload {
    const char *name;      /* of the field */
    const char *file_name; /* as the client calls it, without directories. Do not use it as the name of a file: it is any text */
    const char *type;      /* the media type that the client claims */
    uint64_t bytes;        /* its size */
    const char *path;      /* /proc/PID/fd/N, for open(2), and for programs that the script starts */
    int descriptor;        /* open for reading and writing, at its beginning. The library closes it */
};

/* The first file of the field with this name; NULL if there is none, or none was chosen (errno is 0), or the form could not be read. */
const struct sluice_upload *sluice_upload(const char *name);

/* The file with this index, from 0, of the field with this name; of all fields if `name` is NULL. NULL as above. */
const struct sluice_upload *sluice_uploads(const char *name, size_t index);

/* Keeps a file under a new name, which must not exist: as a link if it is on the same file system, otherwise as a copy. -1: EEXIST; other
   errors of open(2), read(2) and write(2), and then there is no file. */
int sluice_upload_save(const struct sluice_upload *upload, const char *path);

/* Sets how many bytes of files a request may have, for all requests of this process; 1 GiB without it. -1: EALREADY the form of this request
   has been read. */
int sluice_upload_limit(uint64_t bytes);

/* ---- Coding ----
   The results are valid until the next sluice_accept() or sluice_finish(), and need not be freed. NULL: ENOMEM. */

/* The text with & < > " and ' escaped, for HTML text and for attribute values in quotes. */
char *sluice_escape_html(const char *text);

/* The text with all bytes but letters, digits, - . _ and ~ as %XX: for a part of a path or a query. */
char *sluice_url_encode(const char *text);

/* The text with %XX decoded, and + as a blank. It may contain NUL bytes: `length` (may be NULL) is set to its length. */
char *sluice_url_decode(const char *text, size_t *length);

/* ---- Callouts ---- */

/* Makes a callout: sluice_callout(text, sizeof text, "MAP-PATH: %s", path). Returns the code of the answer (200 …); `answer` gets its
   text, truncated to `size` (NULL, 0 if not needed). A request that begins with '!' or '#' has no answer: returns 0.
   -1: ENOTSUP the server has no callouts; EINVAL the request is empty or has a control character; EMSGSIZE it is longer than
   8191 bytes; EPIPE the server is gone; EPROTO the answer is malformed. */
int sluice_callout(char *answer, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The following return -1 with the errors of sluice_callout(), and with EINVAL if the server refuses. */

/* Writes a line to the server log. Control characters become blanks; a server without callouts gets the line on stderr. */
int sluice_notice(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Shows a line to those who watch this request (WATCH, item callouts). Control characters become blanks. While nobody watches nothing is sent:
   the request then has no variable WATCH_SCRIPT. */
int sluice_watch(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The file for a path of this site, as "/the/file". -1: ENOENT there is none. */
int sluice_map_path(char *file, size_t size, const char *path);

/* The path for a file. -1: ENOENT it is not served. */
int sluice_map_file(char *path, size_t size, const char *file);

/* How long this process may be idle: "10" (minutes), "30s", "5m", "2h", "hh:mm:ss", "none". */
int sluice_lifetime(const char *time);

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
