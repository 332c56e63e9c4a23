/* isolate.c: what a script changes in the process and PHP does not put back.

   PHP itself puts back at the end of a request: variables, functions and classes of the script, putenv(), ini_set(), set_time_limit(), umask(),
   setlocale(), open files (except persistent ones), temporary upload files, sessions, handlers of errors, output buffers, stream contexts and
   wrappers. The environment and the directory are set for each request (records.c, request.c).
   Here: descriptors that child processes must not have; signal handlers, the signal mask and the alarm of the extension pcntl, if it is loaded; and
   what cannot be put back, such as the priority: then the process ends after the reply. */
#include "engine.h"

#if PHP_VERSION_ID >= 80200
#include "ext/random/php_random.h"
#else
#include "ext/standard/basic_functions.h"
#include "ext/standard/php_lcg.h"
#endif
#include "zend_signal.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define SIGNALS_MAX 64
/* PHP and its extensions open a handful when they start. */
#define DESCRIPTORS_MAX 64

static struct {
    struct sigaction actions[SIGNALS_MAX + 1];
    sigset_t mask;
    bool is_changed; /* a function of pcntl has been called in this request */
} signals;

/* Functions that change something in the process, and their handlers in the extension. */
static struct wrapped {
    const char *name;
    zif_handler original;
} wrapped[] = {
    {"pcntl_signal", NULL}, {"pcntl_alarm", NULL}, {"pcntl_sigprocmask", NULL}, {"pcntl_async_signals", NULL},
    {"proc_nice", NULL}, {"pcntl_setpriority", NULL}, {"pcntl_setcpuaffinity", NULL}, {"posix_setrlimit", NULL},
};
#define WRAPPED_COUNT (sizeof wrapped / sizeof *wrapped)

#define WRAPPER(index, flag)                                       \
    static ZEND_NAMED_FUNCTION(call_##index)                       \
    {                                                              \
        flag = true;                                               \
        wrapped[index].original(INTERNAL_FUNCTION_PARAM_PASSTHRU); \
    }
WRAPPER(0, signals.is_changed)
WRAPPER(1, signals.is_changed)
WRAPPER(2, signals.is_changed)
WRAPPER(3, signals.is_changed)
/* A process may lower its priority and its limits, and not raise them again. */
WRAPPER(4, engine.must_end)
WRAPPER(5, engine.must_end)
WRAPPER(6, engine.must_end)
WRAPPER(7, engine.must_end)
static const zif_handler wrappers[WRAPPED_COUNT] = {call_0, call_1, call_2, call_3, call_4, call_5, call_6, call_7};

static void save_signals(void)
{
    for (int number = 1; number <= SIGNALS_MAX; number++)
        if (sigaction(number, NULL, &signals.actions[number])) signals.actions[number].sa_handler = SIG_DFL;
    sigprocmask(SIG_SETMASK, NULL, &signals.mask);
}

/* PHP would set its seven signal handlers for each request. They stay, so once is enough. */
static void set_handlers_of_php(bool at_next_request)
{
#ifdef ZEND_SIGNALS
    SIGG(reset) = at_next_request;
#else
    (void)at_next_request;
#endif
}

/* opcache's lock file and whatever else extensions have opened: no business of the script's child processes. */
static void close_on_exec(void)
{
    for (int descriptor = 5; descriptor < DESCRIPTORS_MAX; descriptor++) {
        int flags = fcntl(descriptor, F_GETFD);
        if (flags >= 0) fcntl(descriptor, F_SETFD, flags | FD_CLOEXEC);
    }
}

void isolate_open(void)
{
    close_on_exec();
    save_signals();
    set_handlers_of_php(true);
    for (size_t i = 0; i < WRAPPED_COUNT; i++) {
        zend_function *function = zend_hash_str_find_ptr(CG(function_table), wrapped[i].name, strlen(wrapped[i].name));
        if (!function || function->type != ZEND_INTERNAL_FUNCTION) continue;
        wrapped[i].original = function->internal_function.handler;
        function->internal_function.handler = wrappers[i];
    }
}

void isolate_reseed(void)
{
#if PHP_VERSION_ID >= 80200
    RANDOM_G(combined_lcg_seeded) = RANDOM_G(mt19937_seeded) = false;
#else
    LCG(seeded) = 0;
    BG(mt_rand_is_seeded) = 0;
#endif
}

void isolate_after_request(void)
{
    children_end(memory_was_used());
    set_handlers_of_php(signals.is_changed);
    if (!signals.is_changed) return;
    signals.is_changed = false;
    alarm(0);
    for (int number = 1; number <= SIGNALS_MAX; number++)
        if (number != SIGKILL && number != SIGSTOP) sigaction(number, &signals.actions[number], NULL);
    sigprocmask(SIG_SETMASK, &signals.mask, NULL);
}
