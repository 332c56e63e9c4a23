/* cgilib_response.c: CGILIB's calls for responses and coding, implemented with sluice.h. */
#include "internal.h"
#include "sluice.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "../wasd/cgilib.h"

static struct {
    char charset[64];
    int is_record, is_stream;
} next;

void CgiLibResponseSetCharset(char *charset)
{
    snprintf(next.charset, sizeof next.charset, "%s", charset ? charset : "");
}

void CgiLibResponseSetRecordMode(int yes)
{
    next.is_record = yes;
}

void CgiLibResponseSetStreamMode(int yes)
{
    next.is_stream = yes;
}

void CgiLibResponseSetBuffer(int bytes)
{
    (void)bytes;
}

void CgiLibResponseSetSoftwareID(char *software)
{
    (void)software;
}

void CgiLibResponseSetErrorMessage(char *message)
{
    (void)message;
}

/* Adds `Name: value` lines to the head. */
static void add_lines(char *lines)
{
    for (char *line; (line = strsep(&lines, "\n"));) {
        line[strcspn(line, "\r")] = '\0';
        char *colon = strchr(line, ':');
        if (!colon) continue;
        *colon = '\0';
        sluice_header(line, colon + 1 + strspn(colon + 1, " \t"));
    }
}

void sluice_cgilib_response_header(int status, const char *type, const char *format, ...)
{
    char lines[8192], whole[256];
    va_list arguments;
    va_start(arguments, format);
    int length = format ? vsnprintf(lines, sizeof lines, format, arguments) : 0;
    va_end(arguments);
    if (status != 200) sluice_status(status);
    if (next.is_record || next.is_stream) sluice_header("Script-Control", next.is_record ? "X-record-mode" : "X-stream-mode");
    if (length > 0) add_lines(lines);
    int has_charset = next.charset[0] && strncasecmp(type, "text/", 5) == 0 && !strchr(type, ';');
    snprintf(whole, sizeof whole, has_charset ? "%s; charset=%s" : "%s", type, next.charset);
    sluice_respond(whole);
}

void CgiLibResponseRedirect(char *format, ...)
{
    char url[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(url, sizeof url, format, arguments);
    va_end(arguments);
    sluice_redirect(url, 302);
}

void CgiLibResponseError(char *file, int line, int status, char *format, ...)
{
    char text[1024], control[1400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (char *at = text; *at; at++)
        if (*at == '"' || *at == '\\') *at = '\'';
        else if ((unsigned char)*at < ' ') *at = ' ';
    const char *slash = file ? strrchr(file, '/') : NULL;
    snprintf(control, sizeof control, "X-error-text=\"%s\"; X-error-module=\"%.60s\"; X-error-line=%d", text, slash ? slash + 1 : file ? file : "", line);
    if (status) snprintf(control + strlen(control), sizeof control - strlen(control), "; X-error-vms-status=%%X%08X", (unsigned)status);
    if (sluice_header("Script-Control", control) == 0) sluice_respond("text/plain");
    else printf("\n<P><B>ERROR</B>: ");
    const char *escaped = sluice_escape_html(text);
    printf("%s\n", escaped ? escaped : "");
}

/* ---- Coding ---- */

typedef size_t coding(char *into, size_t size, const char *text, size_t bytes);

static char *coded(coding *code, char *text, int count, char *into, int size)
{
    size_t bytes = count < 0 ? strlen(text) : (size_t)count;
    if (into && size > 0) {
        code(into, (size_t)size, text, bytes);
        return into;
    }
    size_t wanted = code(NULL, 0, text, bytes) + 1;
    into = sluice_coding_allocate(wanted);
    if (into) code(into, wanted, text, bytes);
    return into;
}

char *CgiLibHtmlEscape(char *text, int count, char *into, int size)
{
    return coded(sluice_coding_html, text, count, into, size);
}

char *CgiLibUrlEncode(char *text, int count, char *into, int size)
{
    return coded(sluice_coding_encode, text, count, into, size);
}

char *CgiLibFormEncode(char *text, int count, char *into, int size)
{
    char *result = coded(sluice_coding_encode, text, count, into, size), *to = result;
    if (!result) return NULL;
    for (char *at = result; *at; to++) { /* %20 becomes + */
        int is_blank = strncmp(at, "%20", 3) == 0;
        *to = is_blank ? '+' : *at;
        at += is_blank ? 3 : 1;
    }
    *to = '\0';
    return result;
}

int CgiLibUrlDecode(char *text)
{
    size_t length = sluice_coding_decode(text, strlen(text));
    text[length] = '\0';
    return (int)length;
}
