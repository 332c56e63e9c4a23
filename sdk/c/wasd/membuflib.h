/* membuflib.h: WASD's three calls for bulk output, implemented with Sluice's memory buffer. Link with libsluice.a.

   Call Begin, print the response head to stdout, call Write as often as needed, then End. WASD programs compile unchanged:
       cc -std=gnu89 -I sdk/c/wasd -I sdk/c/include script.c sdk/c/build/libsluice.a */
#ifndef SLUICE_WASD_MEMBUFLIB_H
#define SLUICE_WASD_MEMBUFLIB_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Requests a buffer of this many megabytes (0: the server chooses). Sets its name (valid until the next Begin) and its size in bytes;
   each may be NULL. Returns an OpenVMS status: odd is success (SS$_NORMAL); SS$_EXQUOTA above the server's limit, SS$_INSFMEM no
   memory, SS$_BADPARAM refused (a buffer is open already, and stays open), SS$_NOPRIV the route allows none, SS$_ABORT the server has no memory
   buffer. */
int MemBufLibBegin(int megabytes, char **name, void *unused, int *size);

/* Sends any number of bytes; waits for room. Non-zero on success; 0 if the client is gone. */
int MemBufLibWrite(const void *bytes, long count);

/* Waits until the server has sent everything, and releases the buffer. Returns an OpenVMS status, odd on success. */
int MemBufLibEnd(void);

/* An `unsigned long` has 32 bits on OpenVMS and 64 here, so the size is stored in the width of the caller's variable. */
int sluice_membuflib_begin(int megabytes, char **name, void *size, unsigned long size_width);
#define MemBufLibBegin(megabytes, name, unused, size) \
    sluice_membuflib_begin((int)(megabytes), (char **)(name), (void *)(size), sizeof *(size))

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
