/* query.h: parsing the keywords of a query, ?one+two+three, and numbers in them. For the programs in this directory. */
#ifndef QUERY_H
#define QUERY_H

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sluice.h"

/* Bytes in the longest keyword, NUL included; a longer one is truncated, and no number is that long. */
#define KEYWORD_BYTES 32

/* Copies keyword `n`, from 1, to `text`; "" if it is missing. Sluice and WASD set WWW_KEY_n, other servers only QUERY_STRING. */
static inline void query_keyword(unsigned n, char text[KEYWORD_BYTES])
{
    char name[24];
    snprintf(name, sizeof name, "WWW_KEY_%u", n);
    const char *from = sluice_variable(name);
    *text = '\0';
    if (!from) {
        from = sluice_variable("QUERY_STRING");
        if (!from || strchr(from, '=')) return;
        while (--n > 0 && from) from = (from = strchr(from, '+')) ? from + 1 : NULL;
        if (!from) return;
    }
    snprintf(text, KEYWORD_BYTES, "%.*s", (int)strcspn(from, "+"), from);
}

enum number { NUMBER_MISSING, NUMBER_GOOD, NUMBER_BAD };

/* Parses a number from 0 to `most`, with k, M or G after it if `units`. NUMBER_MISSING: not a number; NUMBER_BAD: negative, too
   large, or followed by other text. */
static inline enum number query_number(const char *text, int units, uint64_t most, uint64_t *value)
{
    if (*text == '-' && isdigit((unsigned char)text[1])) return NUMBER_BAD;
    if (!isdigit((unsigned char)*text)) return NUMBER_MISSING;
    char *after;
    errno = 0;
    uint64_t number = strtoull(text, &after, 10), unit = 1;
    if (errno) return NUMBER_BAD;
    if (units && *after) {
        const char *letter = strchr("kmg", tolower((unsigned char)*after));
        if (!letter) return NUMBER_BAD;
        unit = (uint64_t)1 << (10 * (letter - "kmg" + 1));
        after++;
    }
    if (*after || number > most / unit) return NUMBER_BAD;
    *value = number * unit;
    return NUMBER_GOOD;
}

/* Answers 400 for an invalid keyword, with its name and the valid values. */
static inline void query_refuse(unsigned n, const char *text, const char *what, const char *may_be)
{
    printf("Status: 400\r\nContent-Type: text/plain\r\n\r\nKey %u (%s) may not be \"", n, what);
    for (; *text; text++) putchar(isprint((unsigned char)*text) ? *text : '?');
    printf("\": %s.\n", may_be);
}

#endif
