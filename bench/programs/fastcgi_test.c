/* fastcgi_test: cgiplustest as a persistent FastCGI program with the same reply: ?N sends N bytes of text. The peer of
   CGIplus. Descriptor 0 is the listening socket, from spawn-fcgi, lighttpd or the harness.

   It serves one request at a time, in libfcgi's loop; start as many processes as there are concurrent requests. It uses
   fcgiapp.h, because fcgi_stdio.h was measured and is no faster. libfcgi writes in chunks of 8 KiB; a program cannot choose
   a larger size (FCGX_CreateWriter "shouldn't be needed by a FastCGI application", and its stream does not end the request). */
#include <fcgiapp.h>

#include "order.h"

static char text[TEXT_BYTES];

/* Write errors are ignored: the server has closed the connection, and the next accept reports it. */
static void respond(FCGX_Stream *out, uint64_t bytes, unsigned long uses)
{
    char head[128];
    int length = snprintf(head, sizeof head, "Content-Type: text/plain\r\nContent-Length: %" PRIu64 "\r\nX-usage: %lu\r\n\r\n", bytes, uses);
    if (FCGX_PutStr(head, length, out) < 0) return;
    while (bytes > 0) {
        int chunk = bytes < TEXT_BYTES ? (int)bytes : TEXT_BYTES;
        if (FCGX_PutStr(text, chunk, out) < 0) return;
        bytes -= (uint64_t)chunk;
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
