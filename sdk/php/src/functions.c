/* functions.c: the functions of the library for authors, sluice_…: requests, variables, responses, callouts, coding.

   Here: all but forms and uploads (fields.c), the memory buffer (memory.c) and sluice_handle_request() (worker.c). sluice.stub.php documents
   them, and sluice.php defines the same functions in PHP for php-cgi and the command line. */
#include "engine.h"

#include "ext/spl/spl_exceptions.h"
#include "ext/standard/url.h"
#include "php_output.h"
#include "php_streams.h"
#include "zend_exceptions.h"
#include "zend_smart_str.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>


static unsigned long accepted_use; /* the request that sluice_accept() has returned */

/* ---- Requests and variables ---- */

static PHP_FUNCTION(sluice_accept)
{
    ZEND_PARSE_PARAMETERS_NONE();
    if (accepted_use == engine.uses) RETURN_FALSE;
    accepted_use = engine.uses;
    RETURN_TRUE;
}

static PHP_FUNCTION(sluice_finish)
{
    ZEND_PARSE_PARAMETERS_NONE();
    RETURN_BOOL(sapi_finish_reply());
}

/* sluice_accept() is true once: the engine calls the script for each request. */
static PHP_FUNCTION(sluice_is_persistent)
{
    ZEND_PARSE_PARAMETERS_NONE();
    RETURN_FALSE;
}

static PHP_FUNCTION(sluice_uses)
{
    ZEND_PARSE_PARAMETERS_NONE();
    RETURN_LONG((zend_long)engine.uses);
}

/* A variable by its name, with the prefix WWW_ or without; NULL if there is none. */
static const char *any_variable(const char *name, size_t length)
{
    char prefixed[256];
    const char *value = records_variable(name);
    if (!value && length < sizeof prefixed - 4 && strncasecmp(name, "WWW_", 4) != 0) {
        snprintf(prefixed, sizeof prefixed, "WWW_%s", name);
        value = records_variable(prefixed);
    }
    if (!value && strncasecmp(name, "WWW_", 4) == 0) value = records_variable(name + 4);
    return value;
}

static PHP_FUNCTION(sluice_variable)
{
    char *name;
    size_t length;
    zval *otherwise = NULL;
    ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_STRING(name, length)
        Z_PARAM_OPTIONAL
        Z_PARAM_ZVAL(otherwise)
    ZEND_PARSE_PARAMETERS_END();
    const char *value = any_variable(name, length);
    if (value) RETURN_STRING(value);
    if (otherwise) RETURN_COPY(otherwise);
}

extern char **environ;

static PHP_FUNCTION(sluice_variables)
{
    ZEND_PARSE_PARAMETERS_NONE();
    array_init(return_value);
    for (char **entry = environ; entry && *entry; entry++) {
        const char *equals = strchr(*entry, '=');
        if (equals) add_assoc_string_ex(return_value, *entry, (size_t)(equals - *entry), (char *)equals + 1);
    }
}

/* The position is that of this function alone: php://input can be read as often as wanted. */
static PHP_FUNCTION(sluice_body_read)
{
    static unsigned long use;
    static zend_long position;
    zend_long bytes = 65536;
    ZEND_PARSE_PARAMETERS_START(0, 1)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(bytes)
    ZEND_PARSE_PARAMETERS_END();
    if (bytes <= 0) {
        zend_argument_value_error(1, "must be greater than 0");
        RETURN_THROWS();
    }
    if (use != engine.uses) position = 0;
    use = engine.uses;
    php_stream *input = php_stream_open_wrapper("php://input", "rb", REPORT_ERRORS, NULL);
    if (!input) RETURN_EMPTY_STRING();
    /* What has been read of the body is kept by PHP; seeking beyond that would read nothing. */
    zend_string *text = NULL;
    if (position == 0 || php_stream_seek(input, position, SEEK_SET) == 0) text = php_stream_copy_to_mem(input, (size_t)bytes, 0);
    php_stream_close(input);
    if (!text) RETURN_EMPTY_STRING();
    position += (zend_long)ZSTR_LEN(text);
    RETURN_STR(text);
}

/* ---- The response ---- */

static bool set_header(const char *line, size_t length, bool replaces)
{
    sapi_header_line header = {.line = line, .line_len = length};
    return sapi_header_op(replaces ? SAPI_HEADER_REPLACE : SAPI_HEADER_ADD, &header) == SUCCESS;
}

static bool set_status(zend_long code)
{
    if (code < 200 || code > 599) {
        zend_argument_value_error(1, "must be a status from 200 to 599");
        return false;
    }
    sapi_header_op(SAPI_HEADER_SET_STATUS, (void *)(zend_intptr_t)code);
    return true;
}

static PHP_FUNCTION(sluice_status)
{
    zend_long code;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_LONG(code)
    ZEND_PARSE_PARAMETERS_END();
    if (!set_status(code)) RETURN_THROWS();
}

static bool has_control(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] < ' ' && text[i] != '\t') return true;
    return false;
}

/* Of these a response has one; other fields may be repeated. */
static bool is_single(const char *name)
{
    return strcasecmp(name, "Content-Type") == 0 || strcasecmp(name, "Content-Length") == 0 || strcasecmp(name, "Location") == 0;
}

static PHP_FUNCTION(sluice_header)
{
    char *name, *value;
    size_t name_length, value_length;
    ZEND_PARSE_PARAMETERS_START(2, 2)
        Z_PARAM_STRING(name, name_length)
        Z_PARAM_STRING(value, value_length)
    ZEND_PARSE_PARAMETERS_END();
    if (name_length == 0 || has_control(name, name_length) || strpbrk(name, ": \t")) {
        zend_argument_value_error(1, "must be the name of a header field");
        RETURN_THROWS();
    }
    if (has_control(value, value_length)) {
        zend_argument_value_error(2, "must not contain CR, LF or other control characters");
        RETURN_THROWS();
    }
    char *line;
    size_t length = (size_t)spprintf(&line, 0, "%s: %s", name, value);
    int status = SG(sapi_headers).http_response_code;
    set_header(line, length, is_single(name));
    if (strcasecmp(name, "Location") == 0 && status != 200) SG(sapi_headers).http_response_code = status; /* PHP makes 302 of some */
    efree(line);
}

static PHP_FUNCTION(sluice_respond)
{
    char *type = NULL;
    size_t length;
    ZEND_PARSE_PARAMETERS_START(0, 1)
        Z_PARAM_OPTIONAL
        Z_PARAM_STRING_OR_NULL(type, length)
    ZEND_PARSE_PARAMETERS_END();
    if (SG(headers_sent)) RETURN_FALSE;
    if (type && has_control(type, length)) {
        zend_argument_value_error(1, "must not contain CR, LF or other control characters");
        RETURN_THROWS();
    }
    if (type) {
        char *line;
        size_t line_length = (size_t)spprintf(&line, 0, "Content-Type: %s", type);
        set_header(line, line_length, true);
        efree(line);
    }
    RETURN_BOOL(sapi_send_headers() == SUCCESS);
}

static PHP_FUNCTION(sluice_redirect)
{
    char *url;
    size_t length;
    zend_long code = 302;
    ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_STRING(url, length)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(code)
    ZEND_PARSE_PARAMETERS_END();
    if (length == 0 || has_control(url, length)) {
        zend_argument_value_error(1, "must be a URL without control characters");
        RETURN_THROWS();
    }
    if (code < 300 || code > 399) {
        zend_argument_value_error(2, "must be a status from 300 to 399");
        RETURN_THROWS();
    }
    char *line;
    size_t line_length = (size_t)spprintf(&line, 0, "Location: %s", url);
    set_header(line, line_length, true);
    efree(line);
    sapi_header_op(SAPI_HEADER_SET_STATUS, (void *)(zend_intptr_t)code);
}

static PHP_FUNCTION(sluice_write)
{
    char *data;
    size_t length;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STRING(data, length)
    ZEND_PARSE_PARAMETERS_END();
    PHPWRITE(data, length);
}

static void flush_all(void)
{
    php_output_flush_all();
    sapi_flush();
}

static PHP_FUNCTION(sluice_flush)
{
    ZEND_PARSE_PARAMETERS_NONE();
    flush_all();
}

/* Appends "name: line" for each line of the text. */
static void append_lines(smart_str *event, const char *name, const char *text, size_t length)
{
    const char *end = text + length;
    for (;;) {
        size_t part = 0;
        while (text + part < end && text[part] != '\n' && text[part] != '\r') part++;
        smart_str_appends(event, name);
        smart_str_appends(event, ": ");
        smart_str_appendl(event, text, part);
        smart_str_appendc(event, '\n');
        text += part;
        if (text >= end) return;
        text += text[0] == '\r' && text + 1 < end && text[1] == '\n' ? 2 : 1;
    }
}

static PHP_FUNCTION(sluice_event)
{
    static const char type[] = "Content-Type: text/event-stream";
    char *data, *name = NULL, *id = NULL;
    size_t length, name_length = 0, id_length = 0;
    smart_str event = {0};
    ZEND_PARSE_PARAMETERS_START(1, 3)
        Z_PARAM_STRING(data, length)
        Z_PARAM_OPTIONAL
        Z_PARAM_STRING_OR_NULL(name, name_length)
        Z_PARAM_STRING_OR_NULL(id, id_length)
    ZEND_PARSE_PARAMETERS_END();
    if ((name && has_control(name, name_length)) || (id && has_control(id, id_length))) {
        zend_value_error("sluice_event(): the name and the id of an event are one line each");
        RETURN_THROWS();
    }
    if (!SG(headers_sent)) {
        set_header(type, sizeof type - 1, true);
        set_header("Cache-Control: no-cache", sizeof "Cache-Control: no-cache" - 1, true);
    }
    if (name) append_lines(&event, "event", name, name_length);
    if (id) append_lines(&event, "id", id, id_length);
    append_lines(&event, "data", data, length);
    smart_str_appendc(&event, '\n');
    smart_str_0(&event);
    PHPWRITE(ZSTR_VAL(event.s), ZSTR_LEN(event.s));
    smart_str_free(&event);
    flush_all();
    RETURN_BOOL((PG(connection_status) & PHP_CONNECTION_ABORTED) == 0);
}

static const char *reason_of(zend_long status)
{
    static const struct {
        int status;
        const char *text;
    } reasons[] = {
        {400, "Bad Request"}, {401, "Unauthorized"}, {403, "Forbidden"}, {404, "Not Found"}, {405, "Method Not Allowed"},
        {406, "Not Acceptable"}, {408, "Request Timeout"}, {409, "Conflict"}, {410, "Gone"}, {411, "Length Required"},
        {412, "Precondition Failed"}, {413, "Content Too Large"}, {414, "URI Too Long"}, {415, "Unsupported Media Type"},
        {416, "Range Not Satisfiable"}, {422, "Unprocessable Content"}, {428, "Precondition Required"}, {429, "Too Many Requests"},
        {500, "Internal Server Error"}, {501, "Not Implemented"}, {502, "Bad Gateway"}, {503, "Service Unavailable"},
        {504, "Gateway Timeout"}, {507, "Insufficient Storage"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].status == status) return reasons[i].text;
    return "Error";
}

static PHP_FUNCTION(sluice_fail)
{
    static const char type[] = "Content-Type: text/plain; charset=utf-8";
    zend_long code;
    char *text = NULL;
    size_t length = 0;
    ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_LONG(code)
        Z_PARAM_OPTIONAL
        Z_PARAM_STRING_OR_NULL(text, length)
    ZEND_PARSE_PARAMETERS_END();
    if (code < 400 || code > 599) {
        zend_argument_value_error(1, "must be a status from 400 to 599");
        RETURN_THROWS();
    }
    if (SG(headers_sent)) {
        zend_throw_exception(spl_ce_RuntimeException, "the head of the response has been sent", (zend_long)code);
        RETURN_THROWS();
    }
    php_output_discard_all();
    sapi_header_op(SAPI_HEADER_DELETE_ALL, NULL);
    set_status(code);
    set_header(type, sizeof type - 1, true);
    php_printf("%d %s\n", (int)code, reason_of(code));
    if (!text || length == 0) return;
    PHPWRITE(text, length);
    PHPWRITE("\n", 1);
}

/* ---- Callouts ---- */

/* Makes a callout "keyword text"; -1 with an exception. */
static int callout(const char *keyword, const char *text, size_t length, char *answer, size_t size)
{
    char line[CALLOUT_BYTES_MAX + 1];
    int whole = snprintf(line, sizeof line, "%s%s", keyword, text);
    if (has_control(text, length) || strlen(text) != length || whole <= 0 || (size_t)whole >= sizeof line) {
        zend_argument_value_error(1, "must be one line of at most %d bytes", CALLOUT_BYTES_MAX);
        return -1;
    }
    int code = output_ask(line, answer, size);
    if (code < 0) zend_throw_exception(spl_ce_RuntimeException, "the server does not answer callouts now", 0);
    return code;
}

/* Whether a callout names parts of the output region, which hold the bytes of this reply only where the engine has put them. */
static bool is_of_region(const char *line)
{
    line += strspn(line, "!# \t");
    return strncasecmp(line, "BUFFER-REGION", strlen("BUFFER-REGION")) == 0 || strncasecmp(line, "BUFFER-FREE", strlen("BUFFER-FREE")) == 0;
}

static PHP_FUNCTION(sluice_callout)
{
    char *text, answer[CALLOUT_BYTES_MAX + 1];
    size_t length;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STRING(text, length)
    ZEND_PARSE_PARAMETERS_END();
    if (is_of_region(text)) {
        zend_argument_value_error(1, "must not be BUFFER-REGION or BUFFER-FREE, by which the engine sends the reply");
        RETURN_THROWS();
    }
    int code = callout("", text, length, answer, sizeof answer);
    if (code < 0) RETURN_THROWS();
    array_init(return_value);
    add_next_index_long(return_value, code);
    add_next_index_string(return_value, answer);
}

/* The functions that are one callout: the text of the answer, or null if its code is not 200. */
static void one_callout(INTERNAL_FUNCTION_PARAMETERS, const char *keyword)
{
    char *text, answer[CALLOUT_BYTES_MAX + 1];
    size_t length;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STRING(text, length)
    ZEND_PARSE_PARAMETERS_END();
    int code = callout(keyword, text, length, answer, sizeof answer);
    if (code < 0) RETURN_THROWS();
    if (code == 200) RETURN_STRING(answer);
}

static PHP_FUNCTION(sluice_notice)
{
    one_callout(INTERNAL_FUNCTION_PARAM_PASSTHRU, "NOTICED: ");
}

static PHP_FUNCTION(sluice_watch)
{
    char *text, line[CALLOUT_BYTES_MAX + 1], answer[CALLOUT_BYTES_MAX + 1];
    size_t length;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STRING(text, length)
    ZEND_PARSE_PARAMETERS_END();
    if (!any_variable("WATCH_SCRIPT", strlen("WATCH_SCRIPT"))) return;
    if (length > 1000) length = 1000;
    for (size_t i = 0; i < length; i++) line[i] = (unsigned char)text[i] < ' ' || text[i] == 0x7f ? ' ' : text[i];
    line[length] = '\0';
    callout("WATCH: ", line, length, answer, sizeof answer);
}

static PHP_FUNCTION(sluice_map_path)
{
    one_callout(INTERNAL_FUNCTION_PARAM_PASSTHRU, "MAP-PATH: ");
}

static PHP_FUNCTION(sluice_map_file)
{
    one_callout(INTERNAL_FUNCTION_PARAM_PASSTHRU, "MAP-FILE: ");
}

static PHP_FUNCTION(sluice_lifetime)
{
    one_callout(INTERNAL_FUNCTION_PARAM_PASSTHRU, "LIFETIME: ");
}

/* ---- Coding ---- */

static PHP_FUNCTION(sluice_escape_html)
{
    zend_string *text;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STR(text)
    ZEND_PARSE_PARAMETERS_END();
    smart_str escaped = {0};
    for (size_t i = 0; i < ZSTR_LEN(text); i++) {
        char c = ZSTR_VAL(text)[i];
        if (c == '&') smart_str_appends(&escaped, "&amp;");
        else if (c == '<') smart_str_appends(&escaped, "&lt;");
        else if (c == '>') smart_str_appends(&escaped, "&gt;");
        else if (c == '"') smart_str_appends(&escaped, "&quot;");
        else if (c == '\'') smart_str_appends(&escaped, "&#39;");
        else smart_str_appendc(&escaped, c);
    }
    smart_str_0(&escaped);
    if (escaped.s) RETURN_STR(escaped.s);
    RETURN_EMPTY_STRING();
}

static PHP_FUNCTION(sluice_url_encode)
{
    zend_string *text;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STR(text)
    ZEND_PARSE_PARAMETERS_END();
    RETURN_STR(php_raw_url_encode(ZSTR_VAL(text), ZSTR_LEN(text)));
}

static PHP_FUNCTION(sluice_url_decode)
{
    zend_string *text;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STR(text)
    ZEND_PARSE_PARAMETERS_END();
    zend_string *decoded = zend_string_init(ZSTR_VAL(text), ZSTR_LEN(text), 0);
    ZSTR_LEN(decoded) = php_url_decode(ZSTR_VAL(decoded), ZSTR_LEN(decoded));
    RETURN_STR(decoded);
}

/* ---- The table ---- */

#define RETURNS(name, type, may_be_null, required) ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_##name, 0, required, type, may_be_null)
#define TAKES(name, type) ZEND_ARG_TYPE_INFO(0, name, type, 0)
#define TAKES_OPTIONAL(name, type, text) ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, name, type, 0, text)
#define TAKES_OR_NULL(name, type) ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, name, type, 1, "null")
#define END ZEND_END_ARG_INFO()

RETURNS(to_bool, _IS_BOOL, 0, 0) END
RETURNS(to_int, IS_LONG, 0, 0) END
RETURNS(to_array, IS_ARRAY, 0, 0) END
RETURNS(to_void, IS_VOID, 0, 0) END
RETURNS(variable, IS_MIXED, 0, 1) TAKES(name, IS_STRING) TAKES_OPTIONAL(default, IS_MIXED, "null") END
RETURNS(body_read, IS_STRING, 0, 0) TAKES_OPTIONAL(bytes, IS_LONG, "65536") END
RETURNS(list, IS_ARRAY, 0, 1) TAKES(name, IS_STRING) END
RETURNS(upload, IS_ARRAY, 1, 1) TAKES(name, IS_STRING) END
RETURNS(upload_limit, IS_VOID, 0, 1) TAKES(bytes, IS_LONG) END
RETURNS(status, IS_VOID, 0, 1) TAKES(code, IS_LONG) END
RETURNS(header, IS_VOID, 0, 2) TAKES(name, IS_STRING) TAKES(value, IS_STRING) END
RETURNS(respond, _IS_BOOL, 0, 0) TAKES_OR_NULL(type, IS_STRING) END
RETURNS(redirect, IS_VOID, 0, 1) TAKES(url, IS_STRING) TAKES_OPTIONAL(code, IS_LONG, "302") END
RETURNS(write, IS_VOID, 0, 1) TAKES(data, IS_STRING) END
RETURNS(event, _IS_BOOL, 0, 1) TAKES(data, IS_STRING) TAKES_OR_NULL(name, IS_STRING) TAKES_OR_NULL(id, IS_STRING) END
RETURNS(fail, IS_VOID, 0, 1) TAKES(status, IS_LONG) TAKES_OR_NULL(text, IS_STRING) END
RETURNS(callout, IS_ARRAY, 0, 1) TAKES(request, IS_STRING) END
RETURNS(one_callout, IS_STRING, 1, 1) TAKES(text, IS_STRING) END
RETURNS(watch, IS_VOID, 0, 1) TAKES(text, IS_STRING) END
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_MASK_EX(arginfo_buffer_begin, 0, 0, MAY_BE_LONG | MAY_BE_FALSE) TAKES_OPTIONAL(bytes, IS_LONG, "0") END
RETURNS(buffer_write, _IS_BOOL, 0, 1) TAKES(data, IS_STRING) END
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_MASK_EX(arginfo_buffer_end, 0, 0, MAY_BE_LONG | MAY_BE_FALSE) END
RETURNS(text, IS_STRING, 0, 1) TAKES(text, IS_STRING) END
RETURNS(handle_request, _IS_BOOL, 0, 1) TAKES(handler, IS_CALLABLE) END

const zend_function_entry sluice_functions[] = {
    PHP_FE(sluice_accept, arginfo_to_bool)
    PHP_FE(sluice_finish, arginfo_to_bool)
    PHP_FE(sluice_is_persistent, arginfo_to_bool)
    PHP_FE(sluice_uses, arginfo_to_int)
    PHP_FE(sluice_variable, arginfo_variable)
    PHP_FE(sluice_variables, arginfo_to_array)
    PHP_FE(sluice_body_read, arginfo_body_read)
    PHP_FE(sluice_parameter, arginfo_variable)
    PHP_FE(sluice_parameters, arginfo_list)
    PHP_FE(sluice_parameter_names, arginfo_to_array)
    PHP_FE(sluice_upload, arginfo_upload)
    PHP_FE(sluice_uploads, arginfo_list)
    PHP_FE(sluice_upload_limit, arginfo_upload_limit)
    PHP_FE(sluice_status, arginfo_status)
    PHP_FE(sluice_header, arginfo_header)
    PHP_FE(sluice_respond, arginfo_respond)
    PHP_FE(sluice_redirect, arginfo_redirect)
    PHP_FE(sluice_write, arginfo_write)
    PHP_FE(sluice_flush, arginfo_to_void)
    PHP_FE(sluice_event, arginfo_event)
    PHP_FE(sluice_fail, arginfo_fail)
    PHP_FE(sluice_callout, arginfo_callout)
    PHP_FE(sluice_notice, arginfo_one_callout)
    PHP_FE(sluice_watch, arginfo_watch)
    PHP_FE(sluice_map_path, arginfo_one_callout)
    PHP_FE(sluice_map_file, arginfo_one_callout)
    PHP_FE(sluice_lifetime, arginfo_one_callout)
    PHP_FE(sluice_buffer_begin, arginfo_buffer_begin)
    PHP_FE(sluice_buffer_write, arginfo_buffer_write)
    PHP_FE(sluice_buffer_end, arginfo_buffer_end)
    PHP_FE(sluice_escape_html, arginfo_text)
    PHP_FE(sluice_url_encode, arginfo_text)
    PHP_FE(sluice_url_decode, arginfo_text)
    PHP_FE(sluice_handle_request, arginfo_handle_request)
    PHP_FE_END
};
