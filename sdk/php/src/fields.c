/* fields.c: sluice_parameter() and its relatives, sluice_upload(): the fields as the client named them, in their order.

   Here: the fields of the query, then those of the form. $_GET and $_POST have them, too, but with PHP's names (`a.b` becomes `a_b`) and only
   the last value of a name without `[]`. Not here: parsing of multipart forms, which PHP does before the script runs: upload_max_filesize,
   post_max_size and max_file_uploads bound it. */
#include "engine.h"

#include "ext/spl/spl_exceptions.h"
#include "ext/standard/url.h"
#include "php_streams.h"
#include "rfc1867.h"
#include "zend_exceptions.h"
#include "zend_smart_str.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FIELDS_MAX 1000
#define FORM_BYTES_MAX (8 << 20)
#define UPLOADS_BYTES (1LL << 30)
#define STATUS_TOO_LARGE 413
#define STATUS_MALFORMED 400
/* Of a boundary; RFC 2046 has 70. */
#define BOUNDARY_BYTES_MAX 200

static struct {
    bool is_made;
    zval fields;     /* name => list of values; UNDEF before the first use */
    zval multipart;  /* list of [name, value], as PHP has parsed them */
    zval uploads;    /* list of [name, filename, type, size, path] */
    uint32_t count;
    bool has_too_many, is_malformed;
    int upload_error;
    zend_long limit;
} form;

/* ---- What PHP parses: multipart forms ---- */

static int (*previous_callback)(unsigned int, void *, void **);

/* Browsers write %22 for a quote in a name (HTML, "multipart form data"). */
static void make_name(zval *value, const char *text)
{
    smart_str name = {0};
    for (const char *quote; (quote = strstr(text, "%22")); text = quote + 3) {
        smart_str_appendl(&name, text, (size_t)(quote - text));
        smart_str_appendc(&name, '"');
    }
    smart_str_appends(&name, text);
    ZVAL_STR(value, smart_str_extract(&name));
}

static void note_field(const multipart_event_formdata *field)
{
    zval pair, name;
    if (Z_ISUNDEF(form.multipart)) array_init(&form.multipart);
    array_init(&pair);
    make_name(&name, field->name);
    add_next_index_zval(&pair, &name);
    add_next_index_stringl(&pair, *field->value, field->newlength ? *field->newlength : field->length);
    add_next_index_zval(&form.multipart, &pair);
}

static void note_file(const multipart_event_file_start *file)
{
    zval upload, name, file_name;
    if (Z_ISUNDEF(form.uploads)) array_init(&form.uploads);
    array_init(&upload);
    make_name(&name, file->name);
    make_name(&file_name, file->filename && *file->filename ? *file->filename : "");
    add_assoc_zval(&upload, "name", &name);
    add_assoc_zval(&upload, "filename", &file_name);
    add_next_index_zval(&form.uploads, &upload);
}

/* The last upload of the list is complete, or refused. */
static void note_file_end(const multipart_event_file_end *end)
{
    if (Z_ISUNDEF(form.uploads)) return;
    HashTable *list = Z_ARRVAL(form.uploads);
    zval *upload = zend_hash_index_find(list, zend_hash_num_elements(list) - 1);
    struct stat file;
    if (!upload) return;
    if (end->cancel_upload || !end->temp_filename || stat(end->temp_filename, &file)) {
        if (end->cancel_upload && end->cancel_upload != 4 /* no file was chosen */) form.upload_error = end->cancel_upload;
        zend_hash_index_del(list, zend_hash_num_elements(list) - 1);
        return;
    }
    add_assoc_long(upload, "size", (zend_long)file.st_size);
    add_assoc_string(upload, "path", end->temp_filename);
}

static int note_event(unsigned int event, void *data, void **extra)
{
    int status = previous_callback ? previous_callback(event, data, extra) : SUCCESS;
    if (status != SUCCESS) return status;
    if (event == MULTIPART_EVENT_FORMDATA) note_field(data);
    else if (event == MULTIPART_EVENT_FILE_START) note_file(data);
    else if (event == MULTIPART_EVENT_FILE_END) note_file_end(data);
    return status;
}

/* PHP's parser says only by a warning that it has given up. */
static void note_warning(int type, const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (strstr(text, "oundary in multipart") || strstr(text, "headers garbled")) form.is_malformed = true;
    if (strstr(text, "parts limit exceeded")) form.has_too_many = true;
    zend_error(type, "%s", text);
}

void fields_open(void)
{
    sapi_module.sapi_error = note_warning;
    previous_callback = php_rfc1867_callback;
    php_rfc1867_callback = note_event;
}

void fields_begin(void)
{
    memset(&form, 0, sizeof form);
    form.limit = UPLOADS_BYTES;
}

void fields_end(void)
{
    zval_ptr_dtor(&form.fields);
    zval_ptr_dtor(&form.multipart);
    zval_ptr_dtor(&form.uploads);
    fields_begin();
}

/* ---- The fields ---- */

static void add_field(zend_string *name, zval *value)
{
    if (form.count == FIELDS_MAX) {
        form.has_too_many = true;
        zval_ptr_dtor(value);
        return;
    }
    form.count++;
    zval *values = zend_hash_find(Z_ARRVAL(form.fields), name);
    if (!values) {
        zval list;
        array_init(&list);
        values = zend_hash_add_new(Z_ARRVAL(form.fields), name, &list);
    }
    add_next_index_zval(values, value);
}

static zend_string *decoded(const char *from, size_t length)
{
    zend_string *text = zend_string_init(from, length, 0);
    ZSTR_LEN(text) = php_url_decode(ZSTR_VAL(text), length);
    return text;
}

static void add_encoded(const char *at, const char *end)
{
    while (at < end) {
        const char *next = memchr(at, '&', (size_t)(end - at));
        if (!next) next = end;
        const char *equals = memchr(at, '=', (size_t)(next - at));
        if (next > at) {
            zval value;
            zend_string *name = decoded(at, (size_t)((equals ? equals : next) - at));
            ZVAL_STR(&value, equals ? decoded(equals + 1, (size_t)(next - equals - 1)) : ZSTR_EMPTY_ALLOC());
            add_field(name, &value);
            zend_string_release(name);
        }
        at = next + 1;
    }
}

static void add_body(void)
{
    php_stream *input = php_stream_open_wrapper("php://input", "rb", 0, NULL);
    zend_string *body = input ? php_stream_copy_to_mem(input, FORM_BYTES_MAX + 1, 0) : NULL;
    if (body && ZSTR_LEN(body) > FORM_BYTES_MAX) form.has_too_many = true;
    else if (body) add_encoded(ZSTR_VAL(body), ZSTR_VAL(body) + ZSTR_LEN(body));
    if (body) zend_string_release(body);
    if (input) php_stream_close(input);
}

static void make_fields(void)
{
    static const char encoded[] = "application/x-www-form-urlencoded";
    zval *pair;
    if (form.is_made) return;
    form.is_made = true;
    array_init(&form.fields);
    const char *query = SG(request_info).query_string, *type = SG(request_info).content_type;
    if (query) add_encoded(query, query + strlen(query));
    if (type && strncasecmp(type, encoded, sizeof encoded - 1) == 0) add_body();
    if (Z_ISUNDEF(form.multipart)) return;
    ZEND_HASH_FOREACH_VAL(Z_ARRVAL(form.multipart), pair) {
        zval *value = zend_hash_index_find(Z_ARRVAL_P(pair), 1);
        Z_TRY_ADDREF_P(value);
        add_field(Z_STR_P(zend_hash_index_find(Z_ARRVAL_P(pair), 0)), value);
    } ZEND_HASH_FOREACH_END();
}

/* Whether PHP has parsed a multipart form, of which the last boundary is missing: it takes such a form for a whole one. */
static bool is_truncated(void)
{
    static const char multipart[] = "multipart/form-data";
    const char *type = SG(request_info).content_type, *method = SG(request_info).request_method;
    char end[BOUNDARY_BYTES_MAX + 5];
    if (!type || strncasecmp(type, multipart, sizeof multipart - 1) != 0 || !method || strcmp(method, "POST") != 0) return false;
    if (!PG(enable_post_data_reading)) return false;
    const char *boundary = strcasestr(type, "boundary=");
    if (!boundary) return true;
    boundary += strlen("boundary=");
    size_t length = *boundary == '"' ? strcspn(++boundary, "\"") : strcspn(boundary, ",; \t");
    if (length == 0 || length > BOUNDARY_BYTES_MAX) return true;
    int bytes = snprintf(end, sizeof end, "--%.*s--", (int)length, boundary);
    return !body_ends_with(end, (size_t)bytes);
}

/* False, with an exception: a bound is exceeded (its code is 413), or the form is malformed (400). */
static bool has_fields(void)
{
    make_fields();
    if (SG(post_max_size) > 0 && SG(request_info).content_length > SG(post_max_size))
        zend_throw_exception(spl_ce_RuntimeException, "the form is larger than post_max_size", STATUS_TOO_LARGE);
    else if (form.has_too_many)
        zend_throw_exception(spl_ce_RuntimeException, "more than 1000 fields, or more than 8 MiB of them", STATUS_TOO_LARGE);
    else if (form.is_malformed || is_truncated())
        zend_throw_exception(spl_ce_RuntimeException, "the form is malformed, or incomplete", STATUS_MALFORMED);
    else return true;
    return false;
}

PHP_FUNCTION(sluice_parameter)
{
    zend_string *name;
    zval *otherwise = NULL;
    ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_STR(name)
        Z_PARAM_OPTIONAL
        Z_PARAM_ZVAL(otherwise)
    ZEND_PARSE_PARAMETERS_END();
    if (!has_fields()) RETURN_THROWS();
    zval *values = zend_hash_find(Z_ARRVAL(form.fields), name);
    if (values) RETURN_COPY(zend_hash_index_find(Z_ARRVAL_P(values), 0));
    if (otherwise) RETURN_COPY(otherwise);
}

PHP_FUNCTION(sluice_parameters)
{
    zend_string *name;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STR(name)
    ZEND_PARSE_PARAMETERS_END();
    if (!has_fields()) RETURN_THROWS();
    zval *values = zend_hash_find(Z_ARRVAL(form.fields), name);
    if (values) RETURN_COPY(values);
    RETURN_EMPTY_ARRAY();
}

PHP_FUNCTION(sluice_parameter_names)
{
    zend_string *name;
    ZEND_PARSE_PARAMETERS_NONE();
    if (!has_fields()) RETURN_THROWS();
    array_init(return_value);
    ZEND_HASH_FOREACH_STR_KEY(Z_ARRVAL(form.fields), name) {
        add_next_index_str(return_value, zend_string_copy(name));
    } ZEND_HASH_FOREACH_END();
}

/* ---- Uploads ---- */

/* The media type of the file `path` somewhere in $_FILES, where PHP keeps it; NULL. */
static zval *type_of(HashTable *paths, HashTable *types, const zend_string *path)
{
    zend_ulong index;
    zend_string *key;
    zval *at;
    ZEND_HASH_FOREACH_KEY_VAL(paths, index, key, at) {
        zval *type = !types ? NULL : key ? zend_hash_find(types, key) : zend_hash_index_find(types, index);
        if (Z_TYPE_P(at) == IS_STRING && zend_string_equals(Z_STR_P(at), path)) return type;
        if (Z_TYPE_P(at) != IS_ARRAY) continue;
        zval *found = type_of(Z_ARRVAL_P(at), type && Z_TYPE_P(type) == IS_ARRAY ? Z_ARRVAL_P(type) : NULL, path);
        if (found) return found;
    } ZEND_HASH_FOREACH_END();
    return NULL;
}

static void add_type(zval *upload)
{
    zval *path = zend_hash_str_find(Z_ARRVAL_P(upload), ZEND_STRL("path")), *files = &PG(http_globals)[TRACK_VARS_FILES], *file;
    if (!path || Z_TYPE_P(files) != IS_ARRAY || zend_hash_str_exists(Z_ARRVAL_P(upload), ZEND_STRL("type"))) return;
    ZEND_HASH_FOREACH_VAL(Z_ARRVAL_P(files), file) {
        if (Z_TYPE_P(file) != IS_ARRAY) continue;
        zval *paths = zend_hash_str_find(Z_ARRVAL_P(file), ZEND_STRL("tmp_name"));
        zval *types = zend_hash_str_find(Z_ARRVAL_P(file), ZEND_STRL("type")), *type = NULL;
        if (!paths || !types) continue;
        if (Z_TYPE_P(paths) == IS_STRING) type = zend_string_equals(Z_STR_P(paths), Z_STR_P(path)) ? types : NULL;
        else if (Z_TYPE_P(types) == IS_ARRAY) type = type_of(Z_ARRVAL_P(paths), Z_ARRVAL_P(types), Z_STR_P(path));
        if (!type || Z_TYPE_P(type) != IS_STRING) continue;
        Z_ADDREF_P(type);
        add_assoc_zval(upload, "type", type);
        return;
    } ZEND_HASH_FOREACH_END();
    add_assoc_string(upload, "type", "application/octet-stream");
}

static bool is_within_limit(void)
{
    zend_long total = 0;
    zval *upload;
    if (form.upload_error) {
        zend_throw_exception(spl_ce_RuntimeException, "an upload is larger than upload_max_filesize, or incomplete", STATUS_TOO_LARGE);
        return false;
    }
    if (Z_ISUNDEF(form.uploads)) return true;
    ZEND_HASH_FOREACH_VAL(Z_ARRVAL(form.uploads), upload) {
        zval *size = zend_hash_str_find(Z_ARRVAL_P(upload), ZEND_STRL("size"));
        total += size ? Z_LVAL_P(size) : 0;
    } ZEND_HASH_FOREACH_END();
    if (total <= form.limit) return true;
    zend_throw_exception(spl_ce_RuntimeException, "the uploads are larger than sluice_upload_limit()", STATUS_TOO_LARGE);
    return false;
}

/* The uploads of this name as a list, or the first of them, or null. */
static void find_uploads(zval *return_value, const zend_string *name, bool only_first)
{
    zval *upload;
    if (!only_first) array_init(return_value);
    if (Z_ISUNDEF(form.uploads)) return;
    ZEND_HASH_FOREACH_VAL(Z_ARRVAL(form.uploads), upload) {
        if (!zend_string_equals(Z_STR_P(zend_hash_str_find(Z_ARRVAL_P(upload), ZEND_STRL("name"))), name)) continue;
        if (Z_REFCOUNT_P(upload) == 1) add_type(upload);
        Z_ADDREF_P(upload);
        if (only_first) {
            RETVAL_COPY_VALUE(upload);
            return;
        }
        add_next_index_zval(return_value, upload);
    } ZEND_HASH_FOREACH_END();
}

static void uploads_function(INTERNAL_FUNCTION_PARAMETERS, bool only_first)
{
    zend_string *name;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STR(name)
    ZEND_PARSE_PARAMETERS_END();
    if (!has_fields() || !is_within_limit()) RETURN_THROWS();
    find_uploads(return_value, name, only_first);
}

PHP_FUNCTION(sluice_upload)
{
    uploads_function(INTERNAL_FUNCTION_PARAM_PASSTHRU, true);
}

PHP_FUNCTION(sluice_uploads)
{
    uploads_function(INTERNAL_FUNCTION_PARAM_PASSTHRU, false);
}

PHP_FUNCTION(sluice_upload_limit)
{
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_LONG(form.limit)
    ZEND_PARSE_PARAMETERS_END();
}
