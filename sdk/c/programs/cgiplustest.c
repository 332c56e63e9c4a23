/* cgiplustest: measures the cost of a request. ?N sends N bytes of text in lines of 80 characters; 0, the default, only the head.
   (The query of WASD's program of that name counts lines: its ?200 is ?16000 here.)

   X-usage is the number of requests of this process: always 1 as CGI, counting up as CGIplus. A response of up to 64 KiB is sent in
   one write, sentinel included. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "content.h"
#include "query.h"
#include "sluice.h"

/* Generated at the first use, so that ?0 measures the process alone. */
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
        size_t chunk = left < TEXT_BYTES ? left : TEXT_BYTES;
        if (fwrite(body_text(), 1, chunk, stdout) != chunk) return; /* sluice_finish() reports it */
        left -= chunk;
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
