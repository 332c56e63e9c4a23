/* membuflib.c: MemBufLibBegin, MemBufLibWrite and MemBufLibEnd, implemented with the memory buffer of sluice.h. */
#include "internal.h"
#include "sluice.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "../wasd/membuflib.h"
#include "../wasd/ssdef.h"
#undef MemBufLibBegin

static int status_of(int error)
{
    switch (error) {
    case EACCES: return SS$_NOPRIV;
    case EINVAL: return SS$_BADPARAM;
    case EFBIG: return SS$_EXQUOTA;
    case ENOMEM: return SS$_INSFMEM;
    default: return SS$_ABORT;
    }
}

static void store_size(void *size, unsigned long width, uint64_t bytes)
{
    if (width == sizeof(int64_t)) {
        memcpy(size, &bytes, sizeof bytes);
    } else if (width == sizeof(int32_t)) {
        int32_t narrow = bytes > INT32_MAX ? INT32_MAX : (int32_t)bytes;
        memcpy(size, &narrow, sizeof narrow);
    }
}

int sluice_membuflib_begin(int megabytes, char **name, void *size, unsigned long size_width)
{
    static struct sluice_buffer buffer;
    if (megabytes < 0) return SS$_BADPARAM;
    /* A script with its own request loop may have ended the previous response without End: only the server knows. */
    if (sluice_buffer_begin_unless_open((uint64_t)megabytes << 20, &buffer)) return status_of(errno);
    if (name) *name = buffer.name;
    if (size) store_size(size, size_width, buffer.bytes);
    return SS$_NORMAL;
}

int MemBufLibBegin(int megabytes, char **name, void *unused, int *size)
{
    (void)unused;
    return sluice_membuflib_begin(megabytes, name, size, sizeof *size);
}

int MemBufLibWrite(const void *bytes, long count)
{
    return count >= 0 && sluice_buffer_write(bytes, (size_t)count) == 0;
}

int MemBufLibEnd(void)
{
    return sluice_buffer_end() ? SS$_ABORT : SS$_NORMAL;
}
