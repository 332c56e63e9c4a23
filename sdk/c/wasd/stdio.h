/* stdio.h for WASD sources: the system's header, with fopen() and freopen() as on OpenVMS.

   They accept any number of further arguments ("ctx=bin", "mrs=…"), which are ignored, and the names SYS$OUTPUT, SYS$INPUT,
   SYS$ERROR, HTTP$INPUT, CGIPLUSIN and NL:. In a record mailbox each line that is written to stdout is a record, whichever function
   writes it and whatever setvbuf() asks for. See src/wasd.c. */
#ifndef SLUICE_WASD_STDIO_H
#define SLUICE_WASD_STDIO_H
#pragma GCC system_header
#include_next <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif
FILE *sluice_wasd_fopen(const char *name, const char *mode, ...) __attribute__((visibility("default")));
FILE *sluice_wasd_freopen(const char *name, const char *mode, FILE *stream, ...) __attribute__((visibility("default")));
void sluice_wasd_open_stdout(void) __attribute__((visibility("default")));
int sluice_wasd_setvbuf(FILE *stream, char *buffer, int mode, size_t size) __attribute__((visibility("default")));
size_t sluice_wasd_fwrite(const void *from, size_t size, size_t count, FILE *stream) __attribute__((visibility("default")));
int sluice_wasd_fputs(const char *text, FILE *stream) __attribute__((visibility("default")));
int sluice_wasd_puts(const char *text) __attribute__((visibility("default")));
/* Runs before main(); once for each source file, which does no harm. */
static __attribute__((constructor, used)) void sluice_wasd_start(void)
{
    sluice_wasd_open_stdout();
}
#ifdef __cplusplus
}
#endif
#define fopen sluice_wasd_fopen
#define freopen sluice_wasd_freopen
#define setvbuf sluice_wasd_setvbuf
#define setbuf(stream, buffer) ((void)sluice_wasd_setvbuf(stream, buffer, (buffer) ? _IOFBF : _IONBF, BUFSIZ))
#define setbuffer(stream, buffer, size) ((void)sluice_wasd_setvbuf(stream, buffer, (buffer) ? _IOFBF : _IONBF, size))
#define setlinebuf(stream) ((void)sluice_wasd_setvbuf(stream, NULL, _IOLBF, 0))
#define fwrite sluice_wasd_fwrite
#define fputs sluice_wasd_fputs
#define puts sluice_wasd_puts

/* WASD sources define SOFTWAREID from these for the processors of OpenVMS only, before their first #include. */
#if defined(SOFTWARENM) && defined(SOFTWAREVN) && !defined(SOFTWAREID)
#define SOFTWAREID SOFTWARENM " Linux-" SOFTWAREVN
#endif
#endif
