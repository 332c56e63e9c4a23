/* membuflib.h: WASD's three calls for bulk output through a memory buffer, on Sluice's. Needs libsluice.a.

   Begin, the response head on stdout, Write as often as needed, End. A program includes this and compiles unchanged:
       cc -std=gnu89 -I sdk/c/wasd -I sdk/c/include script.c sdk/c/build/libsluice.a */
#ifndef SLUICE_WASD_MEMBUFLIB_H
#define SLUICE_WASD_MEMBUFLIB_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Asks the server for a buffer of so many megabytes (0: its choice). Fills in its name (valid until the next Begin) and its size in bytes; each
   may be NULL. An OpenVMS status: odd is success (SS$_NORMAL), else SS$_EXQUOTA over the server's limit, SS$_INSFMEM no memory,
   SS$_BADPARAM refused, SS$_ABORT this server has none. */
int MemBufLibBegin(int megabytes, char **name, void *unused, int *size);

/* Sends `count` bytes, any number; waits for room. Non-zero on success; 0 when the client is gone. */
int MemBufLibWrite(const void *bytes, long count);

/* Waits until all is on its way, and gives the buffer up. A status, odd on success. */
int MemBufLibEnd(void);

/* An `unsigned long` is 32 bits on OpenVMS and 64 here, so the width of the caller's variable decides what is stored. */
int sluice_membuflib_begin(int megabytes, char **name, void *size, unsigned long size_width);
#define MemBufLibBegin(megabytes, name, unused, size) \
    sluice_membuflib_begin((int)(megabytes), (char **)(name), (void *)(size), sizeof *(size))

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
