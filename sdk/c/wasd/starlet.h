/* starlet.h for WASD sources: the one system service that is an ordinary way out of a script. */
#ifndef SLUICE_WASD_STARLET_H
#define SLUICE_WASD_STARLET_H
#include <stdlib.h>
#define sys$exit(status) sluice_wasd_exit(status)
#endif
