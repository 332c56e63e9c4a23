/* cgiplustest: the cost of a request. ?N sends N bytes of text in lines of 80 characters; 0, the default, only the head.

   X-usage says how often this process has been used: 1 each time as CGI, counting up as CGIplus. A response of up to 64 KiB
   leaves in one write, sentinel included. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "content.h"
#include "query.h"
#include "sluice.h"

/* Made when it is first wanted: ?0 is to cost what a process costs, and nothing else. */
static const char *body_text(void)
{
    static char text[TEXT_BYTES];
    if (!*text) make_text(text);
    return text;
}

static void respond(uint64_t bytes)
{
    printf("Content-Type: text/plain\r\nContent-Length: %" PRIu64 "\r\nX-usage: %lu\r\n\r\n", bytes, sluice_uses());
    for (uint64_t left = bytes; left > 0;) {
        size_t piece = left < TEXT_BYTES ? left : TEXT_BYTES;
        if (fwrite(body_text(), 1, piece, stdout) != piece) return; /* sluice_finish() reports it */
        left -= piece;
    }
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    while (sluice_accept()) {
        char key[KEYWORD_BYTES];
        uint64_t bytes = 0;
        query_keyword(1, key);
        if (query_number(key, 0, TEXT_MAX, &bytes) == NUMBER_BAD)
            query_refuse(1, key, "bytes", "a whole number from 0 to 1073741824");
        else
            respond(bytes);
        if (sluice_finish()) return EXIT_FAILURE;
    }
    return 0;
}
