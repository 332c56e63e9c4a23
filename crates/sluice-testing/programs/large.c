/* A large reply by stdio: <bytes>+<letters>. Letters: l Content-Length; f flush after the head; m flush within the head; h flush half-way in the
   body; o stdout has a buffer of the script, O one as large as the library's; n status line of its own (NPH); e an empty line begins the body;
   k chunks of its own; w sluice_write() for each 9999 bytes, b once for all of the body; c a callout, x write(2) half-way between these, z other
   bytes in the first half; u a child of the script writes the body. "blocks" instead: the blocks of memory behind descriptor 4, as the previous
   replies have left them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sluice.h"

static const char *letters;

static int has(char letter)
{
    return strchr(letters, letter) != NULL;
}

static void head(size_t bytes)
{
    if (has('n')) printf("HTTP/1.1 200 OK\r\n");
    printf("Content-Type: application/octet-stream");
    if (has('m')) fflush(stdout);
    if (has('l')) printf("\nContent-Length: %zu", bytes);
    printf(has('k') ? "\nTransfer-Encoding: chunked\n\n%zx\n" : "\n\n", bytes);
    if (has('f')) fflush(stdout);
}

/* The same bytes by the functions of the library. */
static void written_body(size_t bytes)
{
    size_t at_once = has('w') ? 9999 : bytes;
    char *text = malloc(bytes + 4);
    for (size_t at = 0; at < bytes; at += 4) {
        unsigned number = (unsigned)(at / 4);
        if (has('z') && at < bytes / 2) number = ~number;
        memcpy(text + at, &number, 4);
    }
    for (size_t at = 0; at < bytes; at += at_once) {
        size_t part = bytes - at < at_once ? bytes - at : at_once;
        int is_middle = at <= bytes / 2 && bytes / 2 < at + part;
        if (is_middle && has('x')) {
            sluice_flush();
            if (write(1, text + at, part) != (ssize_t)part) _exit(1);
        } else {
            sluice_write(text + at, part);
        }
        if (is_middle && has('c')) sluice_callout(NULL, 0, "NOOP:");
    }
    free(text);
}

static void body(size_t bytes)
{
    if (has('u')) {
        fflush(stdout);
        pid_t child = fork();
        if (child) {
            waitpid(child, NULL, 0);
            return;
        }
    }
    if (has('w') || has('b')) {
        written_body(bytes);
        if (has('u')) {
            fflush(stdout);
            _exit(0);
        }
        return;
    }
    for (size_t at = 0; at < bytes; at += 4) {
        unsigned number = (unsigned)(at / 4);
        if (has('e') && at == 0) number = 0x0a0a0a0a;
        fwrite(&number, 1, bytes - at < 4 ? bytes - at : 4, stdout);
        if (has('h') && at == bytes / 8 * 4) fflush(stdout);
    }
    if (has('k')) printf(bytes ? "\n0\n\n" : "\n");
}

int main(void)
{
    static char own[524288];
    while (sluice_accept()) {
        const char *query = sluice_variable("QUERY_STRING");
        char *after;
        size_t bytes = strtoul(query, &after, 10);
        letters = after;
        if (strcmp(query, "blocks") == 0) {
            struct stat memory;
            fstat(4, &memory);
            printf("Content-Type: text/plain\n\n%s", memory.st_blocks > 0 ? "some" : "none");
        } else {
            if (has('o') || has('O')) setvbuf(stdout, own, _IOFBF, has('o') ? 200000 : sizeof own);
            head(bytes);
            body(bytes);
        }
        if (sluice_finish()) return 1;
    }
    return 0;
}
