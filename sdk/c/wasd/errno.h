/* errno.h for WASD sources: the system's header, and vaxc$errno, errno as an OpenVMS status. See src/wasd.c. */
#ifndef SLUICE_WASD_ERRNO_H
#define SLUICE_WASD_ERRNO_H
#pragma GCC system_header
#include_next <errno.h>

#ifdef __cplusplus
extern "C" {
#endif
int *sluice_wasd_vaxc_errno(void) __attribute__((visibility("default")));
#ifdef __cplusplus
}
#endif
#define vaxc$errno (*sluice_wasd_vaxc_errno())
#define EVMSERR 65535
#endif
