/* cgilib.h: the calls of WASD's CGILIB that CGI and CGIplus scripts use. Link with libsluice.

   The calls for responses, forms and coding are written from their names and uses, without CGILIB's source: compare a script's output with
   that on OpenVMS. Not here: environments other than WASD (Apache, OSU), CgiLibOnExit, CgiLibHtmlDeEntify, CgiLibAnchorHtmlEscape,
   CgiLibUrlEncodeFileName, CgiLibQueryStringParse, the memory allocation calls, and CGIUTL. */
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

/* ---- Responses ---- */

/* Writes the head: status, content type, and further lines as printf would format them:
   CgiLibResponseHeader (200, "text/html", "Expires: %s\n", time); */
void sluice_cgilib_response_header(int status, const char *type, const char *format, ...);
#define CgiLibResponseHeader(status, ...) sluice_cgilib_response_header((status), __VA_ARGS__, (char *)0)
/* Redirects the client. */
void CgiLibResponseRedirect(char *format, ...);
/* An error page of the server with this text; the source file, line and OpenVMS status go to the log. Without a head only; after it, the text is
   added to the page. */
void CgiLibResponseError(char *file, int line, int status, char *format, ...);
/* For the next head: the character set of text, and the handling of records. The others have no effect. */
void CgiLibResponseSetCharset(char *charset);
void CgiLibResponseSetRecordMode(int yes);
void CgiLibResponseSetStreamMode(int yes);
void CgiLibResponseSetBuffer(int bytes);
void CgiLibResponseSetSoftwareID(char *software);
void CgiLibResponseSetErrorMessage(char *message);

/* ---- Coding: `count` bytes of `text` (-1: all) into `into`. If `into` is NULL, the result lives until the next request ---- */

char *CgiLibHtmlEscape(char *text, int count, char *into, int size);
char *CgiLibUrlEncode(char *text, int count, char *into, int size);
/* As CgiLibUrlEncode, with + for a blank. */
char *CgiLibFormEncode(char *text, int count, char *into, int size);
/* Decodes in place; returns the length. */
int CgiLibUrlDecode(char *text);

/* ---- Forms ---- */

/* Reads the body into memory (up to 16 MiB), with a NUL after it. Returns its length, -1 if that fails. It lives until the next call. */
int CgiLibReadRequestBody(char **body, int *length);
/* Makes variables of the fields in that body, urlencoded or multipart; NULL, 0: reads the body itself. CgiLibVar("FORM_NAME") is then the
   field, names in upper case with _ for other characters; for a file, its content, and FORM_NAME_MIME_FILENAME, FORM_NAME_MIME_CONTENT_TYPE.
   Returns the number of fields and files, -1 if the form is malformed or too large. */
int CgiLibFormRequestBody(char *body, int length);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
