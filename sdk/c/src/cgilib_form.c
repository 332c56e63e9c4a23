/* cgilib_form.c: CGILIB's calls for forms, implemented with those of sluice.h: fields and files of the body as variables FORM_… */
#include "internal.h"
#include "sluice.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "../wasd/cgilib.h"

#define BODY_BYTES_MAX ((size_t)16 << 20)

/* The number of the request whose form is read. */
static unsigned long form_of;

int CgiLibReadRequestBody(char **body, int *length)
{
    static struct sluice_bytes bytes;
    ssize_t got = 0;
    sluice_bytes_clear(&bytes);
    while (sluice_bytes_room(&bytes, 16384) == 0 && (got = sluice_body_read(bytes.at + bytes.length, 16383)) > 0) {
        bytes.length += (size_t)got;
        if (bytes.length > BODY_BYTES_MAX) return -1;
    }
    if (got < 0 || !bytes.at) return -1;
    bytes.at[bytes.length] = '\0';
    if (body) *body = bytes.at;
    if (length) *length = (int)bytes.length;
    return (int)bytes.length;
}

int CgiLibFormRequestBody(char *body, int length)
{
    int failed = body ? length < 0 || sluice_form_read_from(body, (size_t)length) : sluice_parameter_count() < 0;
    if (failed) return -1;
    form_of = sluice_uses();
    size_t files = 0;
    while (sluice_uploads(NULL, files)) files++;
    return (int)sluice_parameter_count() + (int)files;
}

/* Whether `name`, as a script asks for it, is that of a field: in any case, with _ for all that is no letter or digit; `*rest` follows it. */
static int is_field(const char *name, const char *field, const char **rest)
{
    for (; *field; name++, field++) {
        unsigned char letter = (unsigned char)*field;
        if (toupper((unsigned char)*name) != (isalnum(letter) && letter < 128 ? toupper(letter) : '_')) return 0;
    }
    *rest = name;
    return 1;
}

/* The content of a file, with a NUL after it. */
static char *content_of(const struct sluice_upload *upload)
{
    if (upload->bytes > BODY_BYTES_MAX) return NULL;
    char *content = sluice_coding_allocate((size_t)upload->bytes + 1);
    if (!content) return NULL;
    ssize_t got = pread(upload->descriptor, content, (size_t)upload->bytes, 0);
    content[got < 0 ? 0 : got] = '\0';
    return content;
}

char *sluice_cgilib_field(const char *name)
{
    if (form_of == 0 || form_of != sluice_uses()) return NULL;
    if (strncasecmp(name, "WWW_", 4) == 0) name += 4;
    if (strncasecmp(name, "FORM_", 5) != 0) return NULL;
    name += 5;
    const char *field, *value, *rest;
    for (size_t i = 0; (value = sluice_parameter_at(i, &field, NULL)); i++)
        if (is_field(name, field, &rest) && !*rest) return (char *)value;
    const struct sluice_upload *upload;
    for (size_t i = 0; (upload = sluice_uploads(NULL, i)); i++) {
        if (!is_field(name, upload->name, &rest)) continue;
        if (!*rest) return content_of(upload);
        if (strcasecmp(rest, "_MIME_FILENAME") == 0) return (char *)upload->file_name;
        if (strcasecmp(rest, "_MIME_CONTENT_TYPE") == 0) return (char *)upload->type;
    }
    return NULL;
}
