/* fork.c: --fresh=fork: each request is served by a child process, which has all that this process has loaded.

   Here: the fork, the wait, and the end of the reply, which the parent writes. Not here: what the child does (request.c, worker.c).
   opcache's memory is shared: what one child has compiled, the next child finds there. In worker mode the script boots in the parent, and
   each request begins in the state after that. */
#include "engine.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Written by the child, read by the parent after the child has ended. */
static struct shared {
    bool has_used_memory;
    bool has_ended; /* fastcgi_finish_request(): the child has written the end sentinel */
    char failure[512];
} *shared;

static bool is_child;

/* Ends the reply of a child that has ended with this status of waitpid(2). */
static void end_reply(int status)
{
    char text[64];
    if (shared->has_ended) return;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        output_end();
        return;
    }
    if (WIFSIGNALED(status)) snprintf(text, sizeof text, "the process of the request was ended by signal %d", WTERMSIG(status));
    else snprintf(text, sizeof text, "the process of the request ended with status %d", WEXITSTATUS(status));
    if (!*shared->failure) engine_report("%s", text);
    output_fail(*shared->failure ? shared->failure : text);
}

bool fork_request(void)
{
    if (!shared) {
        void *page = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        shared = page == MAP_FAILED ? NULL : page;
    }
    pid_t child = -1;
    if (shared) {
        memset(shared, 0, sizeof *shared);
        engine.is_forking = true;
        child = fork();
        engine.is_forking = false;
    }
    if (child == 0) {
        is_child = true;
        engine.uses = 1; /* nothing of an earlier request is in this process */
        isolate_reseed(); /* otherwise all children have the same random numbers */
        return true;
    }
    if (child < 0) {
        engine_report("fork: %s", strerror(errno));
        output_fail("no process for the request");
        return false;
    }
    output_forget();
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    children_end(shared->has_used_memory); /* what the child has started, and was not ended there */
    uploads_end();
    end_reply(status);
    return false;
}

void fork_note_ended(void)
{
    if (is_child) shared->has_ended = true;
}

void fork_note_memory(void)
{
    if (is_child) shared->has_used_memory = true;
}

noreturn void fork_leave(const char *failure)
{
    if (failure) snprintf(shared->failure, sizeof shared->failure, "%s", failure);
    output_close_in_child(failure != NULL);
    _exit(failure ? 1 : 0);
}
