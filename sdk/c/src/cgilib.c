/* cgilib.c: CGILIB's calls for the environment, variables and sentinels, implemented with sluice.h. */
#include "internal.h"
#include "sluice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../wasd/cgilib.h"

int CgiLibEnvironmentInit(int argc, char **argv, int response_mode)
{
    (void)argc, (void)argv, (void)response_mode;
    sluice_mailbox_open();
    return 0;
}

int CgiLibEnvironmentIsCgiPlus(void)
{
    return sluice_is_persistent();
}

char *CgiLibEnvironmentVersion(void)
{
    return "CGILIB calls of libsluice";
}

void CgiLibEnvironmentSetDebug(int debug)
{
    (void)debug;
}

int CgiLibEnvironmentBinaryOut(void)
{
    return 0;
}

int CgiLibEnvironmentRecordOut(void)
{
    return 0;
}

char *CgiLibVarNull(char *name)
{
    if (*name) {
        char *value = (char *)sluice_variable(name);
        return value ? value : sluice_cgilib_field(name);
    }
    if (sluice_is_persistent() && !sluice_accept()) exit(EXIT_SUCCESS); /* no more requests: CGILIB exits */
    return NULL;
}

char *CgiLibVar(char *name)
{
    char *value = CgiLibVarNull(name);
    return value ? value : "";
}

void CgiLibCgiPlusEOF(void)
{
    sluice_finish();
}

static void put_sentinel(enum sluice_sentinel which, const char *line_end)
{
    const char *sentinel = sluice_mailbox_sentinel(which);
    if (!sentinel || sluice_mailbox_flush()) return;
    char text[64];
    snprintf(text, sizeof text, "%s%s", sentinel, sluice_mailbox_keeps_records() ? "" : line_end);
    sluice_mailbox_write(text, strlen(text));
}

void CgiLibCgiPlusESC(void)
{
    put_sentinel(SLUICE_ESCAPE, "");
}

void CgiLibCgiPlusEOT(void)
{
    put_sentinel(SLUICE_CLOSE, "\n");
}

int CgiLibCgiPlusInGets(char *into, int size)
{
    static struct sluice_bytes line;
    if (size <= 0) return -1;
    *into = '\0';
    line.length = 0;
    if (fflush(stdout) != 0 || sluice_cgiplusin_read_line(&line) <= 0) return -1;
    snprintf(into, (size_t)size, "%s", line.at);
    return (int)strlen(into);
}
