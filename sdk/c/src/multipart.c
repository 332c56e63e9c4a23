/* multipart.c: a streaming parser of multipart/form-data (RFC 7578, RFC 2046 §5.1).

   Here: the parts of a body, in a window of fixed size; part data is handed on as it arrives. Not here: what becomes of the parts (form.c).
   Strict: a body without its closing delimiter, a line end without CR, a part without name, a repeated field or parameter, a control
   character in a name, or a transfer encoding that changes the data is malformed (EBADMSG). A lenient parser would disagree with some
   other one about where a part ends or what it is called. */
#include "multipart.h"
#include "internal.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#define WINDOW_BYTES (64 * 1024)
/* Bytes of the fields at the head of a part. Browsers send some hundred. */
#define PART_HEAD_BYTES_MAX (8 * 1024)

struct parser {
    const struct multipart_source *source;
    const struct multipart_sink *sink;
    char delimiter[4 + MULTIPART_BOUNDARY_MAX + 1]; /* CR LF - - boundary */
    size_t delimiter_bytes;
    char *window;
    size_t start, end;
    int is_at_end; /* the source has no more */
};

static int malformed(void)
{
    errno = EBADMSG;
    return -1;
}

/* ---- The window ---- */

static size_t held(const struct parser *parser)
{
    return parser->end - parser->start;
}

/* Reads more bytes into the window; the caller has consumed enough of it. 0, or -1: errno. */
static int fill(struct parser *parser)
{
    if (parser->is_at_end) return 0;
    memmove(parser->window, parser->window + parser->start, held(parser));
    parser->end -= parser->start;
    parser->start = 0;
    ssize_t got = parser->source->read(parser->source->context, parser->window + parser->end, WINDOW_BYTES - parser->end);
    if (got < 0) return -1;
    parser->is_at_end = got == 0;
    parser->end += (size_t)got;
    return 0;
}

/* Makes `wanted` bytes available. 0; -1: errno, EBADMSG if the body ends before. */
static int require(struct parser *parser, size_t wanted)
{
    while (held(parser) < wanted) {
        if (parser->is_at_end) return malformed();
        if (fill(parser)) return -1;
    }
    return 0;
}

/* Hands on everything before the next delimiter, and consumes the delimiter. `use` is NULL for the preamble. */
static int take_until_delimiter(struct parser *parser, int (*use)(void *, const void *, size_t))
{
    for (;;) {
        char *from = parser->window + parser->start;
        char *found = memmem(from, held(parser), parser->delimiter, parser->delimiter_bytes);
        size_t whole = found ? (size_t)(found - from) : held(parser) < parser->delimiter_bytes ? 0 : held(parser) - parser->delimiter_bytes + 1;
        if (whole && use && use(parser->sink->context, from, whole)) return -1;
        parser->start += whole;
        if (found) {
            parser->start += parser->delimiter_bytes;
            return 0;
        }
        if (parser->is_at_end) return malformed();
        if (fill(parser)) return -1;
    }
}

/* After a delimiter: 1 a part follows, 0 it was the last delimiter, -1: errno. */
static int read_delimiter_end(struct parser *parser)
{
    if (require(parser, 2)) return -1;
    if (memcmp(parser->window + parser->start, "--", 2) == 0) return 0;
    /* RFC 2046: blanks may be added in transport. */
    for (size_t blanks = 0; parser->window[parser->start] == ' ' || parser->window[parser->start] == '\t'; blanks++) {
        if (blanks > 64) return malformed();
        parser->start++;
        if (require(parser, 2)) return -1;
    }
    if (memcmp(parser->window + parser->start, "\r\n", 2) != 0) return malformed();
    parser->start += 2;
    return 1;
}

/* ---- The head of a part ---- */

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " \t");
}

static int is_token_byte(char byte)
{
    return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte && strchr("!#$%&'*+-.^_`|~", byte));
}

/* Copies a quoted or bare value to `into` (as large as the text). `\"` and `\\` are escapes; other backslashes are literal, because old
   browsers send paths of Windows. NULL: malformed. Returns the position after the value. */
static const char *take_value(const char *at, char *into)
{
    if (*at != '"') {
        if (!is_token_byte(*at)) return NULL;
        while (is_token_byte(*at)) *into++ = *at++;
        *into = '\0';
        return at;
    }
    for (at++; *at != '"'; *into++ = *at++) {
        if (!*at) return NULL;
        if (*at == '\\' && (at[1] == '"' || at[1] == '\\')) at++;
    }
    *into = '\0';
    return at + 1;
}

int sluice_multipart_parameter(const char *value, const char *wanted, char *into)
{
    char scratch[PART_HEAD_BYTES_MAX];
    int found = 0;
    if (strlen(value) >= sizeof scratch) return malformed();
    for (const char *at = value + strcspn(value, ";"); *(at = skip_blanks(at));) {
        if (*at++ != ';') return malformed();
        const char *name = at = skip_blanks(at);
        while (is_token_byte(*at)) at++;
        size_t length = (size_t)(at - name);
        if (length == 0 && !*at) return found; /* a semicolon at the end */
        if (length == 0 || *(at = skip_blanks(at)) != '=') return malformed();
        int is_wanted = length == strlen(wanted) && strncasecmp(name, wanted, length) == 0;
        if (is_wanted && found) return malformed();
        at = take_value(skip_blanks(at + 1), is_wanted ? into : scratch);
        if (!at) return malformed();
        found |= is_wanted;
    }
    return found;
}

/* The last component: browsers send a name, and some old ones a path. */
static const char *without_directories(const char *path)
{
    for (const char *at = path; *at; at++)
        if (*at == '/' || *at == '\\') path = at + 1;
    return strcmp(path, ".") == 0 || strcmp(path, "..") == 0 ? "" : path;
}

/* Browsers write %22 for a quote in a name (HTML, "multipart form data"). In place. */
static void unquote(char *name)
{
    char *to = name;
    for (; *name; to++) {
        int is_quote = strncmp(name, "%22", 3) == 0;
        *to = is_quote ? '"' : *name;
        name += is_quote ? 3 : 1;
    }
    *to = '\0';
}

struct head {
    char bytes[PART_HEAD_BYTES_MAX];
    char name[PART_HEAD_BYTES_MAX], file_name[PART_HEAD_BYTES_MAX];
    const char *disposition, *type, *encoding;
};

/* Sorts the fields of a head, NUL-terminated lines, into `head`. */
static int sort_field(struct head *head, char *line)
{
    char *colon = strchr(line, ':');
    if (!colon || colon == line) return malformed();
    for (char *at = line; at < colon; at++)
        if (!is_token_byte(*at)) return malformed();
    *colon = '\0';
    char *value = colon + 1 + strspn(colon + 1, " \t");
    size_t length = strlen(value);
    while (length && strchr(" \t", value[length - 1])) value[--length] = '\0';
    if (!sluice_response_is_line(value)) return malformed();
    const char **to = strcasecmp(line, "Content-Disposition") == 0        ? &head->disposition
                      : strcasecmp(line, "Content-Type") == 0              ? &head->type
                      : strcasecmp(line, "Content-Transfer-Encoding") == 0 ? &head->encoding
                                                                           : NULL;
    if (to && *to) return malformed();
    if (to) *to = value;
    return 0;
}

static int is_identity(const char *encoding)
{
    return !encoding || strcasecmp(encoding, "binary") == 0 || strcasecmp(encoding, "8bit") == 0 || strcasecmp(encoding, "7bit") == 0;
}

static int begin_part(struct parser *parser, struct head *head)
{
    if (!head->disposition || strncasecmp(head->disposition, "form-data", 9) != 0 || *skip_blanks(head->disposition + 9) != ';') return malformed();
    if (sluice_multipart_parameter(head->disposition, "name", head->name) != 1 || !is_identity(head->encoding)) return malformed();
    int is_file = sluice_multipart_parameter(head->disposition, "filename", head->file_name);
    if (is_file < 0) return -1;
    unquote(head->name);
    if (is_file) unquote(head->file_name);
    struct multipart_part part = {
        .name = head->name,
        .file_name = is_file ? without_directories(head->file_name) : NULL,
        .type = head->type ? head->type : "text/plain",
    };
    return parser->sink->begin(parser->sink->context, &part);
}

/* Reads the lines of a head, up to its empty line, and begins the part. */
static int read_head(struct parser *parser)
{
    static struct head head; /* not on the stack: some programs have small ones */
    head.disposition = head.type = head.encoding = NULL;
    for (size_t used = 0;;) {
        char *from, *newline;
        while (!(newline = memchr(from = parser->window + parser->start, '\n', held(parser)))) {
            if (held(parser) > PART_HEAD_BYTES_MAX || parser->is_at_end) return malformed();
            if (fill(parser)) return -1;
        }
        size_t length = (size_t)(newline - from);
        if (length == 0 || newline[-1] != '\r' || length > sizeof head.bytes - used || memchr(from, '\0', length)) return malformed();
        parser->start += length + 1;
        if (length == 1) return begin_part(parser, &head);
        char *line = memcpy(head.bytes + used, from, length);
        line[length - 1] = '\0';
        used += length;
        if (sort_field(&head, line)) return -1;
    }
}

/* ---- The body ---- */

/* RFC 2046 allows a part that ends with its head: the CR LF of the empty line is then that of the delimiter. Consumes the delimiter.
   1; 0 if the part has data (or an empty line of its own); -1: errno. */
static int is_without_data(struct parser *parser)
{
    size_t wanted = parser->delimiter_bytes - 2;
    if (require(parser, wanted)) return -1;
    if (memcmp(parser->window + parser->start, parser->delimiter + 2, wanted) != 0) return 0;
    parser->start += wanted;
    return 1;
}

int sluice_multipart_read(const struct multipart_source *source, const char *boundary, const struct multipart_sink *sink)
{
    static char window[WINDOW_BYTES];
    struct parser parser = {.source = source, .sink = sink, .window = window, .end = 2};
    size_t boundary_bytes = strlen(boundary);
    if (boundary_bytes == 0 || boundary_bytes > MULTIPART_BOUNDARY_MAX) return malformed();
    parser.delimiter_bytes = 4 + boundary_bytes;
    memcpy(parser.delimiter, "\r\n--", 4);
    memcpy(parser.delimiter + 4, boundary, boundary_bytes + 1);
    memcpy(window, "\r\n", 2); /* the first delimiter may begin the body, without a CR LF */
    if (take_until_delimiter(&parser, NULL)) return -1;
    for (;;) {
        int more = read_delimiter_end(&parser);
        if (more <= 0) return more;
        if (read_head(&parser)) return -1;
        int is_done = is_without_data(&parser);
        if (is_done < 0 || (!is_done && take_until_delimiter(&parser, sink->data)) || sink->end(sink->context)) return -1;
    }
}
