/* content.h: the content that cgiplustest and membufdemo send, and the limits on its size. Depends on libc only and does no input or
   output, because the programs of the benchmark (bench/programs) use it to send the same bytes. */
#ifndef CONTENT_H
#define CONTENT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ---- cgiplustest: lines of text ---- */

#define TEXT_MAX ((uint64_t)1 << 30)
#define LINE 80
/* The text repeats after this many lines: each line starts one printable character later than the line before. */
#define PRINTABLE ('~' - '!' + 1)
#define TEXT_BYTES (PRINTABLE * LINE * 9)

static inline void make_text(char text[TEXT_BYTES])
{
    char run[PRINTABLE + LINE];
    for (int at = 0; at < (int)sizeof run; at++) run[at] = (char)('!' + at % PRINTABLE);
    for (int line = 0; line < TEXT_BYTES / LINE; line++) {
        char *to = text + (size_t)line * LINE;
        memcpy(to, run + line % PRINTABLE, LINE - 1);
        to[LINE - 1] = '\n';
    }
}

/* ---- membufdemo: block n is the byte n & 0xff, record size times ---- */

#define MEGABYTES_DEFAULT 100
#define MEGABYTES_MAX ((uint64_t)1 << 24) /* 16 TiB: a larger number is a typing error */
#define RECORD_DEFAULT 8192
#define RECORD_MAX ((uint64_t)64 << 20) /* of the mailbox, if WWW_GATEWAY_MRS is missing */

/* The current position in the pattern; initialise with {.record = n, .left_in_block = n}. */
struct pattern {
    uint64_t record, left_in_block;
    unsigned value;
};

static inline void fill(struct pattern *pattern, char *to, size_t bytes)
{
    while (bytes > 0) {
        size_t run = bytes < pattern->left_in_block ? bytes : pattern->left_in_block;
        memset(to, (int)(pattern->value & 0xff), run);
        to += run;
        bytes -= run;
        pattern->left_in_block -= run;
        if (pattern->left_in_block == 0) {
            pattern->value++;
            pattern->left_in_block = pattern->record;
        }
    }
}

#endif
