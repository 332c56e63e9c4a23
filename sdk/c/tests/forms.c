/* forms: a script for the tests of responses, forms, uploads and coding. The variable PROBE selects an action. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sluice.h"

static const char *argument(const char *name)
{
    const char *value = sluice_variable(name);
    return value ? value : "";
}

static const char *error_name(void)
{
    static char number[16];
    switch (errno) {
    case 0: return "none";
    case EINVAL: return "EINVAL";
    case EALREADY: return "EALREADY";
    case EMSGSIZE: return "EMSGSIZE";
    case EFBIG: return "EFBIG";
    case EBADMSG: return "EBADMSG";
    case EEXIST: return "EEXIST";
    case ENOENT: return "ENOENT";
    default: snprintf(number, sizeof number, "%d", errno); return number;
    }
}

/* All fields as `name=value;`, all uploads as `name|file name|type|bytes|path works|content;`. */
static void show_form(void)
{
    ssize_t count = sluice_parameter_count();
    if (count < 0) {
        printf("Content-Type: text/plain\n\n%s %d", error_name(), sluice_parameter("a") || sluice_upload("a"));
        return;
    }
    sluice_respond("text/plain");
    for (size_t i = 0; i < (size_t)count; i++) {
        const char *name;
        size_t length;
        const char *value = sluice_parameter_at(i, &name, &length);
        printf("%s=", name);
        sluice_write(value, length);
        printf(";");
    }
    const struct sluice_upload *upload;
    for (size_t i = 0; (upload = sluice_uploads(NULL, i)); i++) {
        char content[100];
        ssize_t got = read(upload->descriptor, content, sizeof content);
        FILE *file = fopen(upload->path, "r");
        printf("%s|%s|%s|%llu|%d|", upload->name, upload->file_name, upload->type, (unsigned long long)upload->bytes, file != NULL);
        if (file) fclose(file);
        sluice_write(content, got < 0 ? 0 : (size_t)got);
        printf(";");
    }
}

static void look_up(void)
{
    sluice_respond("text/plain");
    const char *name = argument("WANTED"), *value;
    for (size_t i = 0; (value = sluice_parameters(name, i)); i++) printf("%zu=%s ", i, value);
    value = sluice_parameter(name);
    printf("%s %s", value ? value : "(none)", error_name());
}

static void fail_form(void)
{
    if (sluice_parameter_count() < 0) sluice_fail(0, NULL);
    else sluice_fail((int)strtol(argument("WANTED"), NULL, 10), argument("TEXT"));
}

static void save_upload(void)
{
    const struct sluice_upload *upload = sluice_upload("f");
    sluice_respond("text/plain");
    if (!upload) printf("no upload: %s", error_name());
    else if (sluice_upload_save(upload, argument("WANTED"))) printf("%s", error_name());
    else printf("saved");
}

/* The lines of WANTED: each a call, `status 404`, `header Name: value`, `respond`, `redirect 302 url`, `fail 404 text`, `write text`, `event data`. */
static void call(char *line)
{
    char *rest = strchr(line, ' ');
    rest = rest ? rest + 1 : line + strlen(line);
    int failed = 0;
    if (strncmp(line, "status", 6) == 0) failed = sluice_status(atoi(rest));
    else if (strncmp(line, "header", 6) == 0) {
        char *value = strchr(rest, ':');
        *value = '\0';
        for (char *at = value + 1; *at; at++)
            if (*at == '\\') *at = '\n';
        failed = sluice_header(rest, value + 1);
    } else if (strncmp(line, "respond", 7) == 0) failed = sluice_respond(*rest ? rest : NULL);
    else if (strncmp(line, "redirect", 8) == 0) failed = sluice_redirect(rest + 4, atoi(rest));
    else if (strncmp(line, "fail", 4) == 0) failed = sluice_fail(atoi(rest), rest + 4);
    else if (strncmp(line, "write", 5) == 0) failed = sluice_write(rest, strlen(rest));
    else if (strncmp(line, "event", 5) == 0) {
        for (char *at = rest; *at; at++)
            if (*at == '\\') *at = '\n';
        failed = sluice_event(rest, argument("NAME"), sluice_variable("ID"));
    }
    if (failed) fprintf(stderr, "%s %s\n", line, error_name());
}

static void make_calls(void)
{
    static char calls[4096];
    snprintf(calls, sizeof calls, "%s", argument("WANTED"));
    for (char *at = calls, *line; (line = strsep(&at, "/"));) call(line);
}

static void code(void)
{
    size_t length;
    const char *decoded = sluice_url_decode(argument("WANTED"), &length);
    printf("Content-Type: text/plain\n\n%s %s %zu:%s", sluice_escape_html(argument("WANTED")), sluice_url_encode(argument("WANTED")), length, decoded);
}

static void use_callouts(void)
{
    char file[100], path[100], small[5];
    sluice_respond("text/plain");
    int statuses[] = {sluice_map_path(file, sizeof file, "/doc/"), sluice_map_file(path, sizeof path, "/srv/doc/a"),
                      sluice_map_path(small, sizeof small, "/doc/"), sluice_lifetime("5m"), sluice_notice("%s\nthree", "one\ttwo")};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) printf("%d ", statuses[i]);
    sluice_watch("seen\nby %s", "watchers");
    int missing = sluice_map_path(NULL, 0, argument("WANTED"));
    printf("%s %s %s %d %s", file, path, small, missing, missing ? error_name() : "");
}

static const struct {
    const char *name;
    void (*run)(void);
} actions[] = {
    {"form", show_form}, {"lookup", look_up}, {"fail", fail_form},         {"save", save_upload},
    {"call", make_calls}, {"code", code},    {"callouts", use_callouts},
};

int main(void)
{
    while (sluice_accept()) {
        if (*argument("LIMIT") && sluice_upload_limit(strtoull(argument("LIMIT"), NULL, 10))) return 9;
        char byte;
        if (*argument("TOUCH") && sluice_body_read(&byte, 1) < 0) return 8;
        for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
            if (strcmp(actions[i].name, argument("PROBE")) == 0) actions[i].run();
        if (sluice_finish()) return 7;
    }
    return 0;
}
