/* agent.c: the questions and answers of an agent, over libsluice. */
#include "agent.h"

#include <sluice.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <signal.h>
#include <unistd.h>

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif

/* Bytes of a line of the answer, and of all its lines. */
#define LINE_BYTES_MAX 1024
#define ANSWER_BYTES_MAX (256 << 10)

/* Seconds for an answer, where the server says nothing. */
#define SECONDS_DEFAULT "10"

static char *settings, *current_settings;
static int settings_have_changed;

/* The lines of the answer so far. */
static char answer[ANSWER_BYTES_MAX];
static size_t answer_bytes;
static int is_answered, is_pending;

static struct timespec deadline;

void agent_begin(void)
{
    /* Neither core dumps nor other processes of the user get the passwords. */
    prctl(PR_SET_DUMPABLE, 0);
    /* A server that has gone shows as EPIPE. */
    signal(SIGPIPE, SIG_IGN);
    /* Helpers that a module starts and that stay must not hold the mailbox open. On a kernel without the call they do. */
#ifdef SYS_close_range
    syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC);
#endif
}

int agent_has_controls(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f) return 1;
    return 0;
}

static void add_line(const char *begin, const char *text)
{
    char line[LINE_BYTES_MAX];
    int bytes = snprintf(line, sizeof line, "%s%s", begin, text);
    if (bytes < 0) return;
    if ((size_t)bytes >= sizeof line) bytes = sizeof line - 1;
    if (answer_bytes + (size_t)bytes + 1 > sizeof answer) return;
    /* A line break would begin a line of its own. */
    for (int at = 0; at < bytes; at++)
        answer[answer_bytes++] = (unsigned char)line[at] < ' ' || line[at] == 0x7f ? ' ' : line[at];
    answer[answer_bytes++] = '\n';
}

void agent_accept(const char *name)
{
    if (is_answered) return;
    is_answered = 1;
    add_line("100 REMOTE-USER ", name);
}

void agent_group(const char *name)
{
    if (*name && !agent_has_controls(name)) add_line("100 GROUP ", name);
}

static void answer_with(const char *code, const char *format, va_list arguments)
{
    if (is_answered) return;
    is_answered = 1;
    char text[LINE_BYTES_MAX];
    vsnprintf(text, sizeof text, format, arguments);
    /* Groups would be those of a user. */
    answer_bytes = 0;
    add_line(code, text);
}

void agent_refuse(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    answer_with("401 ", format, arguments);
    va_end(arguments);
}

void agent_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    answer_with("500 ", format, arguments);
    va_end(arguments);
}

int agent_is_answered(void)
{
    return is_answered;
}

/* Sends the answer: lines between the sentinels of a callout, and the end. */
static void send_answer(void)
{
    const char *escape = getenv("CGIPLUSESC"), *end = getenv("CGIPLUSEOT");
    if (!is_answered) agent_fail("the agent has no answer");
    if (escape && end)
        printf("%s\n%.*s%s\n", escape, (int)answer_bytes, answer, end);
    else
        /* Run by hand, as a CGI script. */
        printf("Content-Type: text/plain\n\n%.*s", (int)answer_bytes, answer);
    sluice_finish();
}

/* Overwrites the password, which the library holds until the next question. */
static void forget_password(void)
{
    const char *password = sluice_variable("AUTH_PASSWORD");
    if (password) explicit_bzero((char *)(size_t)password, strlen(password));
}

static void read_settings(void)
{
    const char *text = sluice_variable("AUTH_AGENT");
    if (!text) text = "";
    settings_have_changed = !settings || strcmp(settings, text);
    if (!settings_have_changed) return;
    free(settings);
    free(current_settings);
    settings = strdup(text);
    current_settings = strdup(text);
    if (!settings || !current_settings) abort();
    /* Settings are NAME=VALUE, separated by tabs; each becomes a text of its own. */
    for (char *at = current_settings; *at; at++)
        if (*at == '\t') *at = '\0';
}

const char *agent_setting(const char *name, const char *otherwise)
{
    size_t length = strlen(name), bytes = strlen(settings);
    for (const char *at = current_settings; at < current_settings + bytes; at += strlen(at) + 1)
        if (!strncmp(at, name, length) && at[length] == '=') return at + length + 1;
    return otherwise;
}

int agent_settings_have_changed(void)
{
    return settings_have_changed;
}

double agent_seconds_left(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double left = (double)(deadline.tv_sec - now.tv_sec) + (double)(deadline.tv_nsec - now.tv_nsec) / 1e9;
    return left > 0 ? left : 0;
}

static void set_deadline(void)
{
    double seconds = atof(agent_setting("timeout", SECONDS_DEFAULT));
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += (time_t)seconds;
    deadline.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
    if (deadline.tv_nsec >= 1000000000) {
        deadline.tv_sec++;
        deadline.tv_nsec -= 1000000000;
    }
}

int agent_next(struct agent_question *question)
{
    for (;;) {
        if (is_pending) {
            forget_password();
            send_answer();
            is_pending = 0;
        }
        if (!sluice_accept()) return 0;
        is_pending = 1;
        is_answered = 0;
        answer_bytes = 0;
        read_settings();
        set_deadline();
        question->name = sluice_variable("REMOTE_USER");
        question->password = sluice_variable("AUTH_PASSWORD");
        if (!question->name || !*question->name)
            agent_refuse("a token, which only other agents understand");
        else if (!question->password || !*question->password)
            /* In LDAP a bind without a password succeeds, and proves nothing (RFC 4513 section 5.1.2). */
            agent_refuse("an empty password");
        else if (agent_has_controls(question->name))
            agent_refuse("a name with control characters");
        else
            return 1;
    }
}
