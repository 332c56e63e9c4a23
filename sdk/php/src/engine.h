/* engine.h: the functions that the files of the PHP engine share. Nothing here is installed.

   main.c      options, start of PHP, the loop of requests
   records.c   CGIPLUSIN: the records of requests, the environment made of them, answers to callouts
   body.c      the request body
   region.c    the output region of a request: memory shared with the server, for the body of a large reply
   output.c    the mailbox: the buffered reply, the end sentinel, callouts and their answers, !FAILED
   sapi.c      the callbacks that PHP calls (sapi_module_struct) and the functions of php-fpm (getallheaders() …)
   request.c   one request: a script is run, its failure is reported
   isolate.c   what PHP itself does not put back after a request
   children.c  child processes of a script
   ini.c       --php-value=, --php-admin-value=, .user.ini
   worker.c    worker mode: sluice_handle_request()
   fork.c      --fresh=fork: a child process for each request
   uploads.c   the directory for the uploaded files of a request
   stdin.c     php://stdin, php://fd/3, php://fd/4
   fields.c    the fields of the query and of the form in their order, for sluice_parameter()
   functions.c the functions sluice_… of the library
   memory.c    the memory buffer

   main.c calls the others; records.c to output.c call only each other, a file those above it. sapi.c, functions.c and memory.c are called by
   PHP, which request.c and worker.c call. */
#ifndef SLUICE_PHP_ENGINE_H
#define SLUICE_PHP_ENGINE_H

#include "php.h"
#include "SAPI.h"
#include "php_main.h"
#include "php_variables.h"
#include "sluice_region.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdnoreturn.h>

/* ---- main.c ---- */

struct engine {
    const char *app;        /* --app=: the script of worker mode; NULL: each request names its script */
    bool forks;             /* --fresh=fork */
    int mailbox;            /* the descriptor of the reply: a copy of 1, which points to standard error, because children write there */
    int body;               /* the descriptor of the request body: a copy of 0, which points to /dev/null */
    unsigned long uses;     /* requests that this process has accepted */
    pid_t process;          /* the engine, or the child of it that does this request (fork.c) */
    bool is_forking;        /* fork.c makes that child */
    bool is_starting;       /* worker mode: PHP reads the form of a request, before the handler runs */
    bool must_end;          /* no further request: the process ends after the reply */
};
extern struct engine engine;

/* Writes "sluice-php: <text>" and a newline to standard error. */
void engine_report(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- records.c ---- */

/* Variables that the engine itself needs. */
enum variable {
    V_REQUEST_METHOD, V_QUERY_STRING, V_CONTENT_TYPE, V_CONTENT_LENGTH, V_SCRIPT_FILENAME, V_SCRIPT_NAME, V_PATH_INFO, V_COOKIE,
    V_AUTHORIZATION, V_SERVER_PROTOCOL, V_DOCUMENT_ROOT, V_RECORD_MAX, V_REGION, V_COUNT
};

/* Saves the start environment. */
void records_open(void);

/* The server can send requests by a socket after the first one, if it is asked within that. */
bool records_have_socket(void);

/* For a process that gets no request. */
void records_close_socket(void);

/* Waits for the next request and reads its variables. 1; 0 at end-of-file; -1 after a message: the server does not follow the protocol. */
int records_next(void);

/* Waits until there is a request or end-of-file. */
void records_wait(void);

const char *records_value(enum variable which);

/* Any variable of the request or of the start environment; NULL. */
const char *records_variable(const char *name);

/* `environ` becomes that of the request, or that of the start. */
void records_enter_environment(void);
void records_leave_environment(void);

/* The environment as it is now is the one of the start from now on (worker mode: what the script has set while it booted). */
void records_keep_environment(void);

/* Reads one line (an answer to a callout) without its LF. The length, or -1. */
ssize_t records_line(char *into, size_t size);

/* ---- body.c ---- */

void body_begin(void);             /* for a request: CONTENT_LENGTH bytes */
size_t body_read(char *into, size_t size); /* fills `into` unless the body ends before */
void body_discard(void);           /* nothing more is read: the server discards the rest */
bool body_is_cut(void);            /* a read has found that the client has left within the body */
bool body_ends_with(const char *text, size_t length); /* it is within the last bytes that have been read */

/* ---- output.c ---- */

void output_open(void);            /* reads the sentinels from the environment; once */
void output_begin(void);           /* a request has been read: a reply may begin */
bool output_write(const char *from, size_t count); /* false: the server is gone */
bool output_flush(void);
void output_end(void);             /* sends what is left and the end sentinel */
void output_fail(const char *text);/* instead of output_end: the reply has failed */
void output_close_in_child(bool has_failed); /* fork mode: sends what is left; the parent writes the sentinel */
void output_forget(void);          /* fork mode: the child has what is in the buffer */
void output_forget_in_child(void); /* a child process of a script: what it has of the reply, and all that it writes, is dropped */
void output_note_head(void);       /* the head is complete: what follows is the body */
bool output_has_ended(void);       /* the end sentinel has been written */
void output_note_body(size_t count);
bool output_has_body(void);        /* the script has written a byte of the body */
size_t output_body_bytes(void);    /* bytes of the body that it has written */
bool output_is_sent(void);         /* a part of the reply has been written to the mailbox */
/* Bytes of the line of a callout, and of its answer, without LF. */
#define CALLOUT_BYTES_MAX 8191
bool output_callout(const char *line, size_t length);
/* Makes a callout that is answered unless it begins with ! or #: the code, with the text in `answer`; 0 without an answer; -1: errno. */
int output_ask(const char *line, char *answer, size_t size);

/* ---- region.c ---- */

void region_begin(void);           /* a request has been read: its region is free */
struct sluice_region *region_get(void); /* opened for this request if that was not tried yet */
size_t region_used(void);          /* bytes of the part that has not been announced to the server */
void region_close(void);           /* what was not announced is thrown away: the mailbox serves until the next request */

/* ---- sapi.c ---- */

extern sapi_module_struct sluice_sapi;
extern zend_module_entry sluice_module;
const char *sapi_script(void);
void sapi_fill_request(const char *script);    /* SG(request_info) from the record */
void sapi_add_path_info(void);                 /* to request_uri, once the script is open */
void sapi_forget_request(void);
bool sapi_finish_reply(void);                  /* ends the reply; the script goes on. false: it has ended already */

/* ---- request.c ---- */

void request_open(void);           /* once after the start of PHP: hooks for errors */
void request_run(void);            /* the record has been read: runs its script, up to the end sentinel */
bool request_open_script(zend_file_handle *file, const char *script);
void request_clear_failure(void);
const char *request_failure(void); /* the text for !FAILED, or NULL if the reply is to be sent */
const char *request_error(void);   /* the text of the fatal error, or NULL */
void request_note_end(void);       /* notes what PHP forgets when it ends the request */
void request_note_page(void);      /* all code of the script has run: notes whether it has answered after a fatal error */
void request_finish(void);         /* output_end or output_fail, by request_failure() */
bool request_enter_directory(const char *script);

/* ---- isolate.c ---- */

void isolate_open(void);
void isolate_after_request(void);
void isolate_reseed(void);         /* the next random number begins with a new seed */

/* ---- children.c ---- */

void children_open(void);
bool engine_is_own_process(void);  /* false in a process that a script has forked: it writes nothing of a reply and takes no request */
noreturn void children_leave(void);/* the end of the script in such a process */
void children_keep(void);          /* worker mode: the children of now are not ended with a request */
void children_end(bool have_mailbox);

/* ---- ini.c ---- */

bool ini_add(const char *assignment, bool is_admin); /* false: malformed */
char *ini_entries(void);
void ini_lock_admin_values(void);
void ini_report_unknown(void);
void ini_activate_user_files(void);

/* ---- worker.c ---- */

int worker_run(void);              /* runs the app until end-of-file; the exit status */
bool worker_is_between_requests(void);
void worker_client_left(void);     /* ends the script, in worker mode the handler, unless it has called ignore_user_abort(true) */
PHP_FUNCTION(sluice_handle_request);

/* ---- fork.c ---- */

/* Runs the request in a child process: returns true there. In the parent: waits for it, ends the reply, and returns false. */
bool fork_request(void);
noreturn void fork_leave(const char *failure);
void fork_note_ended(void);
void fork_note_memory(void);       /* a memory buffer has been used */

/* ---- uploads.c ---- */

void uploads_open(void);           /* once, before the start of PHP: the handler of SIGTERM */
void uploads_begin(void);          /* a request has been read: makes the directory for its uploads */
void uploads_end(void);            /* before the end of its reply: removes it */

/* ---- stdin.c ---- */

void stdin_open(void);             /* once, after the start of PHP */

/* ---- fields.c ---- */

void fields_open(void);
void fields_begin(void);
void fields_end(void);

/* ---- functions.c, memory.c ---- */

extern const zend_function_entry sluice_functions[];
PHP_FUNCTION(sluice_parameter);
PHP_FUNCTION(sluice_parameters);
PHP_FUNCTION(sluice_parameter_names);
PHP_FUNCTION(sluice_upload);
PHP_FUNCTION(sluice_uploads);
PHP_FUNCTION(sluice_upload_limit);
PHP_FUNCTION(sluice_buffer_begin);
PHP_FUNCTION(sluice_buffer_write);
PHP_FUNCTION(sluice_buffer_end);
void memory_abandon(void);
void memory_forget(void);          /* in a child process of a script */
bool memory_was_used(void);        /* since the last call of memory_begin() */
void memory_begin(void);
bool memory_is_open(void);
bool memory_write(const char *from, size_t count); /* false: the client has left */

#endif
