/* stdlib.h for WASD sources: the system's header, with an exit() that takes an OpenVMS status: odd is success. See src/wasd.c. */
#ifndef SLUICE_WASD_STDLIB_H
#define SLUICE_WASD_STDLIB_H
#pragma GCC system_header
#include_next <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif
void sluice_wasd_exit(int status) __attribute__((noreturn, visibility("default")));
#ifdef __cplusplus
}
#endif
#define exit sluice_wasd_exit
/* The value in the C library of OpenVMS; 1 would be success. */
#undef EXIT_FAILURE
#define EXIT_FAILURE 0x10000002
#endif
