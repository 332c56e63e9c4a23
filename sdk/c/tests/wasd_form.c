/*
   A script in the style of WASD's that uses CGILIB's calls for forms, responses and coding.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ssdef.h>
#include <cgilib.h>

#define FI_LI __FILE__, __LINE__

void ProcessRequest ();

main (int argc, char *argv[])

{
   CgiLibEnvironmentInit (argc, argv, 0);

   if (!CgiLibEnvironmentIsCgiPlus ()) { ProcessRequest (); exit (SS$_NORMAL); }
   for (;;)
   {
      CgiLibVar ("");
      ProcessRequest ();
      CgiLibCgiPlusEOF ();
   }
}

void ProcessRequest ()

{
   int  length;
   char  *body, *cptr, *wanted;
   char  small [12];

   wanted = CgiLibVar ("WWW_WANTED");

   if (!strcmp (wanted, "redirect")) { CgiLibResponseRedirect ("%s?a=%d", "/other", 7); return; }

   if (!strcmp (wanted, "error"))
   {
      CgiLibResponseError (FI_LI, SS$_NOSUCHFILE, "no \"%s\"", "file");
      return;
   }

   if (!strcmp (wanted, "code"))
   {
      CgiLibResponseHeader (200, "text/plain");
      fprintf (stdout, "%s|", CgiLibHtmlEscape ("<a&b>", -1, NULL, 0));
      fprintf (stdout, "%s|", CgiLibHtmlEscape ("<<<<", -1, small, sizeof(small)));
      fprintf (stdout, "%s|", CgiLibUrlEncode ("a b/c", 3, small, sizeof(small)));
      fprintf (stdout, "%s|", CgiLibFormEncode ("a b c", -1, NULL, 0));
      cptr = strcpy (small, "a%20b+c");
      length = CgiLibUrlDecode (cptr);
      fprintf (stdout, "%d %s", length, cptr);
      return;
   }

   if (!strcmp (wanted, "read"))
   {
      if (CgiLibReadRequestBody (&body, &length) < 0) length = -1;
      else if (CgiLibFormRequestBody (body, length) < 0) length = -2;
   }
   else
      length = CgiLibFormRequestBody (NULL, 0);

   CgiLibResponseSetCharset ("utf-8");
   CgiLibResponseSetStreamMode (1);
   CgiLibResponseHeader (length < 0 ? 400 : 200, "text/plain", "Expires: %s\nX-Length: %d\n", "never", length);
   fprintf (stdout, "%s|%s|%s|%s|%s", CgiLibVar ("FORM_NA_ME"), CgiLibVar ("WWW_FORM_FILE"), CgiLibVar ("FORM_FILE_MIME_FILENAME"),
            CgiLibVar ("FORM_FILE_MIME_CONTENT_TYPE"), (cptr = CgiLibVarNull ("FORM_NONE")) == NULL ? "none" : cptr);
}
