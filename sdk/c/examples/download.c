/* download: sends ?mb=N megabytes (64 without it) by the memory buffer, or by the mailbox where there is no buffer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sluice.h"

#define CHUNK (64 << 10)

static long megabytes(void)
{
    const char *text = sluice_parameter("mb");
    long wanted = text ? strtol(text, NULL, 10) : 64;
    return wanted < 0 || wanted > 100000 ? -1 : wanted;
}

static void download(long wanted)
{
    static char chunk[CHUNK];
    char length[32];
    /* Before the head: the server may refuse, and the script can still choose. */
    int has_buffer = sluice_buffer_begin(4 << 20, NULL) == 0;
    snprintf(length, sizeof length, "%llu", (unsigned long long)wanted << 20);
    sluice_header("Content-Length", length);
    sluice_header("Content-Disposition", "attachment; filename=\"download.bin\"");
    sluice_header("X-Buffer", has_buffer ? "yes" : "no");
    sluice_respond("application/octet-stream");
    for (long number = 0; number < wanted << 4; number++) {
        memset(chunk, (int)(number & 0xff), sizeof chunk);
        /* An error means that the client has left. */
        if (has_buffer ? sluice_buffer_write(chunk, sizeof chunk) : sluice_write(chunk, sizeof chunk)) return;
    }
    if (has_buffer) sluice_buffer_end();
}

int main(void)
{
    while (sluice_accept()) {
        long wanted = megabytes();
        if (wanted < 0) sluice_fail(400, "mb is a number from 0 to 100000.");
        else download(wanted);
    }
}
