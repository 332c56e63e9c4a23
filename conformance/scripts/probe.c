/* The behaviours as a script in C on libsluice: CGI and CGIplus by the same source. PATH_INFO names one. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sluice.h"

static char block[65536];

static const char *variable(const char *name)
{
    const char *value = sluice_variable(name);
    return value ? value : "";
}

static void text_head(const char *fields) { printf("Content-Type: text/plain; charset=utf-8\n%s\n", fields); }

static void variables(void)
{
    char *names = strdup(variable("HTTP_X_NAMES")), *rest = names;
    text_head("");
    for (const char *name; (name = strsep(&rest, " "));) {
        const char *value = sluice_variable(name);
        if (value)
            printf("%s=%s\n", name, value);
        else
            printf("%s is absent\n", name);
    }
    free(names);
}

static void fields(void)
{
    text_head("X-Twice: one\nX-Twice: two\nSet-Cookie: a=1\nSet-Cookie: b=2; Path=/\n");
    printf("%s\n%s\n", variable("HTTP_X_TWICE"), variable("HTTP_COOKIE"));
}

static void echo(void)
{
    ssize_t got;
    const char *length = variable("CONTENT_LENGTH");
    printf("Content-Type: application/octet-stream\nX-Content-Length: %s\n\n", *length ? length : "0");
    fflush(stdout);
    while ((got = sluice_body_read(block, sizeof block)) > 0)
        fwrite(block, 1, got, stdout);
}

static size_t read_fully(size_t wanted)
{
    size_t done = 0;
    ssize_t got;
    while (done < wanted && (got = sluice_body_read(block + done, wanted - done)) > 0)
        done += got;
    return done;
}

static void to_and_fro(void)
{
    text_head("");
    for (int number = 1; number <= 2; number++) {
        printf("part %d: %zu bytes\n", number, read_fully(sizeof block));
        fflush(stdout);
    }
}

static void wait_at_gate(void)
{
    char path[4096], line[200];
    snprintf(path, sizeof path, "%s/gate", getenv("PROBE_DIR"));
    FILE *gate = fopen(path, "r");
    if (gate && fgets(line, sizeof line, gate))
        fputs(line, stdout);
    if (gate)
        fclose(gate);
}

static void stream(void)
{
    text_head("");
    puts("first");
    fflush(stdout);
    wait_at_gate();
}

static void local_redirect(void) { puts("Location: /target.txt?from=script\n"); }

static void client_redirect(void) { puts("Location: https://example.org/elsewhere?a=1\n"); }

static void document_redirect(void)
{
    text_head("Status: 303 See Other\nLocation: https://example.org/new\n");
    puts("It is elsewhere.");
}

static void status(void)
{
    printf("Status: %s Its Own Words\n", variable("QUERY_STRING"));
    text_head("");
    puts("a document");
}

static void large_head(void)
{
    for (int number = atoi(variable("HTTP_X_COUNT")); number > 0; number--)
        printf("X-Field-%d: %0300d\n", number, 0);
    text_head("");
    printf("%zu %zu\n", strlen(variable("HTTP_X_LARGE")), strlen(variable("QUERY_STRING")));
}

static void empty(void) { text_head(""); }

static void no_content(void) { puts("Status: 204 No Content\n"); }

static void nothing(void) {}

static void nph(void) { fputs("HTTP/1.1 299 Its Own\r\nContent-Type: text/plain\r\nX-Nph: yes\r\n\r\nwith its own head\n", stdout); }

static void short_(void)
{
    text_head("Content-Length: 100\n");
    puts("short");
}

static void die_before(void) { kill(getpid(), SIGKILL); }

static void half(void)
{
    text_head("");
    puts("half");
    fflush(stdout);
}

static void die_within(void)
{
    half();
    kill(getpid(), SIGKILL);
}

static void exit_before(void) { exit(3); }

static void exit_within(void)
{
    text_head("");
    puts("before");
    exit(0);
}

/* C has no exceptions: the usual end of a program that cannot go on. */
static void error_before(void)
{
    fprintf(stderr, "an error %s\n", variable("QUERY_STRING"));
    exit(1);
}

static void error_within(void)
{
    half();
    error_before();
}

static void endless(void)
{
    for (;;)
        usleep(10000);
}

static void errors(void)
{
    text_head("");
    printf("%d", getpid());
    fprintf(stderr, "a line %s\n", variable("QUERY_STRING"));
}

static void process(void)
{
    text_head("");
    printf("%d", getpid());
}

static void directory(void)
{
    char path[4096];
    text_head("");
    printf("%s\n0 arguments\n", getcwd(path, sizeof path));
}

static void look(void)
{
    const char *names[] = {"REQUEST_METHOD", "QUERY_STRING", "CONTENT_LENGTH", "CONTENT_TYPE", "HTTP_X_LEFT", "HTTP_COOKIE"};
    text_head("");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        printf("%s=%s\n", names[i], sluice_variable(names[i]) ? sluice_variable(names[i]) : "None");
}

static void leave(void)
{
    text_head("Status: 404 Not Found\nX-Left: here\n");
    puts("left");
}

static void bulk(void)
{
    text_head("");
    printf("%d\n", getpid());
    fflush(stdout);
    memset(block, 'x', sizeof block);
    while (fwrite(block, 1, sizeof block, stdout) == sizeof block)
        ;
    exit(0);
}

static void silent(void)
{
    text_head("");
    printf("%d\n", getpid());
    fflush(stdout);
    wait_at_gate();
}

static void callouts(void)
{
    static const char *const requests[] = {"MAP-PATH: /file.txt", "MAP-FILE: /etc/passwd", "NONSENSE: x", "LIFETIME: 1h", "NOOP:"};
    char text[4096];
    text_head("");
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        int code = sluice_callout(text, sizeof text, "%s", requests[i]);
        printf("%d %s\n", code, text);
    }
    sluice_callout(NULL, 0, "NOTICED: a notice %s", variable("QUERY_STRING"));
}

/* Block `number` of the bulk output. */
static void fill(int number) { memset(block, 'a' + number % 26, sizeof block); }

/* The memory buffer by callouts: two halves in turn. */
static void buffer_plain(void)
{
    int blocks = atoi(variable("QUERY_STRING"));
    if (sluice_callout(NULL, 0, "BUFFER-BEGIN: 128k") != 200)
        exit(4);
    text_head("");
    int file = open(getenv("CGIPLUSBUF"), O_RDWR);
    for (int number = 0; number < blocks; number++) {
        int offset = number % 2 * (int)sizeof block;
        fill(number);
        if (pwrite(file, block, sizeof block, offset) != sizeof block)
            exit(5);
        if (sluice_callout(NULL, 0, "BUFFER-WRITE: %zu %d", sizeof block, offset) != 200)
            exit(6);
    }
    close(file);
    sluice_callout(NULL, 0, "BUFFER-END:");
}

static void buffer(void)
{
    int blocks = atoi(variable("QUERY_STRING"));
    if (sluice_buffer_begin(1 << 20, NULL) != 0)
        exit(4);
    text_head("");
    for (int number = 0; number < blocks; number++) {
        fill(number);
        if (sluice_buffer_write(block, sizeof block) != 0)
            exit(5);
    }
    sluice_buffer_end();
}

/* Writes to the buffer until the server says that the client is gone. */
static void buffer_gone(void)
{
    char path[4096];
    sluice_buffer_begin(1 << 20, NULL);
    text_head("");
    while (sluice_buffer_write(block, sizeof block) == 0)
        ;
    snprintf(path, sizeof path, "%s/event", getenv("PROBE_DIR"));
    FILE *event = fopen(path, "w");
    fprintf(event, "gone: %s\n", strerrorname_np(errno));
    fclose(event);
    sluice_buffer_end();
}

static const struct {
    const char *name;
    void (*run)(void);
} behaviours[] = {
    {"variables", variables}, {"fields", fields}, {"echo", echo}, {"to-and-fro", to_and_fro}, {"stream", stream},
    {"local-redirect", local_redirect}, {"client-redirect", client_redirect}, {"document-redirect", document_redirect},
    {"status", status}, {"large-head", large_head}, {"empty", empty}, {"no-content", no_content}, {"nothing", nothing}, {"nph", nph},
    {"short", short_}, {"die-before", die_before}, {"die-within", die_within}, {"exit-before", exit_before},
    {"exit-within", exit_within}, {"error-before", error_before}, {"error-within", error_within}, {"endless", endless},
    {"errors", errors}, {"process", process}, {"directory", directory}, {"look", look}, {"leave", leave}, {"bulk", bulk},
    {"silent", silent}, {"callouts", callouts}, {"buffer-plain", buffer_plain}, {"buffer", buffer}, {"buffer-gone", buffer_gone},
};

int main(void)
{
    while (sluice_accept()) {
        const char *name = variable("PATH_INFO") + 1;
        size_t length = strcspn(name, "/");
        for (size_t i = 0; i < sizeof behaviours / sizeof *behaviours; i++)
            if (strlen(behaviours[i].name) == length && memcmp(name, behaviours[i].name, length) == 0)
                behaviours[i].run();
        sluice_finish();
    }
}
