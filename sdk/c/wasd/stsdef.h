/* stsdef.h for WASD sources: the fields of an OpenVMS status. The lowest three bits are its severity; odd is success. */
#ifndef SLUICE_WASD_STSDEF_H
#define SLUICE_WASD_STSDEF_H
#define STS$K_WARNING 0
#define STS$K_SUCCESS 1
#define STS$K_ERROR 2
#define STS$K_INFO 3
#define STS$K_SEVERE 4
#define STS$M_SUCCESS 0x00000001
#define STS$M_SEVERITY 0x00000007
#define STS$M_COND_ID 0x0ffffff8
#define STS$M_INHIB_MSG 0x10000000
#define STS$V_INHIB_MSG 28
#define $VMS_STATUS_SUCCESS(status) ((status) & STS$M_SUCCESS)
#define $VMS_STATUS_SEVERITY(status) ((status) & STS$M_SEVERITY)
#endif
