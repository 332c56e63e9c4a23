/* starlet.h for WASD sources: sys$exit(), the one system service that scripts commonly use. */
#ifndef SLUICE_WASD_STARLET_H
#define SLUICE_WASD_STARLET_H
#include <stdlib.h>
#define sys$exit(status) sluice_wasd_exit(status)
#endif
