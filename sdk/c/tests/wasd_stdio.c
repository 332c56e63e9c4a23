/*
   A CGIplus script in the style of WASD's that implements the protocol itself with stdio: it reads requests with fgets(), and writes
   sentinels and callouts with fputs() and fflush(). KEY_1 selects the action.
*/
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unixlib.h>
#include <descrip.h>
#include <ssdef.h>
#include <stsdef.h>
#include "membuflib.h"

static char  *CgiPlusEofPtr, *CgiPlusEscPtr, *CgiPlusEotPtr;
static FILE  *CgiPlusIn;
static char  Lines [256][1024];
static int  LineCount, UsageCount;

static $DESCRIPTOR (GreetingDsc, "a string in a descriptor");

void NextRequest ();
void ProcessRequest ();
void Callout ();
char *CgiVar ();

main ()

{
   if ((CgiPlusEofPtr = getenv ("CGIPLUSEOF")) == NULL) exit (SS$_ABORT);
   CgiPlusEscPtr = getenv ("CGIPLUSESC");
   CgiPlusEotPtr = getenv ("CGIPLUSEOT");
   if (!(CgiPlusIn = fopen (getenv ("CGIPLUSIN"), "r", "ctx=rec"))) exit (vaxc$errno);
   if ((stdout = freopen ("SYS$OUTPUT", "w", stdout, "ctx=bin", "ctx=xplct")) == NULL) exit (vaxc$errno);

   for (;;)
   {
      NextRequest ();
      UsageCount++;
      ProcessRequest ();
      fflush (stdout);
      fputs (CgiPlusEofPtr, stdout);
      fflush (stdout);
   }
}

void NextRequest ()

{
   char  line [1024], *cptr;

   do {
      if (!fgets (line, sizeof(line), CgiPlusIn)) exit (SS$_NORMAL);
   } while (strcmp (line, "!\n"));

   for (LineCount = 0; LineCount < 256; LineCount++)
   {
      if (!fgets (Lines[LineCount], sizeof(Lines[LineCount]), CgiPlusIn)) exit (SS$_ABORT);
      if ((cptr = strchr (Lines[LineCount], '\n'))) *cptr = '\0';
      if (!Lines[LineCount][0]) break;
   }
}

char* CgiVar (char *name)

{
   int  idx, len = strlen(name);
   for (idx = 0; idx < LineCount; idx++)
      if (!strncmp (Lines[idx], name, len) && Lines[idx][len] == '=') return (Lines[idx] + len + 1);
   return ("");
}

void ProcessRequest ()

{
   char  *action = CgiVar ("WWW_KEY_1");

   if (!strcmp (action, "callout"))
   {
      fprintf (stdout, "Content-Type: text/plain\n\nbefore ");
      Callout ("NOOP:");
      fprintf (stdout, "between ");
      Callout ("!NOOP:");
      Callout ("MAP-PATH: /path");
      fprintf (stdout, "after");
      return;
   }

   if (!strcmp (action, "buffer"))
   {
      unsigned long  size = ~0UL;
      char  *name;
      int  status, count;
      char  block [5000];

      status = MemBufLibBegin (0, &name, NULL, &size);
      if (!$VMS_STATUS_SUCCESS (status))
      {
         fprintf (stdout, "Content-Type: text/plain\n\n%%X%08X", status);
         return;
      }
      fprintf (stdout, "Content-Type: text/plain\nX-mbuf: %s %lu\n\n", name, size);
      for (count = 0; count < 100; count++)
      {
         memset (block, count, sizeof(block));
         if (!MemBufLibWrite (block, sizeof(block))) exit (44);
      }
      /* one in two forgets the end */
      if (UsageCount & 1) MemBufLibEnd ();
      return;
   }

   if (!strcmp (action, "files"))
   {
      FILE  *fptr;
      char  line [64] = "";
      fprintf (stdout, "Content-Type: text/plain\n\n");
      if (!(fptr = fopen ("WASD_ROOT:[NOWHERE]NOTHING.TXT", "r", "shr=get")))
         fprintf (stdout, "%d %%X%08X\n", errno == ENOENT, vaxc$errno);
      fptr = fopen ("HTTP$INPUT", "r", "ctx=bin");
      fread (line, 1, atoi (CgiVar ("WWW_CONTENT_LENGTH")), fptr);
      fclose (fptr);
      fprintf (stdout, "%s\n", line);
      fptr = fopen ("NL:", "w");
      fprintf (fptr, "to nowhere");
      fclose (fptr);
      fprintf (stdout, "%d %s\n", GreetingDsc.dsc$w_length, GreetingDsc.dsc$a_pointer);
      return;
   }

   if (!strcmp (action, "exit")) exit (strtol (CgiVar ("WWW_KEY_2"), NULL, 0));

   fprintf (stdout, "Content-Type: text/plain\n\nUsage: %d", UsageCount);
}

void Callout (char *request)

{
   char  line [256];

   fflush (stdout);
   fputs (CgiPlusEscPtr, stdout);
   fflush (stdout);
   fputs (request, stdout);
   fflush (stdout);
   strcpy (line, "(none)\n");
   if (*request != '!' && !fgets (line, sizeof(line), CgiPlusIn)) exit (SS$_ABORT);
   fputs (CgiPlusEotPtr, stdout);
   fflush (stdout);
   fprintf (stdout, "[%.*s] ", (int)strlen(line) - 1, line);
}
