/*
   A script in the style of WASD's that uses CGILIB: the same source is CGI and CGIplus, with a callout.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ssdef.h>
#include <cgilib.h>

static int  UsageCount;

void ProcessRequest ();

main (int argc, char *argv[])

{
   CgiLibEnvironmentInit (argc, argv, 0);

   if (CgiLibEnvironmentIsCgiPlus ())
   {
      for (;;)
      {
         /* block waiting for the next request */
         CgiLibVar ("");
         ProcessRequest ();
         CgiLibCgiPlusEOF ();
      }
   }
   else
      ProcessRequest ();

   exit (SS$_NORMAL);
}

void ProcessRequest ()

{
   char  line [256];
   char  *cptr;

   fprintf (stdout, "Content-Type: text/plain\n\n%d %s", ++UsageCount, CgiLibVar ("WWW_SERVER_NAME"));
   if ((cptr = CgiLibVarNull ("NOTHING")) == NULL) fprintf (stdout, " nothing");
   if (!CgiLibEnvironmentIsCgiPlus ()) return;

   CgiLibCgiPlusESC ();
   fputs ("MAP-PATH: /doc/", stdout);
   fflush (stdout);
   CgiLibCgiPlusInGets (line, sizeof(line));
   CgiLibCgiPlusEOT ();
   fprintf (stdout, "\n%s", line);
}
