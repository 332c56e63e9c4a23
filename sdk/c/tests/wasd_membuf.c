/*
   A throughput test in the style of a WASD script, written for the OpenVMS C library and WASD's membuflib.h, to test that such a
   source compiles and runs unmodified. Takes the query of membufdemo and sends the same bytes.
*/
#define SOFTWAREVN "1.0.0"
#define SOFTWARENM "WASD_MEMBUF"
#ifdef __ALPHA
#  define SOFTWAREID SOFTWARENM " AXP-" SOFTWAREVN
#endif
#ifdef __ia64
#  define SOFTWAREID SOFTWARENM " IA64-" SOFTWAREVN
#endif
#ifdef __VAX
#  define SOFTWAREID SOFTWARENM " VAX-" SOFTWAREVN
#endif

/* standard C header files */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unixlib.h>

/* VMS related header files */
#include <descrip.h>
#include <ssdef.h>
#include <starlet.h>
#include <stsdef.h>

/* application header file */
#include "membuflib.h"

#define VMSok(x) ((x) & STS$M_SUCCESS)
#define VMSnok(x) !(((x) & STS$M_SUCCESS))

char *KeyValue ();

main (int argc, char *argv[])

{
   int  count, status, ByteCount, ByteTotal, BufferMBytes, MBytes, RecordSize;
   int  MemBufSize = 0;
   char  *cptr,
         *MemBufName = "NULL";
   char  *RecordPtr;

   if (argc > 1 && !strcmp (argv[1], "/VERSION"))
   {
      fprintf (stdout, "%%%s-I-VERSION, %s\n", SOFTWARENM, SOFTWAREID);
      exit (SS$_NORMAL);
   }

   MBytes = atoi (KeyValue ("WWW_KEY_1"));
   if (MBytes <= 0) MBytes = 100;
   RecordSize = atoi (KeyValue ("WWW_KEY_3"));
   if (!RecordSize) RecordSize = atoi (KeyValue ("WWW_GATEWAY_MRS"));
   if (!RecordSize) RecordSize = 8192;
   BufferMBytes = atoi (KeyValue ("WWW_KEY_4"));

   RecordPtr = calloc (1, RecordSize);
   if (!RecordPtr) exit (vaxc$errno);

   if (*KeyValue ("WWW_KEY_2") == 'b')
   {
      status = MemBufLibBegin (BufferMBytes, &MemBufName, NULL, &MemBufSize);
      if (VMSnok (status))
      {
         fprintf (stdout, "Status: 500\nContent-Type: text/plain\n\nMemBufLibBegin() %%X%08.08X\n", status);
         exit (status);
      }
   }

   /* stream mode, so that the C-RTL leaves the bytes as they are */
   stdout = freopen ("SYS$OUTPUT", "w", stdout, "ctx=bin");
   if (!stdout) exit (vaxc$errno);

   ByteTotal = MBytes * 1048576;
   fprintf (stdout,
"Content-Type: application/octet-stream\r\n\
Content-Length: %d\r\n\
X-mrs: %d\r\n\
X-mbuf: %s %d\r\n\
\r\n",
            ByteTotal, RecordSize, MemBufName, MemBufSize);
   fflush (stdout);

   for (count = ByteCount = 0; ByteCount < ByteTotal; count++)
   {
      int  size = RecordSize;
      if (ByteCount + size > ByteTotal) size = ByteTotal - ByteCount;
      memset (RecordPtr, count & 0xff, size);
      if (MemBufSize)
      {
         if (!MemBufLibWrite (RecordPtr, size)) exit (SS$_ABORT);
      }
      else
      {
         if (!fwrite (RecordPtr, size, 1, stdout)) exit (SS$_ABORT);
         fflush (stdout);
      }
      ByteCount += size;
   }

   if (MemBufSize)
   {
      status = MemBufLibEnd ();
      if (VMSnok (status)) exit (status);
   }
   exit (SS$_NORMAL);
}

char* KeyValue (char *name)

{
   char  *cptr;
   if ((cptr = getenv (name))) return (cptr);
   return ("");
}
