/* stdin.c: the stream php://stdin is the request body, as under php-cgi; elsewhere it would be descriptor 0, which is /dev/null here.

   Here: PHP's wrapper for php:// with another function to open it. Not here: php://input, which PHP has. */
#include "engine.h"

#include "ext/standard/php_fopen_wrappers.h"
#include "php_streams.h"

#include <strings.h>

static php_stream_wrapper wrapper;
static php_stream_wrapper_ops operations;

static php_stream *open_stream(php_stream_wrapper *own, const char *path, const char *mode, int options, zend_string **opened_path,
                               php_stream_context *context STREAMS_DC)
{
    if (strcasecmp(path, "php://stdin") == 0) path = "php://input";
    return php_stream_php_wrapper.wops->stream_opener(own, path, mode, options, opened_path, context STREAMS_REL_CC);
}

void stdin_open(void)
{
    wrapper = php_stream_php_wrapper;
    operations = *wrapper.wops;
    operations.stream_opener = open_stream;
    wrapper.wops = &operations;
    if (php_unregister_url_stream_wrapper("php") == SUCCESS) php_register_url_stream_wrapper("php", &wrapper);
}
