/* wasd.c: what the shadow headers in wasd/ stand on: OpenVMS file names, exit statuses and vaxc$errno.

   Compiled against the system's own headers, not against the shadows. */
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

API FILE *sluice_wasd_fopen(const char *name, const char *mode, ...);
API FILE *sluice_wasd_freopen(const char *name, const char *mode, FILE *stream, ...);
API void sluice_wasd_exit(int status) __attribute__((noreturn));
API int *sluice_wasd_vaxc_errno(void);

enum { NOT_A_DESCRIPTOR = -1 };

/* Upper or lower case, with or without the colon of a device. */
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

/* The Linux name of what is not a descriptor. */
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
    int copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 3); /* so that fclose() leaves the script its own */
    FILE *stream = copy < 0 ? NULL : fdopen(copy, mode);
    if (!stream && copy >= 0) close(copy);
    return stream;
}

/* The number of the standard stream that `stream` is, NOT_A_DESCRIPTOR for any other. */
static int standard(FILE *stream)
{
    return stream == stdin ? STDIN_FILENO : stream == stdout ? STDOUT_FILENO : stream == stderr ? STDERR_FILENO : NOT_A_DESCRIPTOR;
}

FILE *sluice_wasd_freopen(const char *name, const char *mode, FILE *stream, ...)
{
    int descriptor = descriptor_named(name);
    if (descriptor == NOT_A_DESCRIPTOR) return freopen(path_named(name), mode, stream);
    if (fflush(stream) != 0) return NULL;
    if (descriptor == standard(stream)) return stream; /* only its attributes would change, and bytes are bytes here */
    return dup2(descriptor, fileno(stream)) < 0 ? NULL : stream;
}

/* Linux hands eight bits of an exit status on, and 0 is success. A failure must not become 0, and is said in the log. */
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
