/* hello: the smallest script. It runs as CGI and as CGIplus. */
#include <stdio.h>

#include "sluice.h"

int main(void)
{
    while (sluice_accept()) {
        sluice_respond("text/plain; charset=utf-8");
        printf("Hello, %s.\n", sluice_variable("REMOTE_ADDR"));
        printf("This process has answered %lu request%s.\n", sluice_uses(), sluice_uses() == 1 ? "" : "s");
    }
}
