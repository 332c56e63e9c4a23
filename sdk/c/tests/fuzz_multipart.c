/* fuzz_multipart: feeds mutated bodies to the multipart parser, in reads of random sizes, and checks what it says.

   usage: fuzz_multipart SECONDS [SEED]. Two properties: the parser reports the same parts, whatever the sizes of its reads; and the data
   of a part never contains the delimiter. ASan and UBSan, with which it is built, check the rest. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../src/multipart.h"

static uint64_t state;

/* A pseudo-random number below `limit`. */
static size_t below(size_t limit)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (size_t)(state % limit);
}

struct input {
    const char *bytes;
    size_t length, at, read_max;
};

static ssize_t read_some(void *context, void *into, size_t size)
{
    struct input *input = context;
    size_t count = input->length - input->at, most = 1 + below(input->read_max);
    if (count > size) count = size;
    if (count > most) count = most;
    memcpy(into, input->bytes + input->at, count);
    input->at += count;
    return (ssize_t)count;
}

/* A summary of everything that the parser says. */
struct summary {
    uint64_t hash;
    int parts, open;
    char data[1 << 16];
    size_t data_bytes;
};

static void mix(struct summary *summary, const void *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) summary->hash = (summary->hash ^ ((const unsigned char *)bytes)[i]) * 1099511628211u;
}

static void check(int is_so, const char *what)
{
    if (is_so) return;
    fprintf(stderr, "%s\n", what);
    abort();
}

static int begin(void *context, const struct multipart_part *part)
{
    struct summary *summary = context;
    check(!summary->open, "a part in a part");
    summary->open = 1;
    summary->parts++;
    summary->data_bytes = 0;
    const char *texts[] = {part->name, part->file_name ? part->file_name : "-", part->type};
    for (int i = 0; i < 3; i++) {
        mix(summary, texts[i], strlen(texts[i]) + 1);
        for (const char *at = texts[i]; *at; at++) check((unsigned char)*at >= ' ' || *at == '\t', "a control character in a head");
    }
    check(!part->file_name || !strpbrk(part->file_name, "/\\"), "a directory in a file name");
    return 0;
}

static int data(void *context, const void *bytes, size_t count)
{
    struct summary *summary = context;
    check(summary->open && count > 0, "data without a part");
    mix(summary, bytes, count);
    if (count > sizeof summary->data - summary->data_bytes) count = sizeof summary->data - summary->data_bytes;
    memcpy(summary->data + summary->data_bytes, bytes, count);
    summary->data_bytes += count;
    return 0;
}

static int end(void *context)
{
    struct summary *summary = context;
    check(summary->open, "an end without a part");
    check(!memmem(summary->data, summary->data_bytes, "\r\n--bound", 9), "a delimiter in data");
    mix(summary, "end", 3);
    summary->open = 0;
    return 0;
}

static int parse(const char *bytes, size_t length, size_t read_max, struct summary *summary)
{
    struct input input = {bytes, length, 0, read_max};
    struct multipart_source source = {&input, read_some};
    struct multipart_sink sink = {summary, begin, data, end};
    summary->hash = 14695981039346656037u;
    summary->parts = summary->open = 0;
    summary->data_bytes = 0;
    int status = sluice_multipart_read(&source, "bound", &sink);
    check(status == 0 || errno == EBADMSG, "an unknown error");
    check(status != 0 || !summary->open, "success within a part");
    return status;
}

static const char *const snippets[] = {
    "--bound\r\n", "\r\n--bound\r\n", "\r\n--bound--\r\n", "--bound", "\r\n--boun", "\r\n", "\n", "\r", "\r\n\r\n", "--", " ", "\t", "\"", "\\\"", "\\",
    "Content-Disposition: form-data; name=\"a\"\r\n\r\n", "Content-Disposition: form-data; name=\"f\"; filename=\"x\"\r\n", "Content-Type: a/b\r\n",
    "content-disposition:form-data;name=q;\r\n\r\n", "; name=b", "; filename=\"C:\\a\\b\"", "name", "=", ";", "form-data", "\0",
    "--bound\r\nContent-Disposition: form-data; name=\"whole\"\r\n\r\nvalue\r\n--bound--\r\n", "value", "\r\n--bound \t\r\n", "Content-Transfer-Encoding: base64\r\n",
};

static size_t generate(char *into, size_t size)
{
    size_t length = 0, wanted = 1 + below(40);
    if (below(4)) length = (size_t)snprintf(into, size, "--bound\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n");
    while (wanted--) {
        const char *snippet = snippets[below(sizeof snippets / sizeof *snippets)];
        size_t count = *snippet ? strlen(snippet) : 1;
        if (below(200) == 0) { /* longer than the window and its limits */
            count = below(100000);
            if (count > size - length - 1) break;
            memset(into + length, "\r\nx"[below(3)], count);
        } else {
            if (count > size - length - 1) break;
            memcpy(into + length, snippet, count);
        }
        length += count;
    }
    if (below(2)) length += (size_t)snprintf(into + length, size - length, "\r\n--bound--\r\n");
    if (length >= size) length = size - 1;
    for (size_t changes = below(3); changes && length; changes--) into[below(length)] = (char)below(256);
    return length;
}

int main(int argc, char **argv)
{
    static char body[1 << 20];
    static struct summary one, other;
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 1;
    state = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL);
    if (state == 0) state = 1;
    unsigned long long seed = state, runs = 0, whole = 0;
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        size_t length = generate(body, sizeof body);
        int status = parse(body, length, 1 << 20, &one);
        size_t read_max = 1 + below(100);
        int again = parse(body, length, length > 10000 ? 5000 : read_max, &other);
        if (status != again || one.parts != other.parts || (status == 0 && one.hash != other.hash)) {
            fwrite(body, 1, length, stdout);
            fprintf(stderr, "seed %llu: other results for other reads\n", seed);
            return 1;
        }
        runs++;
        whole += status == 0 && one.parts > 0;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((double)(now.tv_sec - start.tv_sec) + (double)(now.tv_nsec - start.tv_nsec) / 1e9 < seconds);
    printf("%llu bodies, %llu of them well-formed, seed %llu\n", runs, whole, seed);
    return whole ? 0 : 1;
}
