/* cgilib.h: the calls of WASD's CGILIB that a small CGI or CGIplus script makes, on Sluice's library. Needs libsluice.a.

   Not here: forms, uploads, the response builders. */
#ifndef SLUICE_WASD_CGILIB_H
#define SLUICE_WASD_CGILIB_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Readies stdout. The arguments are accepted and not needed. Always 0. */
int CgiLibEnvironmentInit(int argc, char **argv, int response_mode);
/* Non-zero when the process is kept for more requests. */
int CgiLibEnvironmentIsCgiPlus(void);
char *CgiLibEnvironmentVersion(void);
void CgiLibEnvironmentSetDebug(int debug);
/* stdout as a stream of bytes, or as records: on Linux the mailbox decides, so these change nothing. */
int CgiLibEnvironmentBinaryOut(void);
int CgiLibEnvironmentRecordOut(void);

/* The value of a variable, "" when there is none. CgiLibVar("") waits for the next request; at the order to stop it exits. */
char *CgiLibVar(char *name);
/* The value of a variable, NULL when there is none. */
char *CgiLibVarNull(char *name);

/* Sentinels on the output: end of the response, begin and end of a callout. Nothing in plain CGI. */
void CgiLibCgiPlusEOF(void);
void CgiLibCgiPlusESC(void);
void CgiLibCgiPlusEOT(void);
/* Reads the answer to a callout, without its line end. The number of bytes, -1 when there is none. */
int CgiLibCgiPlusInGets(char *into, int size);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
