/* records.c: CGIPLUSIN (descriptor 3): requests and the answers to callouts; the socket of requests; and the environment of a request.

   Here: both forms of a record (lines; one block after the callout "CGIPLUS: struct"), and `environ`.
   Not here: what the variables mean (sapi.c), asking for the block form (output.c).
   A record is copied out of the input buffer, because reading an answer fills that buffer again. */
#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

#define CGIPLUSIN 3
/* As in libsluice: a server that sends more is broken. */
#define RECORD_BYTES_MAX ((size_t)16 << 20)

static struct {
    size_t start, end;
    char bytes[64 * 1024];
} input;

static struct {
    char *bytes;                     /* the record */
    size_t length, capacity;
    char **environment;              /* entries of the record, then those of the start that it does not replace, then NULL */
    size_t count, from_record, environment_max;
    const char *values[V_COUNT];
} record;

static char **start_environment;     /* without CGIPLUSEOF and CGIPLUSSOCK: a script that can run as CGIplus, too, shall run as CGI */

static const struct {
    const char *name;
    size_t length;
} known[V_COUNT] = {
#define KNOWN(variable, text) [variable] = {text, sizeof text - 1}
    KNOWN(V_REQUEST_METHOD, "REQUEST_METHOD"), KNOWN(V_QUERY_STRING, "QUERY_STRING"), KNOWN(V_CONTENT_TYPE, "CONTENT_TYPE"),
    KNOWN(V_CONTENT_LENGTH, "CONTENT_LENGTH"), KNOWN(V_SCRIPT_FILENAME, "SCRIPT_FILENAME"), KNOWN(V_SCRIPT_NAME, "SCRIPT_NAME"),
    KNOWN(V_PATH_INFO, "PATH_INFO"), KNOWN(V_COOKIE, "HTTP_COOKIE"), KNOWN(V_AUTHORIZATION, "HTTP_AUTHORIZATION"),
    KNOWN(V_SERVER_PROTOCOL, "SERVER_PROTOCOL"), KNOWN(V_DOCUMENT_ROOT, "DOCUMENT_ROOT"), KNOWN(V_RECORD_MAX, "GATEWAY_MRS"),
    KNOWN(V_REGION, "GATEWAY_REGION"),
};

static void *grown(void *at, size_t bytes)
{
    at = realloc(at, bytes);
    if (!at) {
        engine_report("out of memory");
        _exit(1);
    }
    return at;
}

/* ---- The socket of requests ---- */

/* By it requests come after the first one, if the server was asked for it within that. */
static struct {
    int descriptor; /* -1: the server has passed no socket, or the socket is closed */
    bool is_read;   /* the next read is from it */
} requests = {.descriptor = -1};

static void open_socket(void)
{
    const char *text = getenv("CGIPLUSSOCK");
    struct stat about;
    int number = text ? atoi(text) : -1;
    if (number > 4 && !fstat(number, &about) && S_ISSOCK(about.st_mode) && !fcntl(number, F_SETFD, FD_CLOEXEC)) requests.descriptor = number;
}

bool records_have_socket(void)
{
    return requests.descriptor >= 0;
}

void records_close_socket(void)
{
    if (requests.descriptor >= 0) close(requests.descriptor);
    requests.descriptor = -1;
    requests.is_read = false;
}

/* ---- The start environment ---- */

/* Copies `environ`: PHP frees the texts that putenv() has put there. */
void records_keep_environment(void)
{
    size_t count = 0, kept = 0;
    while (environ && environ[count]) count++;
    char **copy = grown(NULL, (count + 1) * sizeof *copy);
    for (size_t i = 0; i < count; i++) {
        if (strncmp(environ[i], "CGIPLUSEOF=", 11) == 0 || strncmp(environ[i], "CGIPLUSSOCK=", 12) == 0) continue;
        copy[kept] = strdup(environ[i]);
        if (copy[kept]) kept++;
    }
    copy[kept] = NULL;
    start_environment = copy; /* an earlier one stays: at most one for each boot of a worker, and entries of `environ` may point there */
}

void records_open(void)
{
    open_socket();
    records_keep_environment();
    environ = start_environment;
}

/* ---- Reading ---- */

/* 1 if there are bytes in the buffer; 0 at end-of-file or after an error. */
static int fill(void)
{
    if (input.start < input.end) return 1;
    ssize_t got;
    do {
        got = read(requests.is_read ? requests.descriptor : CGIPLUSIN, input.bytes, sizeof input.bytes);
        if (got != 0 || !requests.is_read) continue;
        records_close_socket(); /* the server has not heard of it: requests come by the pipe */
        got = -1;
        errno = EINTR;
    } while (got < 0 && errno == EINTR);
    input.start = 0;
    input.end = got > 0 ? (size_t)got : 0;
    return got > 0;
}

/* Moves `count` bytes of the buffer to the end of the record. False: the record is too large. */
static bool take(size_t count)
{
    if (count > RECORD_BYTES_MAX - record.length) return false;
    if (record.length + count > record.capacity) {
        while (record.length + count > record.capacity) record.capacity = record.capacity ? record.capacity * 2 : 16384;
        record.bytes = grown(record.bytes, record.capacity);
    }
    memcpy(record.bytes + record.length, input.bytes + input.start, count);
    record.length += count;
    input.start += count;
    return true;
}

/* Appends a line to the record, with a NUL instead of its LF. 1; 0 at end-of-file before it; -1 malformed. */
static int take_line(void)
{
    for (bool first = true;; first = false) {
        if (!fill()) return first ? 0 : -1;
        char *from = input.bytes + input.start;
        char *newline = memchr(from, '\n', input.end - input.start);
        if (!take(newline ? (size_t)(newline - from) + 1 : input.end - input.start)) return -1;
        if (!newline) continue;
        record.bytes[record.length - 1] = '\0';
        return 1;
    }
}

static bool take_block(size_t count)
{
    while (count > 0) {
        if (!fill()) return false;
        size_t part = input.end - input.start < count ? input.end - input.start : count;
        if (!take(part)) return false;
        count -= part;
    }
    return true;
}

ssize_t records_line(char *into, size_t size)
{
    size_t length = 0;
    for (;;) {
        if (!fill()) return -1;
        char *from = input.bytes + input.start;
        char *newline = memchr(from, '\n', input.end - input.start);
        size_t part = newline ? (size_t)(newline - from) : input.end - input.start;
        size_t fits = size - 1 - length < part ? size - 1 - length : part;
        memcpy(into + length, from, fits);
        length += fits;
        input.start += part + (newline != NULL);
        if (!newline) continue;
        into[length] = '\0';
        return (ssize_t)length;
    }
}

/* ---- Variables ---- */

static void add(char *entry)
{
    if (record.count + 2 > record.environment_max) {
        record.environment_max = record.environment_max ? record.environment_max * 2 : 128;
        record.environment = grown(record.environment, record.environment_max * sizeof *record.environment);
    }
    record.environment[record.count++] = entry;
    record.environment[record.count] = NULL;
}

/* Adds an entry of the record. A name that begins with WWW_ (the route's variable_prefix) is known, too. */
static void add_variable(char *entry)
{
    const char *equals = strchr(entry, '=');
    if (!equals || equals == entry) return;
    const char *name = strncmp(entry, "WWW_", 4) == 0 ? entry + 4 : entry;
    size_t length = (size_t)(equals - name);
    /* A client could set it by a field Proxy, and libraries take it for the proxy to use. The server drops it as well. */
    if (length == 10 && memcmp(name, "HTTP_PROXY", 10) == 0) return;
    for (int i = 0; i < V_COUNT; i++)
        if (known[i].length == length && memcmp(known[i].name, name, length) == 0) record.values[i] = equals + 1;
    if (record.values[V_REGION] == equals + 1) return; /* for the engine: under CGI there is none */
    add(entry);
}

/* True if `entry` has the name of an entry of the record. */
static bool is_replaced(const char *entry)
{
    size_t length = strcspn(entry, "=") + 1;
    for (size_t i = 0; i < record.from_record; i++)
        if (strncmp(record.environment[i], entry, length) == 0) return true;
    return false;
}

static void complete_environment(void)
{
    record.from_record = record.count;
    for (char **entry = start_environment; *entry; entry++)
        if (!is_replaced(*entry)) add(*entry);
}

static bool read_lines(void)
{
    size_t start;
    do {
        start = record.length;
        if (take_line() <= 0) return false;
    } while (record.bytes[start] != '\0');
    for (size_t at = 0; at < start; at += strlen(record.bytes + at) + 1) add_variable(record.bytes + at);
    return true;
}

/* {16-bit little-endian length with the NUL, NAME=value, NUL} …, 0 */
static bool read_struct(size_t count)
{
    if (count < 2 || count > RECORD_BYTES_MAX || !take_block(count)) return false;
    unsigned char *at = (unsigned char *)record.bytes, *end = at + count;
    while (end - at >= 2) {
        size_t length = at[0] | (size_t)at[1] << 8;
        at += 2;
        if (length == 0) return at == end;
        if ((size_t)(end - at) < length || at[length - 1] != '\0') return false;
        add_variable((char *)at);
        at += length;
    }
    return false;
}

/* The next read waits for a request. */
static void await_request(void)
{
    if (engine.uses == 0 || requests.descriptor < 0 || requests.is_read) return;
    requests.is_read = true;
    input.start = input.end; /* answers that no script has read */
}

void records_wait(void)
{
    if (engine.must_end) return;
    await_request();
    fill();
}

static int next_record(void)
{
    for (;;) {
        record.length = record.count = 0;
        memset(record.values, 0, sizeof record.values);
        int status = take_line();
        if (status == 0) return 0;
        bool is_whole;
        char *after = NULL;
        if (status > 0 && strcmp(record.bytes, "!") == 0) {
            record.length = 0;
            is_whole = read_lines();
        } else if (status > 0 && strncmp(record.bytes, "!!", 2) == 0 && record.bytes[2] >= '0' && record.bytes[2] <= '9') {
            size_t bytes = strtoull(record.bytes + 2, &after, 10);
            record.length = 0;
            is_whole = *after == '\0' && read_struct(bytes);
        } else if (status > 0) {
            continue; /* an answer that the script has not read */
        } else {
            is_whole = false;
        }
        if (!is_whole) {
            engine_report("a record on CGIPLUSIN is malformed");
            return -1;
        }
        complete_environment();
        return 1;
    }
}

int records_next(void)
{
    if (engine.must_end || !engine_is_own_process()) return 0;
    await_request();
    int status = next_record();
    requests.is_read = false;
    return status;
}

const char *records_value(enum variable which)
{
    return record.values[which];
}

const char *records_variable(const char *name)
{
    size_t length = strlen(name);
    for (size_t i = 0; i < record.count; i++) {
        const char *entry = record.environment[i];
        if (strncasecmp(entry, name, length) == 0 && entry[length] == '=') return entry + length + 1;
    }
    return NULL;
}

void records_enter_environment(void)
{
    environ = record.environment;
}

void records_leave_environment(void)
{
    environ = start_environment;
}
