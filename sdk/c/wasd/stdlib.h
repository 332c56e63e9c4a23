/* stdlib.h for WASD sources: the system's header, with an exit() that takes an OpenVMS status: odd is success; and a getenv() that finds
   the variables of a request also in a CGIplus process, so that a plain CGI source answers one request there. See src/wasd.c. */
#ifndef SLUICE_WASD_STDLIB_H
#define SLUICE_WASD_STDLIB_H
#pragma GCC system_header
#include_next <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif
void sluice_wasd_exit(int status) __attribute__((noreturn, visibility("default")));
char *sluice_wasd_getenv(const char *name) __attribute__((visibility("default")));
#ifdef __cplusplus
}
#endif
#define exit sluice_wasd_exit
#define getenv sluice_wasd_getenv
/* The value in the C library of OpenVMS; 1 would be success. */
#undef EXIT_FAILURE
#define EXIT_FAILURE 0x10000002
#endif
