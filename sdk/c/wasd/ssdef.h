/* ssdef.h for WASD sources: the system status codes that scripts commonly use, with their values on OpenVMS. */
#ifndef SLUICE_WASD_SSDEF_H
#define SLUICE_WASD_SSDEF_H
#define SS$_NORMAL 1
#define SS$_ACCVIO 12
#define SS$_BADPARAM 20
#define SS$_EXQUOTA 28
#define SS$_NOPRIV 36
#define SS$_ABORT 44
#define SS$_INSFMEM 292
#define SS$_IVCHAN 316
#define SS$_TIMEOUT 556
#define SS$_BUGCHECK 676
#define SS$_ENDOFFILE 2160
#define SS$_NOSUCHDEV 2312
#define SS$_NOSUCHFILE 2320
#endif
