/* twice.c: a plain CGI script in the style of OpenVMS that begins the memory buffer twice. It knows nothing of CGIplus. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ssdef.h>
#include <stsdef.h>

#include "membuflib.h"

main ()
{
   static char  block [1000];
   char  *MemBufName = "none";
   char  *cptr;
   int  count, second, status;
   unsigned long  MemBufSize = 0;

   cptr = getenv ("WWW_KEY_1");
   status = MemBufLibBegin (1, &MemBufName, NULL, &MemBufSize);
   second = MemBufLibBegin (2, &MemBufName, NULL, &MemBufSize);
   fprintf (stdout, "Content-Type: text/plain\nX-Status: %d %d %s %d %s\n\n",
            status, second, MemBufName, (int)MemBufSize, cptr ? cptr : "no key");
   fflush (stdout);
   if (!(status & STS$M_SUCCESS)) exit (SS$_NORMAL);

   memset (block, 'x', sizeof(block));
   for (count = 0; count < 3000; count++)
      if (!MemBufLibWrite (block, sizeof(block))) exit (SS$_ABORT);
   exit (MemBufLibEnd ());
}
