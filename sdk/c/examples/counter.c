/* counter: keeps a number in memory, which needs CGIplus: as CGI each request has a process of its own and gets 1. */
#include <stdio.h>

#include "sluice.h"

int main(void)
{
    unsigned long count = 0;
    while (sluice_accept()) {
        sluice_header("Cache-Control", "no-store");
        sluice_respond("text/plain; charset=utf-8");
        printf("%lu\n", ++count);
        if (!sluice_is_persistent()) printf("Request this script as CGIplus, and it counts on.\n");
    }
}
