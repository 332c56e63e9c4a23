/* upload.c: the temporary files of uploads, and sluice_upload_save().

   The files have no names (O_TMPFILE, or removed as soon as they are made), so nothing is left behind, however the process ends. */
#include "internal.h"
#include "sluice.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file without a name in this directory. */
static int create_in(const char *directory)
{
    int file = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL && errno != ENOENT)) return file;
    /* A file system without O_TMPFILE. */
    char path[4096];
    if (snprintf(path, sizeof path, "%s/sluice-upload-XXXXXX", directory) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    file = mkostemp(path, O_CLOEXEC);
    if (file >= 0) unlink(path);
    return file;
}

int sluice_upload_create(void)
{
    const char *chosen = getenv("TMPDIR");
    if (chosen && *chosen) return create_in(chosen);
    /* /tmp is memory on many systems. */
    int file = create_in("/var/tmp");
    return file >= 0 ? file : create_in("/tmp");
}

int sluice_upload_write(int file, const void *bytes, size_t count)
{
    for (const char *from = bytes; count > 0;) {
        ssize_t done = write(file, from, count);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return -1;
        from += done;
        count -= (size_t)done;
    }
    return 0;
}

/* Copies a whole file. 0, or -1: errno. */
static int copy(int from, int to)
{
    char chunk[64 * 1024];
    for (off_t at = 0;;) {
        ssize_t got = pread(from, chunk, sizeof chunk, at);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return (int)got;
        if (sluice_upload_write(to, chunk, (size_t)got)) return -1;
        at += got;
    }
}

static mode_t mode_of_new_files(void)
{
    mode_t mask = umask(077);
    umask(mask);
    return 0666 & ~mask;
}

int sluice_upload_save(const struct sluice_upload *upload, const char *path)
{
    char source[32];
    snprintf(source, sizeof source, "/proc/self/fd/%d", upload->descriptor);
    /* On the same file system the file gets a name; it fails if the file was removed, or lies elsewhere. */
    if (linkat(AT_FDCWD, source, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0) return fchmod(upload->descriptor, mode_of_new_files());
    if (errno == EEXIST) return -1;
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0) return -1;
    int failed = copy(upload->descriptor, file), error = errno;
    if (close(file) && !failed) {
        failed = -1;
        error = errno;
    }
    if (failed) unlink(path);
    errno = error;
    return failed;
}
