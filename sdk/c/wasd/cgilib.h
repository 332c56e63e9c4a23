/* cgilib.h: the calls of WASD's CGILIB that small CGI and CGIplus scripts use. Link with libsluice.a.

   Not here: HTML forms, uploads, the response functions. */
#ifndef SLUICE_WASD_CGILIB_H
#define SLUICE_WASD_CGILIB_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Prepares stdout. The arguments are ignored. Always 0. */
int CgiLibEnvironmentInit(int argc, char **argv, int response_mode);
/* Non-zero if the process serves several requests (CGIplus). */
int CgiLibEnvironmentIsCgiPlus(void);
char *CgiLibEnvironmentVersion(void);
void CgiLibEnvironmentSetDebug(int debug);
/* Output as a stream of bytes or as records. On Linux the mailbox decides, so these have no effect. */
int CgiLibEnvironmentBinaryOut(void);
int CgiLibEnvironmentRecordOut(void);

/* The value of a variable, "" if there is none. CgiLibVar("") waits for the next request, and exits if there is none. */
char *CgiLibVar(char *name);
/* The value of a variable, NULL if there is none. */
char *CgiLibVarNull(char *name);

/* Write a sentinel: end of the response, begin and end of a callout. No effect in plain CGI. */
void CgiLibCgiPlusEOF(void);
void CgiLibCgiPlusESC(void);
void CgiLibCgiPlusEOT(void);
/* Reads the answer to a callout, without its line end. Returns the number of bytes, -1 if there is no answer. */
int CgiLibCgiPlusInGets(char *into, int size);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
