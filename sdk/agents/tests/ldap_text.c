/* ldap_text.c: the escapes of names in filters (RFC 4515) and in names of entries (RFC 4514). */
#include "ldap_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

static void check(const char *template, const char *name, const char *dn, enum ldap_text_kind kind, const char *expected)
{
    char *text = ldap_text_fill(template, name, dn, kind);
    if (!text || strcmp(text, expected)) {
        fprintf(stderr, "%s with %s: %s, not %s\n", template, name, text ? text : "(nothing)", expected);
        failures++;
    }
    free(text);
}

int main(void)
{
    check("(uid=%u)", "ann", "", ldap_text_for_filter, "(uid=ann)");
    check("(uid=%u)", "*", "", ldap_text_for_filter, "(uid=\\2a)");
    check("(uid=%u)", "ann)(uid=*", "", ldap_text_for_filter, "(uid=ann\\29\\28uid=\\2a)");
    check("(uid=%u)", "a\\2a", "", ldap_text_for_filter, "(uid=a\\5c2a)");
    check("(uid=%u)", "%u%d%%", "", ldap_text_for_filter, "(uid=%u%d%%)");
    check("(uid=%u)", "\xc3\xa4nne", "", ldap_text_for_filter, "(uid=\xc3\xa4nne)");
    check("(&(mail=%u)(a=100%%)(b=%x)(c=%", "a@b", "", ldap_text_for_filter, "(&(mail=a@b)(a=100%)(b=%x)(c=%");
    check("(|(member=%d)(memberUid=%u))", "ann", "cn=a\\2cb (x),o=*", ldap_text_for_filter, "(|(member=cn=a\\5c2cb \\28x\\29,o=\\2a)(memberUid=ann))");
    check("uid=%u,ou=people", "ann", "", ldap_text_for_dn, "uid=ann,ou=people");
    check("uid=%u,ou=people", "ann,ou=admins", "", ldap_text_for_dn, "uid=ann\\2cou\\3dadmins,ou=people");
    check("uid=%u,ou=people", "ann+uid=eve", "", ldap_text_for_dn, "uid=ann\\2buid\\3deve,ou=people");
    check("uid=%u,ou=people", " #a\"<b>;\\ ", "", ldap_text_for_dn, "uid=\\20\\23a\\22\\3cb\\3e\\3b\\5c\\20,ou=people");
    check("uid=%u,ou=people", "Ann Author", "", ldap_text_for_dn, "uid=Ann Author,ou=people");
    check("%u@example.org", "ann", "", ldap_text_as_it_is, "ann@example.org");

    /* Every byte, alone and between others: nothing that has a meaning in the text around it is left. */
    for (int byte = 1; byte < 256; byte++) {
        char name[] = {'a', (char)byte, 'b', (char)byte, 0};
        for (int kind = ldap_text_for_filter; kind <= ldap_text_for_dn; kind++) {
            char *text = ldap_text_fill("%u", name, "", (enum ldap_text_kind)kind);
            const char *special = kind == ldap_text_for_filter ? "*()" : ",+\"<>;=#";
            if (!text || strpbrk(text, special)) {
                fprintf(stderr, "the byte %d is not escaped: %s\n", byte, text ? text : "(nothing)");
                failures++;
            }
            free(text);
        }
    }
    char *joined = ldap_text_join("cn=a", "o=b"), *alone = ldap_text_join("cn=a", "");
    failures += strcmp(joined, "cn=a,o=b") != 0 || strcmp(alone, "cn=a") != 0;
    free(joined);
    free(alone);
    return failures != 0;
}
