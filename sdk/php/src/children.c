/* children.c: child processes of a script.

   Here: a process that a script has made by pcntl_fork() is not the engine and has no part of the reply: it gets /dev/null for the server's
   descriptors, and ends with its script. At the end of a request the children that still run are killed, as for a CGI program, except those with
   a session of their own (setsid) and, in worker mode, those that were started before the first request.
   Not here: the child of --fresh=fork, which is the engine for one request (fork.c). */
#include "engine.h"

#include "ext/standard/basic_functions.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* A child may start others while it is killed. */
#define ROUNDS_MAX 100
#define KEPT_MAX 64
#define LIST_BYTES 65536

static pid_t kept[KEPT_MAX]; /* children of the boot */
static size_t kept_count;

bool engine_is_own_process(void)
{
    return getpid() == engine.process;
}

/* Called in each process that fork(2) makes. */
static void in_child(void)
{
    if (engine.is_forking) {
        engine.process = getpid();
        return;
    }
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    const int descriptors[] = {3, 4, engine.body, engine.mailbox};
    for (size_t i = 0; i < sizeof descriptors / sizeof *descriptors; i++) {
        if (fcntl(descriptors[i], F_GETFD) < 0) continue;
        if (nothing < 0 || dup3(nothing, descriptors[i], O_CLOEXEC) < 0) close(descriptors[i]);
    }
    dup2(STDERR_FILENO, STDOUT_FILENO); /* it is the mailbox while a memory buffer is in use */
    if (nothing >= 0) close(nothing);
    records_close_socket();
    memory_forget();
    output_forget_in_child();
}

void children_open(void)
{
    engine.process = getpid();
    if (pthread_atfork(NULL, NULL, in_child)) engine_report("a handler for fork() cannot be set");
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* what a child has started comes here when that child has ended */
}

noreturn void children_leave(void)
{
    zend_try { php_call_shutdown_functions(); } zend_end_try();
    if (!CG(unclean_shutdown)) {
        zend_try { zend_call_destructors(); } zend_end_try();
    }
    _exit(EG(exit_status));
}

/* ---- The end of a request ---- */

/* The process ids of the children, separated by blanks. NULL: the kernel does not tell. The caller frees it. */
static char *list_children(void)
{
    int file = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
    char *text = file < 0 ? NULL : malloc(LIST_BYTES);
    size_t used = 0;
    ssize_t got = 0;
    while (text && used < LIST_BYTES - 1 && (got = read(file, text + used, LIST_BYTES - 1 - used)) > 0) used += (size_t)got;
    if (file >= 0) close(file);
    if (text) text[used] = '\0';
    return text;
}

static bool is_kept(pid_t child)
{
    for (size_t i = 0; i < kept_count; i++)
        if (kept[i] == child) return true;
    return false;
}

static pid_t next_child(char **at)
{
    char *end;
    long number = strtol(*at, &end, 10);
    *at = end;
    return (pid_t)number;
}

void children_keep(void)
{
    char *list = list_children(), *at = list;
    pid_t child;
    kept_count = 0;
    while (at && kept_count < KEPT_MAX && (child = next_child(&at)) > 0) kept[kept_count++] = child;
    free(list);
}

enum round { NONE_LEFT, SOME_KILLED, CANNOT_END };

/* `have_mailbox`: the children of this request may have got the mailbox as their standard output. */
static enum round kill_children(bool have_mailbox)
{
    char *list = list_children(), *at = list;
    enum round result = list ? NONE_LEFT : CANNOT_END;
    pid_t child, session = getsid(0);
    while (at && (child = next_child(&at)) > 0) {
        if (is_kept(child)) continue;
        if (getsid(child) != session) {
            if (have_mailbox) engine.must_end = true;
        } else if (kill(child, SIGKILL) == 0) {
            while (waitpid(child, NULL, 0) < 0 && errno == EINTR) continue;
            if (result == NONE_LEFT) result = SOME_KILLED;
        } else if (errno != ESRCH) {
            result = CANNOT_END;
        }
    }
    free(list);
    return result;
}

void children_end(bool have_mailbox)
{
    for (int i = 0; i < ROUNDS_MAX; i++) {
        pid_t ended;
        while ((ended = waitpid(-1, NULL, WNOHANG)) > 0) continue;
        if (ended < 0) return; /* no children: one system call */
        enum round round = kill_children(have_mailbox);
        if (round == NONE_LEFT) return;
        if (round == CANNOT_END) break;
    }
    engine_report("a child process of the script cannot be ended: this process ends after the reply");
    engine.must_end = true;
}
