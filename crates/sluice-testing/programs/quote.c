/* quote: answers with the query, directly before the end of the reply and on the same line. */
#include <stdio.h>

#include "sluice.h"

int main(void)
{
    while (sluice_accept()) {
        const char *query = sluice_variable("QUERY_STRING");
        printf("Content-Type: application/json\n\n{\"q\":\"%s\"}", query ? query : "");
        if (sluice_finish()) return 1;
    }
    return 0;
}
