/* sluice-form: reads the form in the body for sluice.sh: multipart bodies, and long urlencoded ones.

   usage: sluice-form PID BYTES      PID: the shell; BYTES: the limit for files

   The body is on descriptor 0, the variables are in the environment. On standard output: records of texts, each ended by RS (0x1e), which a
   shell can split: f NAME VALUE; u NAME FILE-NAME TYPE BYTES PATH; r PID. A text with a NUL or an RS cannot be passed to a shell: the form is refused.
   Exit status: 0; 3 too large; 4 malformed; 5 the disk is full; 1 otherwise.

   Uploads are files in a directory of their own, so that a script can use `mv`. A second process, `r PID`, removes what is left of them when it
   gets SIGTERM, or when the shell has ended, even by SIGKILL. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sluice.h"

#define SEPARATOR 0x1e

static int status_of(int error)
{
    switch (error) {
    case EFBIG: return 3;
    case EBADMSG: return 4;
    case ENOSPC:
    case EDQUOT: return 5;
    default: fprintf(stderr, "sluice-form: %s\n", strerror(error)); return 1;
    }
}

/* ---- Removing the files ---- */

static void remove_all(const char *directory)
{
    DIR *open = opendir(directory);
    char path[PATH_MAX];
    for (struct dirent *entry; open && (entry = readdir(open));) {
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        unlink(path);
    }
    if (open) closedir(open);
    rmdir(directory);
}

/* Waits for SIGTERM, which is blocked, or the end of the shell; then removes the files. */
static void reap(const char *directory, pid_t shell)
{
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    for (int descriptor = 0; descriptor < 1024; descriptor++) close(descriptor);
    struct pollfd events[] = {{.fd = signalfd(-1, &term, 0), .events = POLLIN}, {.fd = (int)syscall(SYS_pidfd_open, shell, 0), .events = POLLIN}};
    if (events[1].fd < 0 && errno == ESRCH) goto over;
    while (poll(events, 2, -1) < 0 && errno == EINTR) {}
over:
    remove_all(directory);
    _exit(0);
}

/* Starts that process. It has a session of its own, so that the server does not kill it with the script but sends SIGTERM first. Returns its id,
   or -1. */
static pid_t start_reaper(const char *directory, pid_t shell)
{
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, NULL);
    pid_t child = fork();
    if (child != 0) return child;
    setsid();
    reap(directory, shell);
    _exit(0);
}

/* ---- Records ---- */

/* Prints a text with its separator. 0, or -1 if a shell could not store it. */
static int put(const char *text, size_t length)
{
    if (memchr(text, '\0', length) || memchr(text, SEPARATOR, length)) {
        errno = EBADMSG;
        return -1;
    }
    fwrite(text, 1, length, stdout);
    return putchar(SEPARATOR) == EOF ? -1 : 0;
}

static int put_text(const char *text)
{
    return put(text, strlen(text));
}

static int put_fields(void)
{
    ssize_t count = sluice_parameter_count();
    for (ssize_t i = 0; i < count; i++) {
        const char *name;
        size_t length;
        const char *value = sluice_parameter_at((size_t)i, &name, &length);
        if (put_text("f") || put_text(name) || put(value, length)) return -1;
    }
    return count < 0 ? -1 : 0;
}

static int put_upload(const struct sluice_upload *upload, size_t number, const char *directory)
{
    char path[PATH_MAX], bytes[24];
    snprintf(path, sizeof path, "%s/%zu", directory, number);
    snprintf(bytes, sizeof bytes, "%llu", (unsigned long long)upload->bytes);
    if (sluice_upload_save(upload, path)) return -1;
    return put_text("u") || put_text(upload->name) || put_text(upload->file_name) || put_text(upload->type) || put_text(bytes) || put_text(path) ? -1 : 0;
}

static int put_uploads(pid_t shell)
{
    const struct sluice_upload *upload = sluice_uploads(NULL, 0);
    if (!upload) return errno ? -1 : 0;
    const char *parent = getenv("TMPDIR");
    char directory[PATH_MAX - 32], reaper[24];
    if (snprintf(directory, sizeof directory, "%s/sluice-upload-XXXXXX", parent && *parent ? parent : "/var/tmp") >= (int)sizeof directory) return -1;
    if (!mkdtemp(directory)) return -1;
    for (size_t number = 0; upload; upload = sluice_uploads(NULL, ++number)) {
        if (put_upload(upload, number, directory) == 0) continue;
        int error = errno;
        remove_all(directory);
        errno = error;
        return -1;
    }
    fflush(stdout);
    pid_t child = start_reaper(directory, shell);
    if (child < 0) {
        remove_all(directory);
        return -1;
    }
    snprintf(reaper, sizeof reaper, "%ld", (long)child);
    return put_text("r") || put_text(reaper) ? -1 : 0;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: sluice-form PID BYTES\n");
        return 64;
    }
    unsetenv("CGIPLUSEOF");
    if (!sluice_accept()) return status_of(errno);
    sluice_upload_limit(strtoull(argv[2], NULL, 10));
    if (put_fields() || put_uploads((pid_t)strtol(argv[1], NULL, 10))) return status_of(errno);
    putchar('.'); /* so that the shell keeps newlines at the end */
    return sluice_finish() ? status_of(errno) : 0;
}
