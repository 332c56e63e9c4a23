/* sapi.c: the callbacks that PHP calls, as for every SAPI (sapi_module_struct), and the functions that php-fpm adds to PHP.

   Here: the head of the reply, $_SERVER, cookies, the log, getallheaders(), fastcgi_finish_request().
   Not here: the order of a request (request.c, worker.c), the bytes of the reply (output.c) and of the body (body.c). */
#include "engine.h"

#include "ext/standard/basic_functions.h"
#include "ext/standard/info.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- The request ---- */

const char *sapi_script(void)
{
    const char *script = engine.app ? engine.app : records_value(V_SCRIPT_FILENAME);
    return script ? script : "";
}

/* 1001 for HTTP/1.1. */
static int protocol_number(const char *protocol)
{
    if (!protocol || strncmp(protocol, "HTTP/", 5) != 0) return 1000;
    const char *dot = strchr(protocol + 5, '.');
    return atoi(protocol + 5) * 1000 + (dot ? atoi(dot + 1) : 0);
}

void sapi_fill_request(const char *script)
{
    const char *length = records_value(V_CONTENT_LENGTH), *method = records_value(V_REQUEST_METHOD);
    const char *query = records_value(V_QUERY_STRING), *type = records_value(V_CONTENT_TYPE);
    SG(server_context) = &engine;
    SG(request_info).request_method = method ? method : "GET";
    SG(request_info).query_string = (char *)(query ? query : "");
    SG(request_info).content_type = type ? type : "";
    SG(request_info).content_length = length ? strtoll(length, NULL, 10) : 0;
    SG(request_info).path_translated = (char *)script;
    SG(request_info).request_uri = (char *)records_value(V_SCRIPT_NAME);
    SG(request_info).proto_num = protocol_number(records_value(V_SERVER_PROTOCOL));
    SG(request_info).no_headers = 0;
    SG(request_info).headers_only = 0;
    SG(sapi_headers).http_response_code = 200;
    php_handle_auth_data(records_value(V_AUTHORIZATION));
}

static char *script_uri; /* SCRIPT_NAME and PATH_INFO */

/* Phar::webPhar() takes the file in the archive from what follows the name of the script in request_uri, unless it knows the SAPI for one that has
   PATH_INFO. Until the script is open, PHP wants request_uri without it, for doc_root. */
void sapi_add_path_info(void)
{
    const char *name = records_value(V_SCRIPT_NAME), *path = records_value(V_PATH_INFO);
    if (!name) return;
    if (!path) path = "";
    /* webPhar() of PHP 8.2 sets a byte for a moment that is by the length of the script's path behind the script's name. */
    size_t size = strlen(name) + strlen(path) + 1;
    script_uri = calloc(1, size + MAXPATHLEN);
    if (!script_uri) return;
    snprintf(script_uri, size, "%s%s", name, path);
    SG(request_info).request_uri = script_uri;
}

/* The texts are those of the record, which the next one replaces. */
void sapi_forget_request(void)
{
    free(script_uri);
    script_uri = NULL;
    SG(server_context) = NULL;
    SG(request_info).request_method = NULL;
    SG(request_info).query_string = NULL;
    SG(request_info).content_type = NULL;
    SG(request_info).content_length = 0;
    SG(request_info).path_translated = NULL;
    SG(request_info).request_uri = NULL;
}

/* A script that reads a body of which no more comes is ended as one that writes to a client that has left. PHP reads forms before the script
   runs, which then does not run. */
static size_t read_post(char *into, size_t size)
{
    size_t count = body_read(into, size);
    if (body_is_cut() && !engine.is_starting && EG(current_execute_data)) worker_client_left();
    return count;
}

static char *read_cookies(void)
{
    return (char *)records_value(V_COOKIE);
}

/* The environment of a CGI process, and PHP_SELF. PHP adds PHP_AUTH_USER, PHP_AUTH_PW, REQUEST_TIME, REQUEST_TIME_FLOAT, argv. */
static void register_variables(zval *array)
{
    php_import_environment_variables(array);
    const char *name = records_value(V_SCRIPT_NAME), *path = records_value(V_PATH_INFO);
    char *self;
    size_t length = (size_t)spprintf(&self, 0, "%s%s", name ? name : "", path ? path : "");
    if (sapi_module.input_filter(PARSE_SERVER, "PHP_SELF", &self, length, &length))
        php_register_variable_safe("PHP_SELF", self, length, array);
    efree(self);
}

static int activate(void)
{
    if (!engine.app || worker_is_between_requests()) ini_activate_user_files();
    return SUCCESS;
}

/* ---- The reply ---- */

static size_t write_body(const char *from, size_t count)
{
    output_note_body(count);
    if (memory_is_open() ? memory_write(from, count) : output_write(from, count)) return count;
    worker_client_left(); /* ends the script unless it has called ignore_user_abort(true) */
    return 0;
}

static void flush(void *context)
{
    (void)context;
    /* Without output there may be no head yet: flush() sends it, as under php-fpm. */
    if (!worker_is_between_requests() && SG(server_context) && !output_has_ended()) sapi_send_headers();
    if (!output_flush()) worker_client_left();
}

static bool is_field(const sapi_header_struct *header, const char *name, size_t length)
{
    return header->header_len > length && header->header[length] == ':' && strncasecmp(header->header, name, length) == 0;
}

/* header("HTTP/1.1 404 Gone fishing") names the reason; otherwise the server knows it. http_response_code() changes the number alone. */
static void write_status(const sapi_headers_struct *headers)
{
    char line[256];
    const char *text = headers->http_status_line ? strchr(headers->http_status_line, ' ') : NULL;
    if (text && atoi(text) != headers->http_response_code) text = NULL;
    int length = text ? snprintf(line, sizeof line, "Status:%s\r\n", text)
                      : snprintf(line, sizeof line, "Status: %d\r\n", headers->http_response_code);
    if (length >= (int)sizeof line) length = snprintf(line, sizeof line, "Status: %d\r\n", headers->http_response_code);
    output_write(line, (size_t)length);
}

static int send_headers(sapi_headers_struct *headers)
{
    zend_llist_position position;
    sapi_header_struct *header;
    bool has_status = false, has_any = false;
    if (SG(request_info).no_headers || !SG(server_context)) return SAPI_HEADER_SENT_SUCCESSFULLY;
    for (header = zend_llist_get_first_ex(&headers->headers, &position); header;
         header = zend_llist_get_next_ex(&headers->headers, &position)) {
        has_any = true;
        if (is_field(header, "Status", 6)) has_status = true;
    }
    if (!has_status && (headers->http_response_code != 200 || headers->http_status_line || !has_any)) write_status(headers);
    for (header = zend_llist_get_first_ex(&headers->headers, &position); header;
         header = zend_llist_get_next_ex(&headers->headers, &position)) {
        output_write(header->header, header->header_len);
        output_write("\r\n", 2);
    }
    output_write("\r\n", 2);
    output_note_head();
    return SAPI_HEADER_SENT_SUCCESSFULLY;
}

/* ---- The log ---- */

static void log_message(const char *message, int priority)
{
    (void)priority;
    size_t length = strlen(message);
    char *line = malloc(length + 1); /* one write, so that lines of several processes are not mixed */
    if (!line) return;
    memcpy(line, message, length);
    line[length] = '\n';
    ssize_t ignored = write(STDERR_FILENO, line, length + 1);
    (void)ignored;
    free(line);
}

static int start(sapi_module_struct *module)
{
#if PHP_VERSION_ID < 80200
    return php_module_startup(module, &sluice_module, 1);
#else
    return php_module_startup(module, &sluice_module);
#endif
}

sapi_module_struct sluice_sapi = {
    .name = "sluice",
    .pretty_name = "Sluice",
    .startup = start,
    .shutdown = php_module_shutdown_wrapper,
    .activate = activate,
    .ub_write = write_body,
    .flush = flush,
    .sapi_error = php_error,
    .send_headers = send_headers,
    .read_post = read_post,
    .read_cookies = read_cookies,
    .register_server_variables = register_variables,
    .log_message = log_message,
    .php_ini_ignore_cwd = 1,
};

/* ---- Functions of php-fpm ---- */

bool sapi_finish_reply(void)
{
    if (output_has_ended() || worker_is_between_requests()) return false;
    php_output_end_all();
    sapi_send_headers();
    memory_abandon();
    output_end();
    fork_note_ended();
    return true;
}

static PHP_FUNCTION(fastcgi_finish_request)
{
    ZEND_PARSE_PARAMETERS_NONE();
    RETURN_BOOL(sapi_finish_reply());
}

/* HTTP_ACCEPT_LANGUAGE becomes Accept-Language. */
static void add_request_header(zval *array, const char *name, size_t length, const char *value)
{
    char field[256];
    if (length == 0 || length >= sizeof field) return;
    bool begins = true;
    for (size_t i = 0; i < length; i++) {
        char c = name[i] == '_' ? '-' : name[i];
        field[i] = begins ? c : (char)tolower((unsigned char)c);
        begins = c == '-';
    }
    add_assoc_stringl_ex(array, field, length, value, strlen(value));
}

extern char **environ;

static PHP_FUNCTION(getallheaders)
{
    ZEND_PARSE_PARAMETERS_NONE();
    array_init(return_value);
    for (char **entry = environ; entry && *entry; entry++) {
        const char *equals = strchr(*entry, '=');
        if (!equals) continue;
        const char *name = strncmp(*entry, "WWW_", 4) == 0 ? *entry + 4 : *entry;
        size_t length = (size_t)(equals - name);
        if (length > 5 && strncmp(name, "HTTP_", 5) == 0) add_request_header(return_value, name + 5, length - 5, equals + 1);
        else if (length == 12 && strncmp(name, "CONTENT_TYPE", 12) == 0 && equals[1])
            add_assoc_string(return_value, "Content-Type", equals + 1);
        else if (length == 14 && strncmp(name, "CONTENT_LENGTH", 14) == 0 && equals[1])
            add_assoc_string(return_value, "Content-Length", equals + 1);
    }
}

static PHP_FUNCTION(apache_response_headers)
{
    ZEND_PARSE_PARAMETERS_NONE();
    zend_llist_position position;
    array_init(return_value);
    for (sapi_header_struct *header = zend_llist_get_first_ex(&SG(sapi_headers).headers, &position); header;
         header = zend_llist_get_next_ex(&SG(sapi_headers).headers, &position)) {
        const char *colon = memchr(header->header, ':', header->header_len);
        if (!colon) continue;
        const char *value = colon + 1, *end = header->header + header->header_len;
        while (value < end && *value == ' ') value++;
        add_assoc_stringl_ex(return_value, header->header, (size_t)(colon - header->header), value, (size_t)(end - value));
    }
}

ZEND_BEGIN_ARG_INFO_EX(arginfo_finish, 0, 0, 0)
ZEND_END_ARG_INFO()

static const zend_function_entry fpm_functions[] = {
    PHP_FE(fastcgi_finish_request, arginfo_finish)
    PHP_FE(getallheaders, arginfo_finish)
    PHP_FALIAS(apache_request_headers, getallheaders, arginfo_finish)
    PHP_FE(apache_response_headers, arginfo_finish)
    PHP_FE_END
};

/* ---- The module ---- */

/* opcache works for the SAPIs of a list only, and asks for the name when it starts, which is after this function. main.c puts the name
   back when PHP has started. The constant PHP_SAPI has been made before and is "sluice". */
static PHP_MINIT_FUNCTION(sluice)
{
    (void)type;
    sapi_module.name = "fpm-fcgi";
    return zend_register_functions(NULL, sluice_functions, NULL, MODULE_PERSISTENT);
}

/* The shutdown functions of the script have run, and output buffers are empty: nothing reads the body any more. PHP would read all of it here. */
static PHP_RSHUTDOWN_FUNCTION(sluice)
{
    (void)type, (void)module_number;
    request_note_page();
    body_discard();
    fields_end();
    return SUCCESS;
}

static PHP_MINFO_FUNCTION(sluice)
{
    (void)zend_module;
    php_info_print_table_start();
    php_info_print_table_row(2, "Engine of Sluice", engine.app ? "worker mode" : engine.forks ? "a process for each request" : "enabled");
    php_info_print_table_end();
}

zend_module_entry sluice_module = {
    STANDARD_MODULE_HEADER, "sluice", fpm_functions, PHP_MINIT(sluice), NULL, NULL, PHP_RSHUTDOWN(sluice), PHP_MINFO(sluice),
    "1", STANDARD_MODULE_PROPERTIES,
};
