/* cgipluscallout: a page that makes callouts while it is being written, and shows the answers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sluice.h"

static void print_escaped(const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '&': fputs("&amp;", stdout); break;
        case '<': fputs("&lt;", stdout); break;
        case '>': fputs("&gt;", stdout); break;
        case '"': fputs("&quot;", stdout); break;
        default: putchar(*text);
        }
    }
}

/* Makes a callout and prints question and answer. The first half is printed before the callout, so output and callouts alternate. */
static void ask(const char *why, const char *request)
{
    char answer[512];
    printf("<dt>%s</dt>\n<dd><code>", why);
    print_escaped(request);
    printf("</code><br>");
    int code = sluice_callout(answer, sizeof answer, "%s", request);
    if (code < 0)
        perror("cgipluscallout"), printf("<i>no answer: this server makes no callouts</i>");
    else if (code == 0)
        printf("<i>no answer, as asked</i>");
    else
        printf("<b class=\"%s\">%03d</b> ", code < 400 ? "good" : "bad", code), print_escaped(answer);
    printf("</dd>\n");
}

static void ask_about_path(void)
{
    const char *path = sluice_variable("PATH_INFO");
    char request[1024], file[512];
    snprintf(request, sizeof request, "MAP-PATH: %s", path && *path ? path : "/");
    ask("Which file is this path?", request);
    if (sluice_callout(file, sizeof file, "%s", request) != 200) return;
    snprintf(request, sizeof request, "MAP-FILE: %s", file);
    ask("And which path is that file?", request);
}

static void print_page(void)
{
    printf("Content-Type: text/html; charset=utf-8\n\n"
           "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
           "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Callouts</title>\n"
           "<style>\n"
           "body { font: 1rem/1.5 system-ui, sans-serif; max-width: 40rem; margin: 2rem auto; padding: 0 1rem; color-scheme: light dark }\n"
           "dt { font-weight: 600; margin-top: 1rem } dd { margin: 0; overflow-wrap: anywhere }\n"
           ".good { color: #287d3c } .bad { color: #b3261e }\n"
           "@media (prefers-color-scheme: dark) { .good { color: #7fd694 } .bad { color: #ff8f86 } }\n"
           "</style>\n<h1>Callouts</h1>\n"
           "<p>In the middle of this page the script asked the server what you see below.\n"
           "This process has been used <strong>%lu</strong> time%s%s.</p>\n<dl>\n",
           sluice_uses(), sluice_uses() == 1 ? "" : "s", sluice_is_persistent() ? "" : ", and is plain CGI: it will not be used again");
    ask("Are you there?", "NOOP:");
    ask_about_path();
    ask("May this process idle for ten minutes?", "LIFETIME: 10m");
    ask("What is the status of this response so far?", "HTTP-STATUS:");
    ask("What does nobody understand?", "FLY-TO: the moon");
    ask("A question whose answer is not wanted", "!NOOP:");
    ask("Another way to say so", "#NOOP:");
    ask("Are we still in step?", "NOOP:");
    printf("</dl>\n</html>\n");
}

int main(void)
{
    while (sluice_accept()) {
        print_page();
        if (sluice_finish()) return EXIT_FAILURE;
    }
    return 0;
}
