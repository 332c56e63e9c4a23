/* mod_sluicebench: cgiplustest and membufdemo as two handlers in Apache 2.4, with the same query, header fields and bytes as
   the programs (sdk/c/programs), from the same source (content.h). The peer of CGIplus and of the memory buffer.

       LoadModule sluicebench_module …/bench/build/mod_sluicebench.so
       <Location "/membufdemo">        SetHandler membufdemo        also cgiplustest

   membufdemo sends in one of two ways, chosen by the second keyword as in the program. m: one ap_rwrite() for each record, where
   the program has one write(); the same source with Apache's function instead of the system's. b: blocks of the most efficient
   size, independent of the record, generated in place and passed as transient buckets: the fastest method found. Constant text
   is an immortal bucket. Apache writes 64 KiB and more to the socket before ap_pass_brigade() returns, so the block may be
   reused then; smaller amounts it copies.

   Measured for 1000 MiB, as the ratio to b: ap_rwrite() of each record of 8 KiB 0.27; ap_rwrite() of a block of the same size 1.0;
   transient buckets of 64 KiB 0.65, of 128 and 256 KiB 0.7 to 0.85, of 512 KiB 0.95, of 1 MiB 1.0, of 2 MiB 0.83; immortal
   buckets 1.0 of the same size; heap buckets of 128 KiB 0.75. For the text, ap_rwrite() instead of buckets: 1.0. */
#include <limits.h>

#include <httpd.h>
#include <http_config.h>
#include <http_protocol.h>

#include <apr_atomic.h>
#include <apr_strings.h>

#include "order.h"

/* The size of a block in way b. */
#define BLOCK_BYTES (768 * 1024)

static char text[TEXT_BYTES];
static apr_uint32_t uses; /* requests of this process, in all its threads */

/* Passes the brigade on, and empties it. Returns OK, or the error of a handler whose client has left. */
static int pass(request_rec *r, apr_bucket_brigade *brigade)
{
    apr_status_t status = ap_pass_brigade(r->output_filters, brigade);
    apr_brigade_cleanup(brigade);
    return status == APR_SUCCESS && !r->connection->aborted ? OK : AP_FILTER_ERROR;
}

static int send_text(request_rec *r, uint64_t bytes)
{
    apr_bucket_alloc_t *buckets = r->connection->bucket_alloc;
    apr_bucket_brigade *brigade = apr_brigade_create(r->pool, buckets);
    while (bytes > TEXT_BYTES) {
        APR_BRIGADE_INSERT_TAIL(brigade, apr_bucket_immortal_create(text, TEXT_BYTES, buckets));
        if (pass(r, brigade) != OK) return AP_FILTER_ERROR;
        bytes -= TEXT_BYTES;
    }
    if (bytes > 0) APR_BRIGADE_INSERT_TAIL(brigade, apr_bucket_immortal_create(text, (apr_size_t)bytes, buckets));
    APR_BRIGADE_INSERT_TAIL(brigade, apr_bucket_eos_create(buckets));
    return pass(r, brigade);
}

static int send_records(request_rec *r, uint64_t bytes, struct pattern *pattern)
{
    char *record = apr_palloc(r->pool, (apr_size_t)pattern->record);
    while (bytes > 0) {
        apr_size_t length = bytes < pattern->record ? (apr_size_t)bytes : (apr_size_t)pattern->record;
        fill(pattern, record, length);
        if (length > INT_MAX || ap_rwrite(record, (int)length, r) < 0) return AP_FILTER_ERROR;
        bytes -= length;
    }
    return OK;
}

static int send_blocks(request_rec *r, uint64_t bytes, struct pattern *pattern)
{
    apr_bucket_alloc_t *buckets = r->connection->bucket_alloc;
    apr_bucket_brigade *brigade = apr_brigade_create(r->pool, buckets);
    char *block = apr_palloc(r->pool, BLOCK_BYTES);
    while (bytes > 0) {
        apr_size_t length = bytes < BLOCK_BYTES ? (apr_size_t)bytes : BLOCK_BYTES;
        fill(pattern, block, length);
        APR_BRIGADE_INSERT_TAIL(brigade, apr_bucket_transient_create(block, length, buckets));
        bytes -= length;
        if (bytes == 0) APR_BRIGADE_INSERT_TAIL(brigade, apr_bucket_eos_create(buckets));
        if (pass(r, brigade) != OK) return AP_FILTER_ERROR;
    }
    return OK;
}

static int cgiplustest(request_rec *r)
{
    uint64_t bytes;
    if (order_text(r->args, &bytes)) return HTTP_BAD_REQUEST;
    ap_set_content_type(r, "text/plain");
    ap_set_content_length(r, (apr_off_t)bytes);
    apr_table_setn(r->headers_out, "X-usage", apr_psprintf(r->pool, "%u", apr_atomic_inc32(&uses) + 1));
    return r->header_only ? OK : send_text(r, bytes);
}

static int membufdemo(request_rec *r)
{
    uint64_t bytes;
    struct pattern pattern;
    char way[KEYWORD_BYTES];
    if (order_pattern(r->args, &bytes, &pattern)) return HTTP_BAD_REQUEST;
    order_keyword(r->args, 2, way);
    ap_set_content_type(r, "application/octet-stream");
    ap_set_content_length(r, (apr_off_t)bytes);
    apr_table_setn(r->headers_out, "X-mrs", apr_psprintf(r->pool, "%" APR_UINT64_T_FMT, (apr_uint64_t)pattern.record));
    apr_table_setn(r->headers_out, "X-mbuf", "NULL 0");
    if (r->header_only) return OK;
    return *way == 'b' ? send_blocks(r, bytes, &pattern) : send_records(r, bytes, &pattern);
}

static int handle(request_rec *r)
{
    int is_text = r->handler && strcmp(r->handler, "cgiplustest") == 0;
    if (!is_text && (!r->handler || strcmp(r->handler, "membufdemo") != 0)) return DECLINED;
    return is_text ? cgiplustest(r) : membufdemo(r);
}

static void register_hooks(apr_pool_t *pool)
{
    (void)pool;
    make_text(text);
    ap_hook_handler(handle, NULL, NULL, APR_HOOK_MIDDLE);
}

AP_DECLARE_MODULE(sluicebench) = {STANDARD20_MODULE_STUFF, .register_hooks = register_hooks};
