/* worker.c: worker mode (--app=worker.php): the script boots once and calls sluice_handle_request($handler) in a loop.

   Here: the boot, and for each request what PHP does at the start and the end of one, as far as it concerns the request: superglobals,
   head, output buffers, uploads, session, shutdown functions. And what the handler changes is put back to the state after the boot:
   environment, settings, directory, locale, umask, time zone, handlers of errors, stream wrappers and contexts, the settings of mbstring and
   libxml, seeds of random numbers. Variables, classes and static properties stay.
   An exception or exit() in the handler ends that request. After a fatal error, which leaves PHP's state undefined, the script boots again.
   Not here: the code that both modes share (request.c). */
#include "engine.h"

#include "ext/standard/basic_functions.h"
#include "ext/standard/file.h"
#include "ext/standard/php_filestat.h"
#include "php_ini.h"
#include "php_output.h"
#include "php_streams.h"
#include "zend_exceptions.h"
#include "zend_ini.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    bool at_end;              /* CGIPLUSIN is at its end */
    bool is_serving;          /* the handler runs */
    bool is_kept;             /* the state after the boot has been saved */
    unsigned long accepted;   /* requests since the boot */
    HashTable *shutdown;      /* shutdown functions that the script registered while it booted */
} worker;

/* Functions that return a setting, and change it if they get an argument. */
static const char *const functions[] = {
    "mb_internal_encoding", "mb_http_output", "mb_language", "mb_substitute_character", "mb_detect_order", "mb_regex_encoding",
    "libxml_use_internal_errors",
};
#define FUNCTIONS_MAX (sizeof functions / sizeof *functions)

/* The state after the boot. */
static struct {
    HashTable settings;       /* changed settings: name and value */
    char *locale;
    mode_t umask;
    zval timezone;
    zval of_functions[FUNCTIONS_MAX]; /* see `functions` */
    zval context;             /* options of the default stream context, or undefined */
    HashTable *wrappers, *filters; /* of streams; NULL: those of PHP */
    zval error_handler, exception_handler;
    int error_handlers, exception_handlers, error_reportings, error_reporting;
} kept;

bool worker_is_between_requests(void)
{
    return engine.app && !worker.is_serving;
}

void worker_client_left(void)
{
    if (!worker.is_serving) {
        php_handle_aborted_connection();
        return;
    }
    /* php_handle_aborted_connection() would leave the script's loop, too: the application would boot again for each such client. */
    PG(connection_status) = PHP_CONNECTION_ABORTED;
    php_output_set_status(PHP_OUTPUT_DISABLED);
    if (!PG(ignore_user_abort) && !EG(exception) && EG(current_execute_data)) zend_throw_unwind_exit();
}

/* ---- The state after the boot ---- */

static void call(const char *name, zval *result, zval *argument)
{
    zval function;
    ZVAL_STRING(&function, name);
    if (call_user_function(NULL, NULL, &function, result, argument ? 1 : 0, argument) != SUCCESS) ZVAL_NULL(result);
    zval_ptr_dtor(&function);
}

static bool has_function(const char *name)
{
    return zend_hash_str_exists(CG(function_table), name, strlen(name));
}

static HashTable *copy_of(HashTable *table)
{
    if (!table) return NULL;
    HashTable *copy = emalloc(sizeof *copy);
    zend_hash_init(copy, zend_hash_num_elements(table), NULL, NULL, 0);
    zend_hash_copy(copy, table, NULL);
    return copy;
}

static void free_table(HashTable **table)
{
    if (!*table) return;
    zend_hash_destroy(*table);
    efree(*table);
    *table = NULL;
}

static void put_back_table(HashTable **table, HashTable *before)
{
    if (!*table) return;
    free_table(table);
    *table = copy_of(before);
}

static void keep_extensions(void)
{
    for (size_t i = 0; i < FUNCTIONS_MAX; i++) {
        ZVAL_UNDEF(&kept.of_functions[i]);
        if (has_function(functions[i])) call(functions[i], &kept.of_functions[i], NULL);
    }
    ZVAL_UNDEF(&kept.context);
    if (FG(default_context)) ZVAL_DUP(&kept.context, &FG(default_context)->options);
    kept.wrappers = copy_of(FG(stream_wrappers));
    kept.filters = copy_of(FG(stream_filters));
}

static void forget_extensions(void)
{
    for (size_t i = 0; i < FUNCTIONS_MAX; i++) zval_ptr_dtor(&kept.of_functions[i]);
    zval_ptr_dtor(&kept.context);
    free_table(&kept.wrappers);
    free_table(&kept.filters);
}

static void put_back_context(void)
{
    php_stream_context *context = FG(default_context);
    if (!context) return;
    zval_ptr_dtor(&context->options);
    if (Z_ISUNDEF(kept.context)) array_init(&context->options);
    else ZVAL_DUP(&context->options, &kept.context);
    if (!context->notifier) return;
    php_stream_notification_free(context->notifier);
    context->notifier = NULL;
}

/* What extensions put back at the end of a script. */
static void put_back_extensions(void)
{
    zval now, ignored;
    for (size_t i = 0; i < FUNCTIONS_MAX; i++) {
        if (Z_ISUNDEF(kept.of_functions[i])) continue;
        call(functions[i], &now, NULL);
        if (!zend_is_identical(&now, &kept.of_functions[i])) {
            call(functions[i], &ignored, &kept.of_functions[i]);
            zval_ptr_dtor(&ignored);
        }
        zval_ptr_dtor(&now);
    }
    if (has_function("libxml_clear_errors")) call("libxml_clear_errors", &ignored, NULL);
    call("error_clear_last", &ignored, NULL);
    put_back_context();
    put_back_table(&FG(stream_wrappers), kept.wrappers);
    put_back_table(&FG(stream_filters), kept.filters);
    if (BG(strtok_string)) {
        zend_string_release(BG(strtok_string));
        BG(strtok_string) = NULL;
    }
    BG(strtok_last) = NULL;
    BG(strtok_len) = 0;
    isolate_reseed();
}

static void keep_state(void)
{
    zend_ini_entry *entry;
    records_keep_environment();
    zend_hash_init(&kept.settings, 8, NULL, ZVAL_PTR_DTOR, 0);
    if (EG(modified_ini_directives)) {
        ZEND_HASH_FOREACH_PTR(EG(modified_ini_directives), entry) {
            zval value;
            if (entry->value) ZVAL_STR_COPY(&value, entry->value);
            else ZVAL_EMPTY_STRING(&value);
            zend_hash_update(&kept.settings, entry->name, &value);
        } ZEND_HASH_FOREACH_END();
    }
    free(kept.locale);
    kept.locale = strdup(setlocale(LC_ALL, NULL));
    kept.umask = umask(0);
    umask(kept.umask);
    call("date_default_timezone_get", &kept.timezone, NULL);
    ZVAL_COPY(&kept.error_handler, &EG(user_error_handler));
    ZVAL_COPY(&kept.exception_handler, &EG(user_exception_handler));
    kept.error_handlers = zend_stack_count(&EG(user_error_handlers));
    kept.error_reportings = zend_stack_count(&EG(user_error_handlers_error_reporting));
    kept.error_reporting = EG(user_error_handler_error_reporting);
    kept.exception_handlers = zend_stack_count(&EG(user_exception_handlers));
    worker.shutdown = BG(user_shutdown_function_names);
    BG(user_shutdown_function_names) = NULL;
    keep_extensions();
    children_keep();
    worker.is_kept = true;
}

/* Settings of the boot that ini_restore() has put back to those of php.ini. */
static void restore_lost_settings(void)
{
    zend_string *name;
    zval *value;
    ZEND_HASH_FOREACH_STR_KEY_VAL(&kept.settings, name, value) {
        zend_ini_entry *entry = zend_hash_find_ptr(EG(ini_directives), name);
        if (entry && !entry->modified) zend_alter_ini_entry_ex(name, Z_STR_P(value), ZEND_INI_USER, ZEND_INI_STAGE_DEACTIVATE, true);
    } ZEND_HASH_FOREACH_END();
}

static void restore_settings(void)
{
    restore_lost_settings();
    if (!EG(modified_ini_directives)) return;
    uint32_t count = zend_hash_num_elements(EG(modified_ini_directives)), at = 0;
    zend_string **names = safe_emalloc(count + 1, sizeof *names, 0);
    zend_ini_entry *entry;
    ZEND_HASH_FOREACH_PTR(EG(modified_ini_directives), entry) {
        zval *value = zend_hash_find(&kept.settings, entry->name);
        if (!value || !entry->value || !zend_string_equals(Z_STR_P(value), entry->value)) names[at++] = zend_string_copy(entry->name);
    } ZEND_HASH_FOREACH_END();
    for (uint32_t i = 0; i < at; i++) {
        zval *value = zend_hash_find(&kept.settings, names[i]);
        if (value) zend_alter_ini_entry_ex(names[i], Z_STR_P(value), ZEND_INI_USER, ZEND_INI_STAGE_DEACTIVATE, true);
        else zend_restore_ini_entry(names[i], ZEND_INI_STAGE_DEACTIVATE);
        zend_string_release(names[i]);
    }
    efree(names);
}

static void restore_handlers(zend_stack *stack, int count, zval *current, zval *before)
{
    while (zend_stack_count(stack) > count) {
        zval_ptr_dtor(zend_stack_top(stack));
        zend_stack_del_top(stack);
    }
    if (zend_is_identical(current, before)) return;
    zval_ptr_dtor(current);
    ZVAL_COPY(current, before);
}

static void restore_state(void)
{
    restore_settings();
    restore_handlers(&EG(user_error_handlers), kept.error_handlers, &EG(user_error_handler), &kept.error_handler);
    restore_handlers(&EG(user_exception_handlers), kept.exception_handlers, &EG(user_exception_handler), &kept.exception_handler);
    while (zend_stack_count(&EG(user_error_handlers_error_reporting)) > kept.error_reportings)
        zend_stack_del_top(&EG(user_error_handlers_error_reporting));
    EG(user_error_handler_error_reporting) = kept.error_reporting;
    if (strcmp(setlocale(LC_ALL, NULL), kept.locale) != 0) setlocale(LC_ALL, kept.locale);
    if (BG(umask) != -1) umask(kept.umask);
    php_clear_stat_cache(0, NULL, 0);
    zval now, ignored;
    call("date_default_timezone_get", &now, NULL);
    if (!zend_is_identical(&now, &kept.timezone)) {
        call("date_default_timezone_set", &ignored, &kept.timezone);
        zval_ptr_dtor(&ignored);
    }
    zval_ptr_dtor(&now);
    put_back_extensions();
}

/* ---- The start and the end of a request ---- */

/* Modules with a state for each request that cannot wait for the end of the script. */
static const char *const modules[] = {"filter", "session"};

static void start_modules(void)
{
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
        zend_module_entry *module = zend_hash_str_find_ptr(&module_registry, modules[i], strlen(modules[i]));
        if (module && module->request_startup_func) module->request_startup_func(module->type, module->module_number);
    }
}

static void end_modules(void)
{
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
        zend_module_entry *module = zend_hash_str_find_ptr(&module_registry, modules[i], strlen(modules[i]));
        if (module && module->request_shutdown_func) module->request_shutdown_func(module->type, module->module_number);
    }
    zend_string *name = zend_string_init("_SESSION", sizeof "_SESSION" - 1, 0);
    zend_delete_global_variable(name);
    zend_string_release(name);
}

static void fill_superglobals(void)
{
    static const char *const when_used[] = {"_SERVER", "_ENV", "_REQUEST"}; /* PHP fills these when it compiles a script that names them */
    for (size_t i = 0; i < NUM_TRACK_VARS; i++) zval_ptr_dtor_nogc(&PG(http_globals)[i]);
    php_hash_environment();
    for (size_t i = 0; i < sizeof when_used / sizeof *when_used; i++) {
        zend_string *name = zend_string_init(when_used[i], strlen(when_used[i]), 0);
        zend_is_auto_global(name);
        zend_string_release(name);
    }
}

static void start_output(void)
{
    php_output_activate();
    SG(sapi_started) = 1; /* php_request_startup() sets it, sapi_deactivate() clears it */
    PG(header_is_being_sent) = 0;
    PG(connection_status) = PHP_CONNECTION_NORMAL;
}

static void start_buffers(void)
{
    if (PG(expose_php)) sapi_add_header(SAPI_PHP_VERSION_HEADER, sizeof(SAPI_PHP_VERSION_HEADER) - 1, 1);
    if (PG(output_handler) && PG(output_handler)[0]) {
        zval handler;
        ZVAL_STRING(&handler, PG(output_handler));
        php_output_start_user(&handler, 0, PHP_OUTPUT_HANDLER_STDFLAGS);
        zval_ptr_dtor(&handler);
    } else if (PG(output_buffering)) {
        php_output_start_user(NULL, PG(output_buffering) > 1 ? (size_t)PG(output_buffering) : 0, PHP_OUTPUT_HANDLER_STDFLAGS);
    } else if (PG(implicit_flush)) {
        php_output_set_implicit_flush(1);
    }
}

static void start_request(void)
{
    request_clear_failure();
    body_begin();
    memory_begin();
    fields_begin();
    records_enter_environment();
    request_enter_directory(engine.app);
    sapi_fill_request(engine.app);
    start_output();
    engine.is_starting = true;
    sapi_activate();
    engine.is_starting = false;
    start_buffers();
    fill_superglobals();
    start_modules();
    zend_set_timeout(EG(timeout_seconds), 1);
}

/* PHP closes the stream behind php://input, which may be a temporary file, with all others at the end of the script. */
static void close_body(void)
{
    php_stream *body = SG(request_info).request_body;
    if (!body) return;
    SG(request_info).request_body = NULL;
    php_stream_free(body, PHP_STREAM_FREE_CLOSE);
}

/* An exception of a shutdown function, of an output callback or of a session handler fails the request. Nothing else may run before it is
   reported, and it must not reach the script's loop. */
static void report_exception(void)
{
    if (!EG(exception)) return;
    if (zend_is_unwind_exit(EG(exception)) || zend_is_graceful_exit(EG(exception))) zend_clear_exception();
    else zend_exception_error(EG(exception), E_ERROR);
}

/* As zend_user_exception_handler(), which inside a function would drop what the handler itself throws. */
static void call_exception_handler(void)
{
    zend_object *thrown = EG(exception);
    zval handler, argument, result;
    EG(exception) = NULL;
    ZVAL_OBJ(&argument, thrown);
    ZVAL_COPY_VALUE(&handler, &EG(user_exception_handler));
    ZVAL_UNDEF(&EG(user_exception_handler));
    ZVAL_UNDEF(&result);
    call_user_function(NULL, NULL, &handler, &result, 1, &argument);
    zval_ptr_dtor(&result);
    OBJ_RELEASE(thrown);
    if (Z_ISUNDEF(EG(user_exception_handler))) ZVAL_COPY_VALUE(&EG(user_exception_handler), &handler);
    else zval_ptr_dtor(&handler);
}

/* The request has ended for PHP: nothing of it is kept by PHP's own structures, and a head may begin. */
static void leave_request(void)
{
    zend_try { php_output_end_all(); } zend_end_try();
    report_exception();
    request_note_page();
    zend_unset_timeout();
    body_discard();
    zend_try { end_modules(); } zend_end_try();
    report_exception();
    zend_try { php_output_deactivate(); } zend_end_try();
    memory_abandon();
    fields_end();
    close_body();
    sapi_deactivate();
    sapi_forget_request();
}

static void end_request(void)
{
    zend_try { php_call_shutdown_functions(); } zend_end_try();
    report_exception();
    if (!engine_is_own_process()) _exit(EG(exit_status)); /* forked by a shutdown function */
    php_free_shutdown_functions();
    BG(user_shutdown_function_names) = NULL;
    request_note_end();
    leave_request();
    records_leave_environment();
    restore_state();
    isolate_after_request();
#if PHP_VERSION_ID >= 80200
    zend_memory_reset_peak_usage();
#endif
    worker.is_serving = false;
}

/* Reports what the handler has thrown. exit() is an exception inside PHP, too, and no failure. False after a fatal error that ends the
   script by such an exception (an exhausted memory_limit, in some versions of PHP). */
static bool has_survived(void)
{
    if (!EG(exception)) return true;
    if (zend_is_unwind_exit(EG(exception)) || zend_is_graceful_exit(EG(exception))) {
        if (request_error()) return false;
        zend_clear_exception();
        return true;
    }
    if (Z_TYPE(EG(user_exception_handler)) != IS_UNDEF) call_exception_handler();
    report_exception();
    return true;
}

static bool call_handler(zend_fcall_info *info, zend_fcall_info_cache *cache)
{
    zval result;
    ZVAL_UNDEF(&result);
    info->retval = &result;
    zend_call_function(info, cache);
    bool has_returned = has_survived();
    if (!engine_is_own_process()) children_leave();
    if (has_returned) zval_ptr_dtor(&result);
    return has_returned;
}

/* The script goes on after its loop, and may write and call header(): without effect. */
static void leave_loop(void)
{
    worker.at_end = true;
    SG(request_info).no_headers = 1;
    start_output();
    sapi_activate();
}

PHP_FUNCTION(sluice_handle_request)
{
    zend_fcall_info info;
    zend_fcall_info_cache cache;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_FUNC(info, cache)
    ZEND_PARSE_PARAMETERS_END();
    if (!engine.app || worker.is_serving) {
        zend_throw_error(NULL, engine.app ? "sluice_handle_request() must not be called by a handler"
                                          : "sluice_handle_request() is for worker mode: name this script with app = \"...\" in its route");
        RETURN_THROWS();
    }
    if (worker.at_end || !engine_is_own_process()) RETURN_FALSE;
    if (!worker.is_kept) {
        keep_state();
        leave_request();
    }
    if (records_next() <= 0) {
        leave_loop();
        RETURN_FALSE;
    }
    engine.uses++;
    worker.accepted++;
    output_begin();
    uploads_begin();
    if (engine.forks && !fork_request()) RETURN_TRUE;
    worker.is_serving = true;
    start_request();
    if (!body_is_cut() && !call_handler(&info, &cache)) RETURN_THROWS(); /* boot() ends the request */
    end_request();
    if (!engine.forks) uploads_end();
    if (engine.forks) fork_leave(request_failure());
    request_finish();
    RETURN_TRUE;
}

/* ---- The boot ---- */

static void execute_app(void)
{
    zend_file_handle file;
    CG(skip_shebang) = true;
    SG(options) |= SAPI_OPTION_NO_CHDIR;
    SG(request_info).no_headers = 1;
    if (!request_open_script(&file, engine.app)) return;
    php_execute_script(&file);
    zend_destroy_file_handle(&file);
}

/* PHP is about to end the script: all shutdown functions run, after a fatal error first those of the handler, which see the request and may
   write to the reply, as under php-fpm. */
static void join_shutdown_functions(void)
{
    php_shutdown_function_entry *entry;
    HashTable *of_handler = BG(user_shutdown_function_names), *of_boot = worker.shutdown;
    worker.shutdown = NULL;
    if (!of_boot) return;
    BG(user_shutdown_function_names) = of_boot;
    if (!of_handler) return;
    BG(user_shutdown_function_names) = of_handler;
    ZEND_HASH_FOREACH_PTR(of_boot, entry) {
        zend_hash_next_index_insert_mem(of_handler, entry, sizeof *entry);
    } ZEND_HASH_FOREACH_END();
    of_boot->pDestructor = NULL; /* the entries have moved */
    zend_hash_destroy(of_boot);
    FREE_HASHTABLE(of_boot);
}

static void boot(void)
{
    bool was_serving;
    memset(&worker, 0, sizeof worker);
    request_clear_failure();
    records_leave_environment();
    request_enter_directory(engine.app);
    sapi_forget_request();
    SG(request_info).path_translated = (char *)engine.app;
    zend_first_try {
        if (php_request_startup() == SUCCESS) execute_app();
    } zend_end_try();
    was_serving = worker.is_serving;
    if (was_serving) request_note_end();
    if (worker.is_kept) join_shutdown_functions();
    if (!engine_is_own_process()) children_leave();
    if (!SG(sapi_started)) leave_loop(), worker.at_end = false;
    if (worker.is_kept) {
        zend_hash_destroy(&kept.settings);
        forget_extensions();
        zval_ptr_dtor(&kept.timezone);
        zval_ptr_dtor(&kept.error_handler);
        zval_ptr_dtor(&kept.exception_handler);
    }
    php_request_shutdown(NULL);
    if (!engine_is_own_process()) _exit(0);
    memory_abandon();
    sapi_forget_request();
    isolate_after_request();
    worker.is_serving = false;
    if (!was_serving) return;
    if (engine.forks) fork_leave(request_failure());
    request_finish();
}

/* The script has ended without taking a request: the next one gets its error, and the script is run again for the one after that. */
static bool refuse_request(void)
{
    if (records_next() <= 0) return false;
    engine.uses++;
    output_begin();
    engine_report("%s ended before its first call of sluice_handle_request()", engine.app);
    output_fail(request_error() ? request_error() : "the worker script ended before its first call of sluice_handle_request()");
    return true;
}

int worker_run(void)
{
    for (;;) {
        boot();
        if (worker.at_end) return 0;
        if (worker.accepted > 0) continue;
        if (!refuse_request()) return 0;
        records_wait(); /* the script may have been repaired by then */
    }
}
