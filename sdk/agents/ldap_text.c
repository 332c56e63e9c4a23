/* ldap_text.c: escapes. Every special character becomes \ and two hexadecimal digits, which both RFCs allow. */
#include "ldap_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is_special(unsigned char byte, int is_first, int is_last, enum ldap_text_kind kind)
{
    switch (kind) {
    case ldap_text_for_filter:
        return byte < ' ' || byte == 0x7f || strchr("*()\\", byte);
    case ldap_text_for_dn:
        /* A blank or # is special at the ends only; escaped everywhere it means the same. */
        return byte < ' ' || byte == 0x7f || strchr(",+\"\\<>;=#", byte) || (byte == ' ' && (is_first || is_last));
    case ldap_text_as_it_is:
        return 0;
    }
    return 1;
}

static char *put(char *at, const char *text, enum ldap_text_kind kind)
{
    for (const char *from = text; *from; from++) {
        if (is_special((unsigned char)*from, from == text, !from[1], kind))
            at += sprintf(at, "\\%02x", (unsigned char)*from);
        else
            *at++ = *from;
    }
    return at;
}

char *ldap_text_fill(const char *template, const char *name, const char *dn, enum ldap_text_kind kind)
{
    size_t places = 0;
    for (const char *at = template; *at; at++) places += *at == '%';
    size_t longest = strlen(name) > strlen(dn) ? strlen(name) : strlen(dn);
    char *text = malloc(strlen(template) + places * longest * 3 + 1), *at = text;
    if (!text) return NULL;
    for (const char *from = template; *from; from++) {
        if (*from != '%')
            *at++ = *from;
        else if (from[1] == 'u')
            at = put(at, name, kind), from++;
        else if (from[1] == 'd')
            at = put(at, dn, kind), from++;
        else if (from[1] == '%')
            *at++ = '%', from++;
        else
            *at++ = '%';
    }
    *at = '\0';
    return text;
}

char *ldap_text_join(const char *relative, const char *base)
{
    char *text = malloc(strlen(relative) + strlen(base) + 2);
    if (text) sprintf(text, "%s%s%s", relative, *base ? "," : "", base);
    return text;
}
