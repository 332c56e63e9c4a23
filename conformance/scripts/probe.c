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

static void text_head(void) { sluice_respond("text/plain; charset=utf-8"); }

static void variables(void)
{
    char *names = strdup(variable("HTTP_X_NAMES")), *rest = names;
    text_head();
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
    sluice_header("X-Twice", "one");
    sluice_header("X-Twice", "two");
    sluice_header("Set-Cookie", "a=1");
    sluice_header("Set-Cookie", "b=2; Path=/");
    text_head();
    printf("%s\n%s\n", variable("HTTP_X_TWICE"), variable("HTTP_COOKIE"));
}

static void echo(void)
{
    ssize_t got;
    const char *length = variable("CONTENT_LENGTH");
    sluice_header("X-Content-Length", *length ? length : "0");
    sluice_respond("application/octet-stream");
    while ((got = sluice_body_read(block, sizeof block)) > 0)
        sluice_write(block, got);
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
    text_head();
    for (int number = 1; number <= 2; number++) {
        printf("part %d: %zu bytes\n", number, read_fully(sizeof block));
        fflush(stdout);
    }
}

static void wait_for_event(char *line, int size)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/gate", getenv("PROBE_DIR"));
    FILE *gate = fopen(path, "r");
    if (!gate || !fgets(line, size, gate))
        exit(7);
    line[strcspn(line, "\n")] = '\0';
    fclose(gate);
}

static void wait_at_gate(void)
{
    wait_for_event(block, sizeof block);
    puts(block);
}

static void stream(void)
{
    text_head();
    puts("first");
    fflush(stdout);
    wait_at_gate();
}

/* A head of its own: sluice_redirect() sends the client there. */
static void local_redirect(void) { puts("Location: /target.txt?from=script\n"); }

static void client_redirect(void) { sluice_redirect("https://example.org/elsewhere?a=1", 302); }

static void document_redirect(void)
{
    sluice_status(303);
    sluice_header("Location", "https://example.org/new");
    text_head();
    puts("It is elsewhere.");
}

static void status(void)
{
    sluice_status(atoi(variable("QUERY_STRING")));
    text_head();
    puts("a document");
}

static void fail(void)
{
    sluice_header("X-Dropped", "yes");
    sluice_fail(atoi(variable("QUERY_STRING")), "not now");
}

static void large_head(void)
{
    for (int number = atoi(variable("HTTP_X_COUNT")); number > 0; number--) {
        snprintf(block, sizeof block, "X-Field-%d%c%0300d", number, '\0', 0);
        sluice_header(block, block + strlen(block) + 1);
    }
    text_head();
    printf("%zu %zu\n", strlen(variable("HTTP_X_LARGE")), strlen(variable("QUERY_STRING")));
}

static void empty(void) { text_head(); }

static void no_content(void)
{
    sluice_status(204);
    sluice_respond(NULL);
}

static void nothing(void) {}

static void nph(void) { fputs("HTTP/1.1 299 Its Own\r\nContent-Type: text/plain\r\nX-Nph: yes\r\n\r\nwith its own head\n", stdout); }

static void short_(void)
{
    sluice_header("Content-Length", "100");
    text_head();
    puts("short");
}

static void die_before(void) { kill(getpid(), SIGKILL); }

/* Goes on when the client has got this. */
static void half(void)
{
    text_head();
    puts("half");
    fflush(stdout);
    wait_for_event(block, sizeof block);
}

static void die_within(void)
{
    half();
    kill(getpid(), SIGKILL);
}

static void exit_before(void) { exit(3); }

static void exit_within(void)
{
    text_head();
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
    text_head();
    printf("%d", getpid());
    fprintf(stderr, "a line %s\n", variable("QUERY_STRING"));
}

static void process(void)
{
    text_head();
    printf("%d", getpid());
}

static void directory(void)
{
    char path[4096];
    text_head();
    printf("%s\n0 arguments\n", getcwd(path, sizeof path));
}

static void look(void)
{
    const char *names[] = {"REQUEST_METHOD", "QUERY_STRING", "CONTENT_LENGTH", "CONTENT_TYPE", "HTTP_X_LEFT", "HTTP_COOKIE"};
    text_head();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        printf("%s=%s\n", names[i], sluice_variable(names[i]) ? sluice_variable(names[i]) : "None");
}

static void leave(void)
{
    sluice_status(404);
    sluice_header("X-Left", "here");
    text_head();
    puts("left");
}

static void bulk(void)
{
    text_head();
    printf("%d\n", getpid());
    fflush(stdout);
    memset(block, 'x', sizeof block);
    while (fwrite(block, 1, sizeof block, stdout) == sizeof block)
        ;
    exit(0);
}

static void silent(void)
{
    text_head();
    printf("%d\n", getpid());
    fflush(stdout);
    wait_at_gate();
}

static void events(void)
{
    sluice_event("one\ntwo", "first", "1");
    wait_for_event(block, sizeof block);
    sluice_event(block, NULL, NULL);
}

static void form(void)
{
    static const char *const names[] = {"a", "b", "c"};
    text_head();
    for (size_t i = 0; i < 3; i++) {
        const char *value;
        printf("%s: ", names[i]);
        for (size_t at = 0; (value = sluice_parameters(names[i], at)); at++)
            printf("%s%s", at ? "|" : "", value);
        puts("");
    }
    printf("%s %s\n", sluice_parameter("a"), sluice_parameter("missing") ? "" : "absent");
}

static void upload(void)
{
    static const char *const names[] = {"f", "g"};
    const struct sluice_upload *file = NULL;
    text_head();
    for (size_t i = 0; i < 2; i++) {
        file = sluice_upload(names[i]);
        printf("%s|%s|%s|%llu\n", file->name, file->file_name, file->type, (unsigned long long)file->bytes);
    }
    FILE *content = fopen(file->path, "r");
    for (size_t got; (got = fread(block, 1, sizeof block, content)) > 0;)
        sluice_write(block, got);
    fclose(content);
}

static void form_limit(void)
{
    if (sluice_parameter_count() < 0)
        sluice_fail(0, NULL);
    else
        text_head();
}

static void quoted(void)
{
    text_head();
    printf("%s\n%s\n", sluice_parameter("a\"b"), sluice_upload("f\"g")->file_name);
}

static void loop(void)
{
    text_head();
    printf("%ld %s %lu", (long)getpid(), sluice_is_persistent() ? "yes" : "no", sluice_uses());
}

static void coding(void)
{
    const char *text = "<a href=\"x\">'&amp;\u00fc</a> 100%";
    text_head();
    printf("%s\n%s\n%s\n", sluice_escape_html(text), sluice_url_encode(text), sluice_url_decode("%3Ca%3E+%C3%BC+%zz%", NULL));
}

static void callouts(void)
{
    static const char *const requests[] = {"MAP-PATH: /file.txt", "MAP-FILE: /etc/passwd", "NONSENSE: x", "LIFETIME: 1h", "NOOP:"};
    char text[4096];
    text_head();
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        int code = sluice_callout(text, sizeof text, "%s", requests[i]);
        printf("%d %s\n", code, text);
    }
    sluice_notice("a notice %s", variable("QUERY_STRING"));
}

/* Block `number` of the bulk output. */
static void fill(int number) { memset(block, 'a' + number % 26, sizeof block); }

/* The memory buffer by callouts: two halves in turn. */
static void buffer_plain(void)
{
    int blocks = atoi(variable("QUERY_STRING"));
    if (sluice_callout(NULL, 0, "BUFFER-BEGIN: 128k") != 200)
        exit(4);
    text_head();
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
    text_head();
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
    text_head();
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
    {"events", events}, {"local-redirect", local_redirect}, {"client-redirect", client_redirect},
    {"document-redirect", document_redirect}, {"status", status}, {"fail", fail}, {"large-head", large_head}, {"empty", empty},
    {"no-content", no_content}, {"nothing", nothing}, {"nph", nph}, {"short", short_}, {"die-before", die_before},
    {"die-within", die_within}, {"exit-before", exit_before}, {"exit-within", exit_within}, {"error-before", error_before},
    {"error-within", error_within}, {"endless", endless}, {"errors", errors}, {"process", process}, {"directory", directory},
    {"look", look}, {"leave", leave}, {"bulk", bulk}, {"silent", silent}, {"form", form}, {"upload", upload},
    {"form-limit", form_limit}, {"quoted", quoted}, {"loop", loop}, {"coding", coding}, {"callouts", callouts}, {"buffer-plain", buffer_plain}, {"buffer", buffer},
    {"buffer-gone", buffer_gone},
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
