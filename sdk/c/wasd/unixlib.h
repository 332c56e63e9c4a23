/* unixlib.h for WASD sources: what OpenVMS declares there comes from these. */
#ifndef SLUICE_WASD_UNIXLIB_H
#define SLUICE_WASD_UNIXLIB_H
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#endif
