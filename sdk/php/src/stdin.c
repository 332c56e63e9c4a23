/* stdin.c: names of streams that PHP would take for something else.

   Here: php://stdin is the request body, as under php-cgi (elsewhere it would be descriptor 0, which is /dev/null here); and the two descriptors
   that a script shares with the server can be opened by the names in CGIPLUSIN and CGIPLUSBUF, and as php://fd/3 and php://fd/4. PHP refuses
   php://fd to all but the command line, and cannot open /dev/fd/4, because it looks for the file that the symbolic link names.
   Not here: php://input, which PHP has. */
#include "engine.h"

#include "ext/standard/php_fopen_wrappers.h"
#include "php_streams.h"

#include <string.h>
#include <strings.h>

static php_stream_wrapper php_wrapper;
static php_stream_wrapper_ops php_operations, file_operations;
static const php_stream_wrapper_ops *php_files;

/* "php://fd/3" for /dev/fd/3 and its other names; NULL for any other path. */
static const char *descriptor_name(const char *path)
{
    static const char *const before[] = {"php://fd/", "/dev/fd/", "/proc/self/fd/"};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        size_t length = strlen(before[i]);
        if (strncmp(path, before[i], length) != 0) continue;
        if (strcmp(path + length, "3") == 0) return "php://fd/3";
        if (strcmp(path + length, "4") == 0) return "php://fd/4";
    }
    return NULL;
}

static php_stream *open_descriptor(const char *name, const char *mode, int options, zend_string **opened_path,
                                   php_stream_context *context STREAMS_DC)
{
    char *own_name = sapi_module.name;
    sapi_module.name = "cli"; /* the only one to which PHP gives descriptors */
    php_stream *stream = php_stream_php_wrapper.wops->stream_opener(&php_wrapper, name, mode, options, opened_path, context STREAMS_REL_CC);
    sapi_module.name = own_name;
    return stream;
}

static php_stream *open_php(php_stream_wrapper *own, const char *path, const char *mode, int options, zend_string **opened_path,
                            php_stream_context *context STREAMS_DC)
{
    const char *name = descriptor_name(path);
    if (name) return open_descriptor(name, mode, options, opened_path, context STREAMS_REL_CC);
    if (strcasecmp(path, "php://stdin") == 0) path = "php://input";
    return php_stream_php_wrapper.wops->stream_opener(own, path, mode, options, opened_path, context STREAMS_REL_CC);
}

static php_stream *open_file(php_stream_wrapper *own, const char *path, const char *mode, int options, zend_string **opened_path,
                             php_stream_context *context STREAMS_DC)
{
    const char *name = descriptor_name(path);
    if (name && !php_check_open_basedir_ex(path, 0)) return open_descriptor(name, mode, options, opened_path, context STREAMS_REL_CC);
    return php_files->stream_opener(own, path, mode, options, opened_path, context STREAMS_REL_CC);
}

void stdin_open(void)
{
    php_wrapper = php_stream_php_wrapper;
    php_operations = *php_wrapper.wops;
    php_operations.stream_opener = open_php;
    php_wrapper.wops = &php_operations;
    if (php_unregister_url_stream_wrapper("php") == SUCCESS) php_register_url_stream_wrapper("php", &php_wrapper);
    php_files = php_plain_files_wrapper.wops;
    file_operations = *php_files;
    file_operations.stream_opener = open_file;
    php_plain_files_wrapper.wops = &file_operations;
}
