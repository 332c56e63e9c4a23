/* memory.c: sluice_buffer_begin(), sluice_buffer_write(), sluice_buffer_end(): the memory buffer, by the ring of libsluice.

   While a buffer is in use all output of the script goes through it, because the server accepts nothing else of the body then.
   libsluice writes to descriptor 1 when the server sleeps, so that descriptor is the mailbox while a buffer is in use. */
#include "engine.h"
#include "sluice_ring.h"

#include "php_output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MEMORY 4

static struct {
    struct sluice_ring *ring; /* NULL: no buffer is in use */
    bool is_head_sent;
    bool was_used;
    bool has_failed;          /* the client has left, and a write has returned false */
} memory;

static void detach(uint64_t *committed)
{
    sluice_ring_close(memory.ring, committed);
    memory.ring = NULL;
    dup2(STDERR_FILENO, STDOUT_FILENO);
}

/* The end of the response ends the buffer for the server. Without its output layer PHP writes a message to stdout, which is the log then. */
void memory_abandon(void)
{
    if (memory.ring) detach(NULL);
    fflush(stdout);
}

/* The ring stays mapped, and this process does not write to it. */
void memory_forget(void)
{
    memory.ring = NULL;
}

void memory_begin(void)
{
    memory.was_used = false;
}

bool memory_was_used(void)
{
    return memory.was_used;
}

bool memory_is_open(void)
{
    return memory.ring != NULL;
}

bool memory_write(const char *from, size_t count)
{
    if (!memory.is_head_sent) {
        memory.is_head_sent = true;
        sapi_send_headers();
        output_flush();
    }
    return sluice_ring_write(memory.ring, from, count) == 0;
}

PHP_FUNCTION(sluice_buffer_begin)
{
    zend_long bytes = 0;
    char line[64], answer[256], name[48], shape[8];
    unsigned long long capacity;
    ZEND_PARSE_PARAMETERS_START(0, 1)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(bytes)
    ZEND_PARSE_PARAMETERS_END();
    if (bytes < 0) {
        zend_argument_value_error(1, "must not be negative");
        RETURN_THROWS();
    }
    if (memory.ring) RETURN_FALSE;
    snprintf(line, sizeof line, "BUFFER-BEGIN: %lluk ring", (unsigned long long)bytes / 1024 + (bytes % 1024 != 0));
    if (output_ask(line, answer, sizeof answer) != 200) RETURN_FALSE;
    if (sscanf(answer, "%47s %llu %7s", name, &capacity, shape) != 3 || strcmp(shape, "ring") != 0) RETURN_FALSE;
    memory.ring = sluice_ring_attach(MEMORY, capacity);
    if (!memory.ring) {
        php_error_docref(NULL, E_WARNING, "%s", strerror(errno));
        RETURN_FALSE;
    }
    dup2(engine.mailbox, STDOUT_FILENO);
    memory.was_used = true;
    fork_note_memory();
    memory.is_head_sent = memory.has_failed = false;
    RETURN_LONG((zend_long)capacity);
}

PHP_FUNCTION(sluice_buffer_write)
{
    char *data;
    size_t length;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STRING(data, length)
    ZEND_PARSE_PARAMETERS_END();
    if (!memory.ring) { /* the route forbids it: the bytes are the body all the same */
        PHPWRITE(data, length);
        RETURN_BOOL(!(PG(connection_status) & PHP_CONNECTION_ABORTED));
    }
    php_output_flush_all(); /* what the script has echoed comes first, by the buffer, too */
    if (memory_write(data, length)) RETURN_TRUE;
    /* The client has left. A script that ignores the result ends here, unless it has called ignore_user_abort(true). */
    if (memory.has_failed) worker_client_left();
    memory.has_failed = true;
    PG(connection_status) = PHP_CONNECTION_ABORTED;
    RETURN_FALSE;
}

PHP_FUNCTION(sluice_buffer_end)
{
    uint64_t committed = 0;
    char answer[64];
    ZEND_PARSE_PARAMETERS_NONE();
    if (!memory.ring) RETURN_FALSE;
    php_output_flush_all();
    sapi_send_headers();
    output_flush();
    detach(&committed);
    if (output_ask("BUFFER-END:", answer, sizeof answer) != 200) RETURN_FALSE;
    if (strtoull(answer, NULL, 10) != committed) RETURN_FALSE;
    RETURN_LONG((zend_long)committed);
}
