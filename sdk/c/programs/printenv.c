/* printenv: every variable of the request, sorted, one NAME=value per line. Nothing is omitted or masked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sluice.h"

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int print_variables(void)
{
    size_t count = 0;
    while (sluice_variable_at(count)) count++;
    const char **entries = malloc((count + 1) * sizeof *entries);
    if (!entries) return -1;
    for (size_t i = 0; i < count; i++) entries[i] = sluice_variable_at(i);
    qsort(entries, count, sizeof *entries, by_text);
    for (size_t i = 0; i < count; i++) puts(entries[i]);
    free(entries);
    return 0;
}

int main(void)
{
    while (sluice_accept()) {
        printf("Content-Type: text/plain\n\n");
        if (print_variables() || sluice_finish()) return EXIT_FAILURE;
    }
    return 0;
}
