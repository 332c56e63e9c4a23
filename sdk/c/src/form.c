/* form.c: the fields of the query and of a form in the body, and uploads.

   Read once for each request, when the script asks for the first field. All of it is bounded: FIELDS_MAX fields, TEXT_BYTES_MAX bytes of
   names and values, and sluice_upload_limit() bytes of files. Not here: the parts of a multipart body (multipart.c). */
#include "internal.h"
#include "multipart.h"
#include "sluice.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* Fields and files of one request. */
#define FIELDS_MAX 1000
/* Bytes of all names and values; and of a urlencoded body before it is decoded. */
#define TEXT_BYTES_MAX ((size_t)8 << 20)
#define UPLOAD_BYTES_DEFAULT ((uint64_t)1 << 30)

/* Offsets in `text`, which may move while it grows. */
struct field {
    size_t name, value, name_bytes, value_bytes;
};

struct file {
    struct sluice_upload shown; /* its texts are set when the form is complete */
    size_t name, file_name, type;
    char path[48];
};

static struct {
    int is_read;
    int error; /* errno of reading */
    struct sluice_bytes text;
    struct field *fields;
    struct file *files;
    size_t field_count, file_count;
    size_t fields_max, files_max; /* allocated */
    uint64_t upload_bytes;
    int is_in_file, is_skipped; /* the current part */
} form;

static uint64_t upload_bytes_max = UPLOAD_BYTES_DEFAULT;

/* A body that the script has read itself; NULL: the body of the request. */
static struct {
    const char *at;
    size_t left;
} given;

static int fail(int error)
{
    errno = error;
    return -1;
}

/* ---- Storing ---- */

/* Makes room for one more element. */
static int grow(void **elements, size_t count, size_t *allocated, size_t size)
{
    if (form.field_count + form.file_count >= FIELDS_MAX) return fail(EFBIG);
    if (count < *allocated) return 0;
    size_t wanted = *allocated ? *allocated * 2 : 16;
    void *more = realloc(*elements, wanted * size);
    if (!more) return -1;
    *elements = more;
    *allocated = wanted;
    return 0;
}

static int add_text(const void *bytes, size_t count)
{
    if (count > TEXT_BYTES_MAX - form.text.length) return fail(EFBIG);
    return sluice_bytes_add(&form.text, bytes, count);
}

/* Appends a text with its NUL; `*at` is its offset. */
static int add_string(const char *text, size_t *at)
{
    *at = form.text.length;
    return add_text(text, strlen(text) + 1);
}

/* A field whose name is in place. Its value begins at the end of the text. */
static int open_field(size_t name, size_t name_bytes)
{
    if (grow((void **)&form.fields, form.field_count, &form.fields_max, sizeof *form.fields)) return -1;
    form.fields[form.field_count++] = (struct field){.name = name, .name_bytes = name_bytes, .value = form.text.length};
    return 0;
}

static int close_field(void)
{
    struct field *field = &form.fields[form.field_count - 1];
    field->value_bytes = form.text.length - field->value;
    return add_text("", 1);
}

/* ---- application/x-www-form-urlencoded ---- */

/* Appends a decoded text with its NUL. Returns its length, or -1: errno. */
static ssize_t add_decoded(const char *from, size_t count)
{
    size_t at = form.text.length;
    if (add_text(from, count)) return -1;
    form.text.length = at + sluice_coding_decode(form.text.at + at, count);
    size_t length = form.text.length - at;
    return add_text("", 1) ? -1 : (ssize_t)length;
}

static int add_pair(const char *from, size_t count)
{
    const char *equals = memchr(from, '=', count);
    size_t name_bytes = equals ? (size_t)(equals - from) : count, name = form.text.length;
    ssize_t decoded = add_decoded(from, name_bytes);
    if (decoded < 0 || open_field(name, (size_t)decoded)) return -1;
    decoded = equals ? add_decoded(equals + 1, count - name_bytes - 1) : add_decoded("", 0);
    if (decoded < 0) return -1;
    form.fields[form.field_count - 1].value_bytes = (size_t)decoded;
    return 0;
}

static int add_pairs(const char *from, size_t count)
{
    for (const char *end = from + count; from < end;) {
        const char *ampersand = memchr(from, '&', (size_t)(end - from));
        size_t length = (size_t)((ampersand ? ampersand : end) - from);
        if (length && add_pair(from, length)) return -1;
        from += length + 1;
    }
    return 0;
}

/* As read(2), from the body. */
static ssize_t read_body(void *context, void *into, size_t size)
{
    (void)context;
    if (!given.at) return sluice_body_read(into, size);
    if (size > given.left) size = given.left;
    memcpy(into, given.at, size);
    given.at += size;
    given.left -= size;
    return (ssize_t)size;
}

/* The length that the server announced; 0 if there is none. */
static unsigned long long announced(void)
{
    if (given.at) return 0;
    const char *length = sluice_variable("CONTENT_LENGTH");
    return length ? strtoull(length, NULL, 10) : 0;
}

static int read_urlencoded(void)
{
    struct sluice_bytes body = {0};
    ssize_t got = 0;
    int status = announced() > TEXT_BYTES_MAX ? fail(EFBIG) : 0;
    while (status == 0) {
        status = sluice_bytes_room(&body, 16384);
        if (status == 0) got = read_body(NULL, body.at + body.length, body.capacity - body.length);
        if (status || got <= 0) break;
        body.length += (size_t)got;
        if (body.length > TEXT_BYTES_MAX) status = fail(EFBIG);
    }
    if (got < 0) status = -1;
    if (status == 0 && body.length < announced()) status = fail(EBADMSG); /* the client has left */
    if (status == 0) status = add_pairs(body.at, body.length);
    int error = errno;
    free(body.at);
    errno = error;
    return status;
}

/* ---- multipart/form-data ---- */

static int begin_file(const struct multipart_part *part)
{
    struct file file = {.shown = {.descriptor = -1}};
    if (grow((void **)&form.files, form.file_count, &form.files_max, sizeof *form.files)) return -1;
    if (add_string(part->name, &file.name) || add_string(part->file_name, &file.file_name) || add_string(part->type, &file.type)) return -1;
    file.shown.descriptor = sluice_upload_create();
    if (file.shown.descriptor < 0) return -1;
    form.files[form.file_count++] = file;
    return 0;
}

static int begin_part(void *context, const struct multipart_part *part)
{
    (void)context;
    form.is_in_file = part->file_name != NULL;
    /* A browser sends an empty part for a file input without a file. */
    form.is_skipped = form.is_in_file && !*part->file_name;
    if (form.is_skipped) return 0;
    if (form.is_in_file) return begin_file(part);
    size_t name;
    return add_string(part->name, &name) ? -1 : open_field(name, strlen(part->name));
}

static int add_data(void *context, const void *bytes, size_t count)
{
    (void)context;
    if (!form.is_in_file) return add_text(bytes, count);
    if (count > upload_bytes_max - form.upload_bytes) return fail(EFBIG);
    form.upload_bytes += count;
    if (form.is_skipped) return 0;
    struct sluice_upload *upload = &form.files[form.file_count - 1].shown;
    upload->bytes += count;
    return sluice_upload_write(upload->descriptor, bytes, count);
}

static int end_part(void *context)
{
    (void)context;
    if (!form.is_in_file) return close_field();
    if (form.is_skipped) return 0;
    return lseek(form.files[form.file_count - 1].shown.descriptor, 0, SEEK_SET) < 0 ? -1 : 0;
}

static int read_multipart(const char *type)
{
    static const struct multipart_source source = {.read = read_body};
    static const struct multipart_sink sink = {.begin = begin_part, .data = add_data, .end = end_part};
    static char boundary[8192];
    int found = sluice_multipart_parameter(type, "boundary", boundary);
    if (found <= 0) return fail(EBADMSG);
    return sluice_multipart_read(&source, boundary, &sink);
}

/* ---- Reading ---- */

/* Whether a media type is `wanted`; parameters may follow. */
static int is_type(const char *type, const char *wanted)
{
    size_t length = strlen(wanted);
    return strncasecmp(type, wanted, length) == 0 && strchr("; \t", type[length]);
}

static void drop(void)
{
    for (size_t i = 0; i < form.file_count; i++) close(form.files[i].shown.descriptor);
    form.field_count = form.file_count = 0;
    form.upload_bytes = 0;
    sluice_bytes_clear(&form.text);
}

void sluice_form_start(void)
{
    drop();
    form.is_read = form.error = 0;
}

static int read_form(void)
{
    const char *query = sluice_variable("QUERY_STRING"), *type = sluice_variable("CONTENT_TYPE");
    if (query && add_pairs(query, strlen(query))) return -1;
    if (!type) return 0;
    int is_urlencoded = is_type(type, "application/x-www-form-urlencoded");
    if (!is_urlencoded && !is_type(type, "multipart/form-data")) return 0;
    if (!given.at && sluice_request_body_is_touched()) return fail(EALREADY);
    return is_urlencoded ? read_urlencoded() : read_multipart(type);
}

/* The texts no longer move. */
static void show_files(void)
{
    for (size_t i = 0; i < form.file_count; i++) {
        struct file *file = &form.files[i];
        file->shown.name = form.text.at + file->name;
        file->shown.file_name = form.text.at + file->file_name;
        file->shown.type = form.text.at + file->type;
        /* Not /proc/self, so that programs that the script starts can open it, too. */
        snprintf(file->path, sizeof file->path, "/proc/%ld/fd/%d", (long)getpid(), file->shown.descriptor);
        file->shown.path = file->path;
    }
}

/* Reads the form if it was not read yet. 0, or -1: errno. */
static int require_form(void)
{
    if (!form.is_read) {
        form.is_read = 1;
        form.error = read_form() ? errno : 0;
        if (form.error) drop();
        show_files();
    }
    errno = form.error;
    return form.error ? -1 : 0;
}

int sluice_form_read_from(const char *body, size_t length)
{
    sluice_form_start();
    given.at = body;
    given.left = length;
    int status = require_form();
    given.at = NULL;
    return status;
}

/* ---- For scripts ---- */

int sluice_upload_limit(uint64_t bytes)
{
    if (form.is_read) return fail(EALREADY);
    upload_bytes_max = bytes;
    return 0;
}

ssize_t sluice_parameter_count(void)
{
    return require_form() ? -1 : (ssize_t)form.field_count;
}

const char *sluice_parameter_at(size_t index, const char **name, size_t *length)
{
    if (require_form() || index >= form.field_count) return NULL;
    const struct field *field = &form.fields[index];
    if (name) *name = form.text.at + field->name;
    if (length) *length = field->value_bytes;
    return form.text.at + field->value;
}

const char *sluice_parameters(const char *name, size_t index)
{
    if (require_form()) return NULL;
    size_t length = strlen(name);
    for (size_t i = 0; i < form.field_count; i++) {
        const struct field *field = &form.fields[i];
        /* By length: a name with a NUL in it is another one. */
        if (field->name_bytes == length && memcmp(form.text.at + field->name, name, length) == 0 && index-- == 0) return form.text.at + field->value;
    }
    return NULL;
}

const char *sluice_parameter(const char *name)
{
    return sluice_parameters(name, 0);
}

const struct sluice_upload *sluice_uploads(const char *name, size_t index)
{
    if (require_form()) return NULL;
    for (size_t i = 0; i < form.file_count; i++)
        if ((!name || strcmp(form.files[i].shown.name, name) == 0) && index-- == 0) return &form.files[i].shown;
    return NULL;
}

const struct sluice_upload *sluice_upload(const char *name)
{
    return sluice_uploads(name, 0);
}
