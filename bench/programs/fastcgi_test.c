/* fastcgi_test: cgiplustest as a persistent FastCGI program, the very same reply: ?N sends N bytes of text. The peer of
   CGIplus. Serves on descriptor 0, the listening socket that its starter (spawn-fcgi, lighttpd, the harness) leaves there.

   One request after the other, as libfcgi's loop does it; as many processes as the server shall have at once. By fcgiapp.h:
   fcgi_stdio.h was measured beside it and is no faster. libfcgi writes in pieces of 8 KiB; a program may not choose more
   (FCGX_CreateWriter "shouldn't be needed by a FastCGI application", and what it makes does not end the request). */
#include <fcgiapp.h>

#include "order.h"

static char text[TEXT_BYTES];

/* What cannot be written any more needs no care: the server has gone, and the next accept tells. */
static void respond(FCGX_Stream *out, uint64_t bytes, unsigned long uses)
{
    char head[128];
    int length = snprintf(head, sizeof head, "Content-Type: text/plain\r\nContent-Length: %" PRIu64 "\r\nX-usage: %lu\r\n\r\n", bytes, uses);
    if (FCGX_PutStr(head, length, out) < 0) return;
    while (bytes > 0) {
        int piece = bytes < TEXT_BYTES ? (int)bytes : TEXT_BYTES;
        if (FCGX_PutStr(text, piece, out) < 0) return;
        bytes -= (uint64_t)piece;
    }
}

int main(void)
{
    FCGX_Request request;
    if (FCGX_IsCGI()) {
        fprintf(stderr, "fastcgi_test: descriptor 0 is no listening socket\n");
        return 2;
    }
    if (FCGX_Init() || FCGX_InitRequest(&request, 0, 0)) {
        fprintf(stderr, "fastcgi_test: libfcgi does not start\n");
        return EXIT_FAILURE;
    }
    make_text(text);
    for (unsigned long uses = 1; FCGX_Accept_r(&request) == 0; uses++) {
        uint64_t bytes;
        if (order_text(FCGX_GetParam("QUERY_STRING", request.envp), &bytes))
            FCGX_PutS("Status: 400\r\nContent-Type: text/plain\r\n\r\nNo number of bytes.\n", request.out);
        else
            respond(request.out, bytes, uses);
    }
    return 0;
}
