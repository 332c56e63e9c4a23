/* An authentication agent in C: accepts one token (Authorization: Bearer …), the text of agent_parameters, for the user "robot".
 *
 *     cc -o token token.c
 *
 * sluice.toml:
 *     access = { agent = "/agents/token", agent_parameters = "s3cret" }
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Compares two texts in a time that does not say where they differ. */
static int is_same(const char *one, const char *other)
{
    size_t length = strlen(one);
    unsigned char different = length != strlen(other);
    for (size_t index = 0; index < length; index++)
        different |= (unsigned char)(one[index] ^ other[index % (strlen(other) + 1)]);
    return !different;
}

int main(void)
{
    static char line[65536], token[65536], expected[65536];
    FILE *questions = fopen(getenv("CGIPLUSIN"), "r");
    if (!questions)
        return 1;
    token[0] = expected[0] = 0;
    while (fgets(line, sizeof line, questions)) {
        line[strcspn(line, "\n")] = 0;
        if (!strncmp(line, "AUTH_PASSWORD=", 14))
            strcpy(token, line + 14);
        else if (!strncmp(line, "AUTH_AGENT=", 11))
            strcpy(expected, line + 11);
        else if (!*line) {
            int is_right = *expected && is_same(token, expected);
            printf("%s\n%s\n%s\n%s\n", getenv("CGIPLUSESC"),
                   is_right ? "100 REMOTE-USER robot" : "401 another token",
                   getenv("CGIPLUSEOT"), getenv("CGIPLUSEOF"));
            fflush(stdout);
            token[0] = expected[0] = 0;
        }
    }
    return 0;
}
