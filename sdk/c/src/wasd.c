/* wasd.c: the functions behind the headers in wasd/: OpenVMS file names, exit statuses and vaxc$errno; stdout in a record mailbox, where
   each line is a record, as with the C library of OpenVMS; and getenv() in a CGIplus process.

   Compiled with the system's headers, not with those in wasd/. */
#define API __attribute__((visibility("default")))

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "../wasd/ssdef.h"
#include "internal.h"
#include "sluice.h"

API void sluice_wasd_open_stdout(void);
API int sluice_wasd_setvbuf(FILE *stream, char *buffer, int mode, size_t size);
API size_t sluice_wasd_fwrite(const void *from, size_t size, size_t count, FILE *stream);
API int sluice_wasd_fputs(const char *text, FILE *stream);
API int sluice_wasd_puts(const char *text);
API char *sluice_wasd_getenv(const char *name);
API FILE *sluice_wasd_fopen(const char *name, const char *mode, ...);
API FILE *sluice_wasd_freopen(const char *name, const char *mode, FILE *stream, ...);
API void sluice_wasd_exit(int status) __attribute__((noreturn));
API int *sluice_wasd_vaxc_errno(void);

enum { NOT_A_DESCRIPTOR = -1 };

/* Whether `name` is this device: case-insensitive, with or without the colon. */
static int is_named(const char *name, const char *device)
{
    size_t length = strlen(device);
    return strncasecmp(name, device, length) == 0 && (name[length] == '\0' || strcmp(name + length, ":") == 0);
}

static int descriptor_named(const char *name)
{
    if (is_named(name, "SYS$INPUT") || is_named(name, "HTTP$INPUT")) return STDIN_FILENO;
    if (is_named(name, "SYS$OUTPUT")) return STDOUT_FILENO;
    if (is_named(name, "SYS$ERROR")) return STDERR_FILENO;
    return NOT_A_DESCRIPTOR;
}

/* The Linux path for a name that is not a standard stream. */
static const char *path_named(const char *name)
{
    if (is_named(name, "NL") || is_named(name, "NLA0")) return "/dev/null";
    if (is_named(name, "CGIPLUSIN") && getenv("CGIPLUSIN")) return getenv("CGIPLUSIN");
    return name;
}

FILE *sluice_wasd_fopen(const char *name, const char *mode, ...)
{
    int descriptor = descriptor_named(name);
    if (descriptor == NOT_A_DESCRIPTOR) return fopen(path_named(name), mode);
    int copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 3); /* so that fclose() does not close the standard stream */
    FILE *stream = copy < 0 ? NULL : fdopen(copy, mode);
    if (!stream && copy >= 0) close(copy);
    if (stream && descriptor == STDOUT_FILENO && sluice_mailbox_keeps_records()) setvbuf(stream, NULL, _IOLBF, 0);
    return stream;
}

/* The descriptor of a standard stream, NOT_A_DESCRIPTOR for any other stream. */
static int standard_descriptor(FILE *stream)
{
    return stream == stdin ? STDIN_FILENO : stream == stdout ? STDOUT_FILENO : stream == stderr ? STDERR_FILENO : NOT_A_DESCRIPTOR;
}

FILE *sluice_wasd_freopen(const char *name, const char *mode, FILE *stream, ...)
{
    int descriptor = descriptor_named(name);
    if (descriptor == NOT_A_DESCRIPTOR) return freopen(path_named(name), mode, stream);
    if (fflush(stream) != 0) return NULL;
    if (descriptor == standard_descriptor(stream)) return stream; /* only its attributes would change, which Linux does not have */
    return dup2(descriptor, fileno(stream)) < 0 ? NULL : stream;
}

/* ---- stdout in a record mailbox ---- */

void sluice_wasd_open_stdout(void)
{
    if (sluice_mailbox_keeps_records()) sluice_mailbox_open();
}

static int is_of_records(FILE *stream)
{
    return stream == stdout && sluice_mailbox_keeps_records();
}

/* Whatever the program asks for, a line stays a record. */
int sluice_wasd_setvbuf(FILE *stream, char *buffer, int mode, size_t size)
{
    if (!is_of_records(stream)) return setvbuf(stream, buffer, mode, size);
    sluice_mailbox_open();
    return 0;
}

size_t sluice_wasd_fwrite(const void *from, size_t size, size_t count, FILE *stream)
{
    if (!is_of_records(stream) || size == 0 || count > SIZE_MAX / size) return fwrite(from, size, count, stream);
    return sluice_mailbox_put(from, size * count) / size;
}

int sluice_wasd_fputs(const char *text, FILE *stream)
{
    if (!is_of_records(stream)) return fputs(text, stream);
    size_t bytes = strlen(text);
    return sluice_mailbox_put(text, bytes) == bytes ? 1 : EOF;
}

int sluice_wasd_puts(const char *text)
{
    return sluice_wasd_fputs(text, stdout) == EOF || putchar('\n') == EOF ? EOF : 1;
}


/* The exit code for an OpenVMS status. Linux keeps eight bits, and 0 is success, so a failure must not become 0. */
static int exit_code(int status)
{
    if (status == 0 || (status & 1)) return 0;
    return status & 0xff ? status & 0xff : 1;
}

void sluice_wasd_exit(int status)
{
    int code = exit_code(status);
    if (code != 0) fprintf(stderr, "exit with status %%X%08X\n", (unsigned)status);
    exit(code);
}

/* ---- The variables of a request ---- */

static void finish_at_exit(void)
{
    sluice_finish();
}

/* A plain CGI source looks for its variables in the environment. In a CGIplus process they arrive on CGIPLUSIN: the first one that is asked
   for reads the request, and the end of the process ends the response. A source that asks for a CGIPLUS… variable knows the protocol, and
   reads requests itself. */
char *sluice_wasd_getenv(const char *name)
{
    static int knows_cgiplus, has_request;
    char *value = getenv(name);
    if (strncmp(name, "CGIPLUS", 7) == 0) knows_cgiplus = 1;
    if (value || knows_cgiplus || !sluice_is_persistent()) return value;
    if (!has_request && sluice_uses() == 0) {
        if (!sluice_accept()) exit(EXIT_SUCCESS); /* the server wants the process to end */
        has_request = 1;
        atexit(finish_at_exit);
    }
    return (char *)sluice_variable(name);
}

static int status_of(int error)
{
    switch (error) {
    case 0: return SS$_NORMAL;
    case ENOENT: return SS$_NOSUCHFILE;
    case EACCES:
    case EPERM: return SS$_NOPRIV;
    case ENOMEM: return SS$_INSFMEM;
    case EINVAL: return SS$_BADPARAM;
    case EBADF: return SS$_IVCHAN;
    case ETIMEDOUT: return SS$_TIMEOUT;
    case EMFILE:
    case ENOSPC:
    case EDQUOT: return SS$_EXQUOTA;
    default: return SS$_ABORT;
    }
}

int *sluice_wasd_vaxc_errno(void)
{
    static int status;
    status = status_of(errno);
    return &status;
}
