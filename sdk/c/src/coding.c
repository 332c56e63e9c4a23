/* coding.c: URL encoding and decoding, and HTML escaping.

   The functions sluice_coding_… write into a given buffer, as snprintf does. The results of those for scripts live until the next request:
   they are in a list of allocations, which its start frees. */
#include "internal.h"
#include "sluice.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* An allocation that lives until the next request. */
struct scratch {
    struct scratch *next;
    char bytes[];
};

static struct scratch *first;

void sluice_coding_start(void)
{
    while (first) {
        struct scratch *next = first->next;
        free(first);
        first = next;
    }
}

char *sluice_coding_allocate(size_t bytes)
{
    struct scratch *scratch = malloc(sizeof *scratch + bytes);
    if (!scratch) return NULL;
    scratch->next = first;
    first = scratch;
    return scratch->bytes;
}

/* Output into a buffer with an end; `length` counts all bytes, also those that do not fit. */
struct output {
    char *into;
    size_t size, length;
};

static void put(struct output *output, const char *text, size_t count)
{
    /* A sequence is written whole or not at all, and nothing after one that did not fit. */
    if (output->length < output->size && count < output->size - output->length) memcpy(output->into + output->length, text, count);
    else if (output->length < output->size) {
        output->into[output->length] = '\0';
        output->size = output->length;
    }
    output->length += count;
}

static size_t end(struct output *output)
{
    if (output->length < output->size) output->into[output->length] = '\0';
    return output->length;
}

size_t sluice_coding_html(char *into, size_t size, const char *text, size_t bytes)
{
    struct output output = {into, size, 0};
    for (size_t i = 0; i < bytes; i++) {
        switch (text[i]) {
        case '&': put(&output, "&amp;", 5); break;
        case '<': put(&output, "&lt;", 4); break;
        case '>': put(&output, "&gt;", 4); break;
        case '"': put(&output, "&quot;", 6); break;
        case '\'': put(&output, "&#39;", 5); break;
        default: put(&output, text + i, 1);
        }
    }
    return end(&output);
}

/* RFC 3986 §2.3: the characters that never need encoding. */
static int is_unreserved(unsigned char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') || byte == '-' || byte == '.' || byte == '_' ||
           byte == '~';
}

size_t sluice_coding_encode(char *into, size_t size, const char *text, size_t bytes)
{
    static const char digits[] = "0123456789ABCDEF";
    struct output output = {into, size, 0};
    for (size_t i = 0; i < bytes; i++) {
        unsigned char byte = (unsigned char)text[i];
        char encoded[3] = {'%', digits[byte >> 4], digits[byte & 15]};
        if (is_unreserved(byte)) put(&output, text + i, 1);
        else put(&output, encoded, sizeof encoded);
    }
    return end(&output);
}

static int digit(char letter)
{
    if (letter >= '0' && letter <= '9') return letter - '0';
    if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
    if (letter >= 'A' && letter <= 'F') return letter - 'A' + 10;
    return -1;
}

size_t sluice_coding_decode(char *text, size_t bytes)
{
    size_t to = 0;
    for (size_t i = 0; i < bytes; i++) {
        int high, low;
        if (text[i] == '%' && bytes - i > 2 && (high = digit(text[i + 1])) >= 0 && (low = digit(text[i + 2])) >= 0) {
            text[to++] = (char)(high << 4 | low);
            i += 2;
        } else {
            text[to++] = text[i] == '+' ? ' ' : text[i];
        }
    }
    return to;
}

/* ---- For scripts ---- */

typedef size_t coding(char *into, size_t size, const char *text, size_t bytes);

static char *coded(coding *code, const char *text)
{
    size_t bytes = strlen(text), wanted = code(NULL, 0, text, bytes) + 1;
    char *into = sluice_coding_allocate(wanted);
    if (into) code(into, wanted, text, bytes);
    return into;
}

char *sluice_escape_html(const char *text)
{
    return coded(sluice_coding_html, text);
}

char *sluice_url_encode(const char *text)
{
    return coded(sluice_coding_encode, text);
}

char *sluice_url_decode(const char *text, size_t *length)
{
    size_t bytes = strlen(text);
    char *into = sluice_coding_allocate(bytes + 1);
    if (!into) return NULL;
    memcpy(into, text, bytes);
    bytes = sluice_coding_decode(into, bytes);
    into[bytes] = '\0';
    if (length) *length = bytes;
    return into;
}
