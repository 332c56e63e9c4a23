/* uploads.c: a directory for the uploads of a request, so that none stays behind if the server ends the process within it.

   PHP removes the files of an upload at the end of the request. A process that is ended before (the client leaves, reply_timeout) does not
   come to that. So each request with a form of parts has a directory of its own below upload_tmp_dir (or that of temporary files), which is removed at its
   end, and by SIGTERM, with which the server ends a process. What SIGKILL leaves is removed by the next process of the same user: the directory of a
   request that runs is locked (flock(2)).
   Here: that directory. Not here: the files in it, which PHP makes, moves and removes (main/rfc1867.c). */
#include "engine.h"

#include "php_open_temporary_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PREFIX "sluice-uploads-"
/* Directories of other processes that one process checks. */
#define ABANDONED_MAX 64
#define TRIES_MAX 8

static struct {
    char path[MAXPATHLEN];
    int descriptor; /* of the locked directory; 0 before it is made */
    pid_t owner;    /* the process that has made it: not its child of --fresh=fork */
    bool has_swept; /* what killed processes have left */
    zend_string *setting; /* upload_tmp_dir as it was configured */
} uploads;

/* What getdents64(2) gives. */
struct entry {
    uint64_t inode;
    int64_t offset;
    unsigned short length;
    unsigned char type;
    char name[];
};

/* Removes the files in a directory. Only system calls: a handler of a signal calls it. */
static void empty(int directory)
{
    union {
        struct entry first;
        char bytes[4096];
    } buffer;
    long count;
    /* Again from the start after each part: entries move when others are removed. Each round removes some, or is the last. */
    for (bool has_removed = true; has_removed;) {
        has_removed = false;
        if (lseek(directory, 0, SEEK_SET) < 0) return;
        while ((count = syscall(SYS_getdents64, directory, buffer.bytes, sizeof buffer.bytes)) > 0)
            for (long at = 0; at < count;) {
                struct entry *entry = (struct entry *)(void *)(buffer.bytes + at);
                if (unlinkat(directory, entry->name, 0) == 0) has_removed = true;
                at += entry->length;
            }
    }
}

/* Only system calls. */
static void remove_directory(void)
{
    if (uploads.descriptor <= 0 || !engine_is_own_process()) return;
    empty(uploads.descriptor);
    if (getpid() == uploads.owner) rmdir(uploads.path);
}

/* Ends the process as without a handler. One that a script has forked leaves the directory to the engine. */
static void on_end(int number)
{
    int error = errno;
    remove_directory();
    signal(number, SIG_DFL);
    raise(number);
    errno = error;
}

void uploads_open(void)
{
    struct sigaction action = {.sa_handler = on_end};
    sigaction(SIGTERM, &action, NULL);
}

/* Opens and locks a directory of this user. -1 if somebody else has it, or if it has been removed. */
static int lock(const char *path)
{
    struct stat about;
    int directory = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (directory < 0) return -1;
    if (fstat(directory, &about) == 0 && about.st_uid == geteuid() && flock(directory, LOCK_EX | LOCK_NB) == 0 &&
        fstat(directory, &about) == 0 && about.st_nlink > 0)
        return directory;
    close(directory);
    return -1;
}

/* Removes directories of processes that were killed. */
static void remove_abandoned(const char *parent)
{
    DIR *list = opendir(parent);
    struct dirent *entry;
    int left = ABANDONED_MAX;
    while (list && left > 0 && (entry = readdir(list))) {
        char path[MAXPATHLEN];
        if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0) continue;
        left--;
        if (snprintf(path, sizeof path, "%s/%s", parent, entry->d_name) >= (int)sizeof path) continue;
        int directory = lock(path);
        if (directory < 0) continue;
        empty(directory);
        rmdir(path);
        close(directory);
    }
    if (list) closedir(list);
}

static bool create(const char *parent)
{
    for (int i = 0; i < TRIES_MAX; i++) {
        if (snprintf(uploads.path, sizeof uploads.path, "%s/" PREFIX "XXXXXX", parent) >= (int)sizeof uploads.path) return false;
        if (!mkdtemp(uploads.path)) return false;
        int directory = lock(uploads.path);
        if (directory >= 0) {
            /* Above the numbers that scripts may have fixed ideas of. */
            uploads.descriptor = fcntl(directory, F_DUPFD_CLOEXEC, 10);
            uploads.owner = getpid();
            close(directory);
            return uploads.descriptor > 0;
        }
        /* Another process took it for an abandoned one before it was locked. */
    }
    return false;
}

/* Changes the setting as if php.ini had this value. The value before. */
static zend_string *set(zend_string *value)
{
    zend_ini_entry *entry = zend_hash_str_find_ptr(EG(ini_directives), ZEND_STRL("upload_tmp_dir"));
    if (!entry) return NULL;
    zend_string *before = entry->value;
    entry->on_modify(entry, value, entry->mh_arg1, entry->mh_arg2, entry->mh_arg3, ZEND_INI_STAGE_STARTUP);
    entry->value = value;
    return before;
}

void uploads_begin(void)
{
    static const char form[] = "multipart/form-data";
    const char *type = records_value(V_CONTENT_TYPE);
    if (!type || strncasecmp(type, form, strlen(form)) != 0) return;
    const char *parent = PG(upload_tmp_dir) && *PG(upload_tmp_dir) ? PG(upload_tmp_dir) : php_get_temporary_directory();
    if (!uploads.has_swept) remove_abandoned(parent);
    uploads.has_swept = true;
    if (!create(parent)) return; /* PHP says itself that it cannot store a file */
    uploads.setting = set(zend_string_init(uploads.path, strlen(uploads.path), true));
}

void uploads_end(void)
{
    if (uploads.descriptor <= 0 || !engine_is_own_process()) return;
    zend_string *own = set(uploads.setting);
    if (own) zend_string_release(own);
    remove_directory();
    close(uploads.descriptor);
    uploads.descriptor = 0;
}
