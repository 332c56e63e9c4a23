/* stdio.h for WASD sources: the system's header, with fopen() and freopen() as on OpenVMS.

   They accept any number of further arguments ("ctx=bin", "mrs=…"), which are ignored, and the names SYS$OUTPUT, SYS$INPUT,
   SYS$ERROR, HTTP$INPUT, CGIPLUSIN and NL:. See src/wasd.c. */
#ifndef SLUICE_WASD_STDIO_H
#define SLUICE_WASD_STDIO_H
#pragma GCC system_header
#include_next <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif
FILE *sluice_wasd_fopen(const char *name, const char *mode, ...) __attribute__((visibility("default")));
FILE *sluice_wasd_freopen(const char *name, const char *mode, FILE *stream, ...) __attribute__((visibility("default")));
#ifdef __cplusplus
}
#endif
#define fopen sluice_wasd_fopen
#define freopen sluice_wasd_freopen

/* WASD sources define SOFTWAREID from these for the processors of OpenVMS only, before their first #include. */
#if defined(SOFTWARENM) && defined(SOFTWAREVN) && !defined(SOFTWAREID)
#define SOFTWAREID SOFTWARENM " Linux-" SOFTWAREVN
#endif
#endif
