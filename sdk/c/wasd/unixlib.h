/* unixlib.h for WASD sources: the system headers that declare the same functions. */
#ifndef SLUICE_WASD_UNIXLIB_H
#define SLUICE_WASD_UNIXLIB_H
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#endif
