/* multipart.h: the parser of multipart/form-data, for form.c and for its fuzz test. Not installed. */
#ifndef SLUICE_MULTIPART_H
#define SLUICE_MULTIPART_H

#include <stddef.h>
#include <sys/types.h>

/* Bytes in a boundary: RFC 2046 §5.1.1. */
#define MULTIPART_BOUNDARY_MAX 70

/* The head of a part. The texts are valid during `begin` only, and have no control characters but tabs. */
struct multipart_part {
    const char *name;
    const char *file_name; /* NULL: a field */
    const char *type;
};

/* Where the bytes come from: as read(2). */
struct multipart_source {
    void *context;
    ssize_t (*read)(void *context, void *into, size_t size);
};

/* Where the parts go. A function that returns -1 ends the parsing. */
struct multipart_sink {
    void *context;
    int (*begin)(void *context, const struct multipart_part *part);
    int (*data)(void *context, const void *bytes, size_t count);
    int (*end)(void *context);
};

/* Reads a body. 0; -1: errno, EBADMSG if it is malformed or incomplete, otherwise that of the source or the sink. */
int sluice_multipart_read(const struct multipart_source *source, const char *boundary, const struct multipart_sink *sink);

/* The parameter `wanted` of a field value, copied to `into`, which is at least as large as `value`. 1; 0 if there is none; -1: EBADMSG. */
int sluice_multipart_parameter(const char *value, const char *wanted, char *into);

#endif
