/* ldap_text.h: names of users in filters and names of entries. No library is needed. */
#ifndef SLUICE_LDAP_TEXT_H
#define SLUICE_LDAP_TEXT_H

#include <stddef.h>

/* Which characters of a name are escaped. */
enum ldap_text_kind {
    ldap_text_for_filter, /* RFC 4515 section 3 */
    ldap_text_for_dn,     /* RFC 4514 section 2.4 */
    ldap_text_as_it_is,
};

/* A template with a name in place of %u, the name of an entry in place of %d, and % in place of %%; of malloc. NULL: ENOMEM. */
char *ldap_text_fill(const char *template, const char *name, const char *dn, enum ldap_text_kind kind);

/* The name of an entry below another one; of malloc. NULL: ENOMEM. */
char *ldap_text_join(const char *relative, const char *base);

#endif
