/* lines.c: a script in the style of OpenVMS that prints by every function of stdio, with every way to buffer it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGE 200000

static void many_lines (from)
char *from;
{
   int  count;
   for (count = 0; count < 500; count++) printf ("%s: line %d of many\n", from, count);
}

main ()
{
   static char  large [LARGE+1], buffer [512];
   char  *cptr;
   int  count;

   setvbuf (stdout, NULL, _IONBF, 0);
   printf ("Content-Type: text/plain\n");
   fputs ("X-Head: ", stdout);
   puts ("in two parts");
   putchar ('\n');
   printf ("printf %d\n", 1);
   fputs ("fputs ", stdout);
   fputs ("twice\n", stdout);
   fwrite ("fwrite bytes\n", 1, 13, stdout);
   fwrite ("fwrite items\n", 13, 1, stdout);
   puts ("puts");
   for (cptr = "putchar\n"; *cptr; cptr++) putchar (*cptr);
   for (cptr = "fputc\n"; *cptr; cptr++) fputc (*cptr, stdout);
   for (cptr = "putc\n"; *cptr; cptr++) putc (*cptr, stdout);
   many_lines ("unbuffered");
   setvbuf (stdout, buffer, _IOFBF, sizeof(buffer));
   many_lines ("buffered");
   setbuf (stdout, NULL);
   many_lines ("again unbuffered");
   for (count = 0; count < LARGE; count++) large[count] = count % 61 ? 'x' : '\n';
   fwrite (large, 1, LARGE, stdout);
   fputs (large, stdout);
   puts (large);
   fputs ("no newline", stdout);
   exit (1);
}
