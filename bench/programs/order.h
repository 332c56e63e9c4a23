/* order.h: parses the query of cgiplustest and membufdemo as these programs parse QUERY_STRING. It rejects what they reject
   (-1), but without their error messages. Content and limits: sdk/c/programs/content.h. */
#ifndef ORDER_H
#define ORDER_H

#include "content.h"
#include "query.h"

/* Keyword `n`, from 1, of ?one+two+three; "" if it is missing, or if the query is a form (a=b). */
static inline void order_keyword(const char *query, unsigned n, char text[KEYWORD_BYTES])
{
    *text = '\0';
    if (!query || strchr(query, '=')) return;
    while (--n > 0 && query) query = (query = strchr(query, '+')) ? query + 1 : NULL;
    if (query) snprintf(text, KEYWORD_BYTES, "%.*s", (int)strcspn(query, "+"), query);
}

/* cgiplustest ?N: N bytes of text, 0 by default. */
static inline int order_text(const char *query, uint64_t *bytes)
{
    char text[KEYWORD_BYTES];
    *bytes = 0;
    order_keyword(query, 1, text);
    return query_number(text, 0, TEXT_MAX, bytes) == NUMBER_BAD ? -1 : 0;
}

/* membufdemo ?M+any+R: M MiB in blocks of R bytes. The caller interprets the second keyword. */
static inline int order_pattern(const char *query, uint64_t *bytes, struct pattern *pattern)
{
    char text[KEYWORD_BYTES];
    uint64_t megabytes = 0, record = 0;
    order_keyword(query, 1, text);
    if (query_number(text, 0, MEGABYTES_MAX, &megabytes) == NUMBER_BAD) return -1;
    order_keyword(query, 3, text);
    if (query_number(text, 1, RECORD_MAX, &record) == NUMBER_BAD) return -1;
    if (!record) record = RECORD_DEFAULT;
    *bytes = (megabytes ? megabytes : MEGABYTES_DEFAULT) << 20;
    *pattern = (struct pattern){.record = record, .left_in_block = record};
    return 0;
}

#endif
