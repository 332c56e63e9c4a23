/* request.c: one request: its script is run, and the reply ends with the end sentinel or with !FAILED.

   Here: the order of a request outside worker mode, a missing script, fatal errors, the check for a changed script.
   Not here: what is put back afterwards beside what PHP does itself (isolate.c).

   After a fatal error or an uncaught exception:
     a part of the reply has been sent                     !FAILED: the server aborts the response
     the error forbids PHP any more output                 !FAILED: the server answers 502 (an output callback has used output buffering)
     nothing has been sent, display_errors is on           the reply, with the message, as php-fpm sends it
     … it is off, and a handler of the script has answered the reply of the handler, as php-fpm sends it (500, or the handler's status)
     … otherwise                                           !FAILED: the server answers 502; what the script has written is thrown away
   After exit(3) without any output                        !FAILED: the server answers 502
   A handler is a shutdown function or an output callback that writes something, or sets a status, after the error. An exception handler needs no
   row: PHP reports no error then. */
#include "engine.h"

#include "php_output.h"
#include "zend_exceptions.h"
#include "zend_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define FATAL_ERRORS (E_ERROR | E_PARSE | E_CORE_ERROR | E_COMPILE_ERROR | E_USER_ERROR | E_RECOVERABLE_ERROR)

static struct {
    bool has_failed;
    bool is_success_sent; /* the head had been made when the error occurred */
    /* What a reply without a handler would be: this status, and these bytes, which PHP had in so many output buffers. */
    int status;
    size_t held;
    int buffers;
    size_t body;          /* bytes of the body when the error occurred */
    bool has_head;
    bool has_own_page;    /* a handler of the script has answered */
    bool has_no_output;   /* PHP has switched its output off: neither the message nor a handler can reach the client */
    char text[512];
} failure;

/* What PHP forgets when it ends a request. */
static bool displays_errors;
static int exit_status, response_code;

/* ---- Fatal errors ---- */

static void (*previous_error_cb)(int, zend_string *, const uint32_t, zend_string *);

/* The bytes in PHP's output buffers. */
static size_t held_bytes(void)
{
    php_output_handler **buffers = zend_stack_base(&OG(handlers));
    size_t bytes = 0;
    for (int i = 0; i < php_output_get_level(); i++) bytes += buffers[i]->buffer.used;
    return bytes;
}

/* The state of the reply at the error. */
static void note_reply(void)
{
    int status = SG(sapi_headers).http_response_code;
    failure.has_head = SG(headers_sent);
    failure.is_success_sent = failure.has_head && status < 400;
    failure.status = status == 200 && !failure.has_head ? 500 : status; /* PHP makes 500 of 200 after this */
    failure.held = held_bytes();
    failure.buffers = php_output_get_level();
    failure.body = output_body_bytes();
    failure.has_no_output = !(OG(flags) & PHP_OUTPUT_ACTIVATED);
    OG(flags) &= ~PHP_OUTPUT_WRITTEN;
}

/* All code of the script has run: did it write something after the error? What was in the buffers before has been written by now, too, unless
   PHP or a handler has thrown it away. A callback that changes what passes it, such as compression, counts as a handler. */
void request_note_page(void)
{
    if (!failure.has_failed) return;
    size_t written = output_body_bytes() - failure.body;
    bool has_filled = (OG(flags) & PHP_OUTPUT_WRITTEN) != 0;
    if (SG(sapi_headers).http_response_code != failure.status) failure.has_own_page = true;
    else if (SG(request_info).headers_only) failure.has_own_page = has_filled || (SG(headers_sent) && !failure.has_head);
    else failure.has_own_page = written != 0 && (written != failure.held || (has_filled && failure.buffers < 2));
}

static void note_error(int type, zend_string *file, const uint32_t line, zend_string *message)
{
    if ((type & FATAL_ERRORS) && !failure.has_failed) {
        failure.has_failed = true;
        note_reply();
        const char *end = memchr(ZSTR_VAL(message), '\n', ZSTR_LEN(message));
        int length = end ? (int)(end - ZSTR_VAL(message)) : (int)ZSTR_LEN(message);
        snprintf(failure.text, sizeof failure.text, "%.*s (%s:%u)", length, ZSTR_VAL(message), file ? ZSTR_VAL(file) : "?", line);
    }
    previous_error_cb(type, file, line, message);
}

void request_open(void)
{
    previous_error_cb = zend_error_cb;
    zend_error_cb = note_error;
}

void request_clear_failure(void)
{
    failure.has_failed = failure.has_own_page = failure.has_no_output = false;
    EG(exit_status) = exit_status = 0;
}

static void request_refuse(const char *text)
{
    failure.has_failed = true;
    snprintf(failure.text, sizeof failure.text, "%s", text);
}

const char *request_error(void)
{
    return failure.has_failed ? failure.text : NULL;
}

void request_note_end(void)
{
    displays_errors = PG(display_errors);
    exit_status = SG(request_info).headers_only ? 0 : EG(exit_status); /* the response to HEAD has no output in any case */
    response_code = SG(sapi_headers).http_response_code;
}

const char *request_failure(void)
{
    static char text[64];
    if (output_has_ended()) return NULL;
    if (!failure.has_failed) {
        /* Without any output it says that something has failed, as it does for a CGI process. */
        if (exit_status == 0 || output_has_body() || response_code == 204 || response_code >= 300) return NULL;
        snprintf(text, sizeof text, "exit status %d without output", exit_status);
        return text;
    }
    if (output_is_sent() || failure.has_no_output) return failure.text;
    return displays_errors || (failure.has_own_page && !failure.is_success_sent) ? NULL : failure.text;
}

void request_finish(void)
{
    const char *text = request_failure();
    if (text) output_fail(text);
    else output_end();
}

/* ---- The script file ---- */

/* Files that have been run, so that a changed one is compiled again at once. opcache itself looks every opcache.revalidate_freq seconds. */
#define SEEN_MAX 256

static struct seen {
    uint64_t name; /* a hash of the path */
    ino_t inode;
    off_t size;
    struct timespec changed, attributes_changed; /* the second after chmod */
} seen[SEEN_MAX];

static uint64_t hash(const char *text)
{
    uint64_t value = 14695981039346656037u;
    for (; *text; text++) value = (value ^ (unsigned char)*text) * 1099511628211u;
    return value;
}

enum sight { NEW, SAME, CHANGED };

static bool is_same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static enum sight look(const char *script, const struct stat *now)
{
    uint64_t name = hash(script);
    struct seen *at = &seen[name % SEEN_MAX];
    bool is_known = at->name == name;
    bool is_same = is_known && at->inode == now->st_ino && at->size == now->st_size && is_same_time(&at->changed, &now->st_mtim) &&
                   is_same_time(&at->attributes_changed, &now->st_ctim);
    *at = (struct seen){name, now->st_ino, now->st_size, now->st_mtim, now->st_ctim};
    return is_same ? SAME : is_known ? CHANGED : NEW;
}

static void compile_again(const char *script)
{
    zval function, result, arguments[2];
    if (!INI_BOOL("opcache.validate_timestamps") || !zend_hash_str_exists(CG(function_table), ZEND_STRL("opcache_invalidate"))) return;
    realpath_cache_clean();
    ZVAL_STRING(&function, "opcache_invalidate");
    ZVAL_STRING(&arguments[0], script);
    ZVAL_TRUE(&arguments[1]);
    if (call_user_function(NULL, NULL, &function, &result, 2, arguments) == SUCCESS) zval_ptr_dtor(&result);
    zval_ptr_dtor(&arguments[0]);
    zval_ptr_dtor(&function);
}

/* Answers as php-fpm does. */
static bool refuse(const char *script, int error)
{
    engine_report("%s: %s", script, strerror(error));
    SG(sapi_headers).http_response_code = error == EACCES ? 403 : 404;
    if (error == EACCES) PUTS("Access denied.\n");
    else PUTS("File not found.\n");
    return false;
}

/* PHP sends a text without PHP code in it as it is. For a program in another language, which a wrong route gives to this engine, that would be
   its source: a file with such a suffix, or none, is run only if PHP code begins near its start. */
static bool is_of_other_language(const char *script)
{
    static const char *const others[] = {"", ".py", ".pl", ".pm", ".psgi", ".sh", ".cgi", ".rb", ".lua", ".tcl"};
    const char *slash = strrchr(script, '/'), *dot = strrchr(slash ? slash : script, '.');
    char start[4096];
    size_t i = 0, count = sizeof others / sizeof *others;
    while (i < count && strcasecmp(others[i], dot ? dot : "") != 0) i++;
    if (i == count) return false;
    int file = open(script, O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? 0 : read(file, start, sizeof start);
    if (file >= 0) close(file);
    return got <= 0 || !(memmem(start, (size_t)got, "<?php", 5) || memmem(start, (size_t)got, "<?=", 3));
}

bool request_open_script(zend_file_handle *file, const char *script)
{
    struct stat now;
    if (stat(script, &now)) return refuse(script, errno);
    if (!S_ISREG(now.st_mode)) return refuse(script, S_ISDIR(now.st_mode) ? EISDIR : ENOENT);
    enum sight sight = look(script, &now);
    if (sight == CHANGED) compile_again(script);
    /* opcache does not open a script that it has compiled, so the permission is asked for. */
    if (sight != SAME && access(script, R_OK)) {
        int error = errno;
        seen[hash(script) % SEEN_MAX].name = 0;
        return refuse(script, error);
    }
    if (sight != SAME && !engine.app && is_of_other_language(script)) {
        seen[hash(script) % SEEN_MAX].name = 0;
        engine_report("%s has no PHP code: it is not sent", script);
        return refuse(script, EACCES);
    }
    errno = 0;
    if (php_fopen_primary_script(file) == FAILURE) return refuse(script, errno ? errno : ENOENT);
    return true;
}

bool request_enter_directory(const char *script)
{
    char directory[MAXPATHLEN];
    const char *slash = strrchr(script, '/');
    size_t length = slash ? (size_t)(slash - script) : 0;
    if (length == 0 || length >= sizeof directory) return false;
    memcpy(directory, script, length);
    directory[length] = '\0';
    return chdir(directory) == 0;
}

/* ---- The request ---- */

static void execute(const char *script)
{
    zend_file_handle file;
    CG(skip_shebang) = true; /* a script that runs as CGI, too, may have a #! line */
    SG(options) |= SAPI_OPTION_NO_CHDIR; /* php_execute_script would ask for the directory and change to it twice */
    if (request_open_script(&file, script)) {
        sapi_add_path_info();
        php_execute_script(&file);
        zend_destroy_file_handle(&file);
    }
}

static void run(void)
{
    const char *script = sapi_script();
    request_clear_failure();
    body_begin();
    memory_begin();
    fields_begin();
    records_enter_environment();
    request_enter_directory(script);
    sapi_fill_request(script);
    zend_first_try {
        if (php_request_startup() == SUCCESS) {
            if (!body_is_cut()) execute(script);
        } else request_refuse("PHP cannot begin the request");
    } zend_end_try();
    if (!engine_is_own_process()) children_leave();
    request_note_end();
    php_request_shutdown(NULL);
    if (!engine_is_own_process()) _exit(0); /* forked by a shutdown function or a destructor */
    memory_abandon();
    sapi_forget_request();
    isolate_after_request();
    records_leave_environment();
}

void request_run(void)
{
    engine.uses++;
    output_begin();
    uploads_begin();
    if (engine.forks) {
        if (!fork_request()) return;
        run();
        fork_leave(request_failure());
    }
    run();
    uploads_end();
    request_finish();
}
