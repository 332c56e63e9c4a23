/* ldap.c: an agent that asks a directory server by LDAP (RFC 4511) whether the password of an entry is right, and for its groups.

   ```
   filter ───▶ search as bind_dn, or as nobody ──▶ the entry ─┐
   user_dn ──▶ the name of the entry, or of its user ─────────┴▶ bind with the password ──▶ the name in the directory's spelling ──▶ groups
   ```
   Settings: docs/guides/access.md#ldap. Two connections are kept, one for searches and one for binds, and made again when they have broken.
   A process of its own, because the library may block and crash, and holds the password of bind_dn. */
#include "agent.h"
#include "ldap_text.h"

#include <errno.h>
#include <fcntl.h>
#include <ldap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

/* Groups of a user; more would make the answer of the group rules wrong, so that they are an error. */
#define GROUPS_MAX 500

/* Bytes of the password of bind_dn. */
#define SECRET_BYTES_MAX 4096

/* The entry of nobody. */
#define NOBODY "cn=sluice-no-such-user"

/* Where the certificates of public authorities are, if ca_file says nothing. */
static const char *const AUTHORITIES[] = {
    "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem",
};

/* A connection, and whether it was used before. */
struct connection {
    LDAP *ldap;
    int is_used;
};

/* `search` is bound as bind_dn, `binds` as the last user. */
static struct connection search, binds;

/* What is found out about a user. */
struct user {
    char *dn;   /* of ldap_memalloc; NULL if the directory does not tell it */
    char *name; /* of strdup */
};

/* ---- Connections ---- */

static void disconnect(struct connection *connection)
{
    if (connection->ldap) ldap_unbind_ext_s(connection->ldap, NULL, NULL);
    connection->ldap = NULL;
}

/* What the library or the server say of the last error. */
static const char *detail(LDAP *ldap, int result)
{
    static char text[512];
    char *said = NULL;
    if (ldap) ldap_get_option(ldap, LDAP_OPT_DIAGNOSTIC_MESSAGE, &said);
    snprintf(text, sizeof text, "%s%s%s", ldap_err2string(result), said && *said ? ": " : "", said ? said : "");
    if (said) ldap_memfree(said);
    return text;
}

/* The server cannot be reached, or does not answer: nothing more may be sent on this connection. */
static int is_broken(int result)
{
    return result == LDAP_SERVER_DOWN || result == LDAP_CONNECT_ERROR || result == LDAP_TIMEOUT || result == LDAP_UNAVAILABLE
        || result == LDAP_ENCODING_ERROR || result == LDAP_DECODING_ERROR || result == LDAP_PROTOCOL_ERROR;
}

static struct timeval time_of(double seconds)
{
    struct timeval time = {(time_t)seconds, (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6)};
    return time;
}

/* Bounds the next operation by the time that is left for the question. Each of several servers gets its share of it for a connection. */
static int bound(LDAP *ldap)
{
    double left = agent_seconds_left();
    int servers = 1;
    for (const char *at = agent_setting("server", ""); *at; at++) servers += *at == ' ';
    if (left <= 0) return LDAP_TIMEOUT;
    struct timeval time = time_of(left), time_to_connect = time_of(left / servers);
    ldap_set_option(ldap, LDAP_OPT_NETWORK_TIMEOUT, &time_to_connect);
    ldap_set_option(ldap, LDAP_OPT_TIMEOUT, &time);
    return LDAP_SUCCESS;
}

static const char *authorities(void)
{
    const char *file = agent_setting("ca_file", NULL);
    for (size_t at = 0; !file && at < sizeof AUTHORITIES / sizeof *AUTHORITIES; at++)
        if (!access(AUTHORITIES[at], R_OK)) file = AUTHORITIES[at];
    return file;
}

/* TLS 1.2 or newer, with a certificate of the authorities for the name of the server. */
static int require_certificate(LDAP *ldap)
{
    int demand = LDAP_OPT_X_TLS_DEMAND, least = LDAP_OPT_X_TLS_PROTOCOL_TLS1_2, client = 0;
    const char *file = authorities();
    if (!file) {
        agent_fail("there is no file with certificates of authorities: set ca_file");
        return LDAP_LOCAL_ERROR;
    }
    if (access(file, R_OK)) {
        agent_fail("ca_file %s: %s", file, strerror(errno));
        return LDAP_LOCAL_ERROR;
    }
    int result = ldap_set_option(ldap, LDAP_OPT_X_TLS_CACERTFILE, file);
    if (result == LDAP_SUCCESS) result = ldap_set_option(ldap, LDAP_OPT_X_TLS_REQUIRE_CERT, &demand);
    if (result == LDAP_SUCCESS) result = ldap_set_option(ldap, LDAP_OPT_X_TLS_PROTOCOL_MIN, &least);
    if (result == LDAP_SUCCESS) result = ldap_set_option(ldap, LDAP_OPT_X_TLS_NEWCTX, &client);
    if (result != LDAP_SUCCESS) agent_fail("TLS with the authorities of %s: %s", file, ldap_err2string(result));
    return result;
}

/* Connects: with TLS, unless the server is on this machine (ldapi), or the settings allow clear text. */
static int connect_to(struct connection *connection)
{
    const char *servers = agent_setting("server", "");
    int version = LDAP_VERSION3, result = ldap_initialize(&connection->ldap, servers);
    connection->is_used = 0;
    if (result != LDAP_SUCCESS) {
        connection->ldap = NULL;
        agent_fail("server %s: %s", servers, ldap_err2string(result));
        return result;
    }
    LDAP *ldap = connection->ldap;
    ldap_set_option(ldap, LDAP_OPT_PROTOCOL_VERSION, &version);
    /* The password would be sent to whatever server a referral names. */
    ldap_set_option(ldap, LDAP_OPT_REFERRALS, LDAP_OPT_OFF);
    ldap_set_option(ldap, LDAP_OPT_RESTART, LDAP_OPT_ON);
    int is_tls = !strncmp(servers, "ldaps:", 6), is_plain = !strncmp(servers, "ldap:", 5);
    int starts_tls = is_plain && !*agent_setting("clear_text", "");
    if ((is_tls || starts_tls) && (result = require_certificate(ldap)) != LDAP_SUCCESS) return result;
    if ((result = bound(ldap)) == LDAP_SUCCESS && starts_tls) result = ldap_start_tls_s(ldap, NULL, NULL);
    if (result != LDAP_SUCCESS) agent_fail("%s: %s%s", servers, starts_tls ? "StartTLS: " : "", detail(ldap, result));
    return result;
}

/* Reads the first line of bind_password_file; returns its length, or -1. */
static ssize_t read_secret(char *into, size_t size)
{
    const char *file = agent_setting("bind_password_file", NULL);
    if (!file) return 0;
    int descriptor = open(file, O_RDONLY | O_CLOEXEC);
    ssize_t bytes = descriptor < 0 ? -1 : read(descriptor, into, size);
    if (bytes < 0) agent_fail("bind_password_file %s: %s", file, strerror(errno));
    if (descriptor >= 0) close(descriptor);
    if (bytes < 0) return -1;
    char *end = memchr(into, '\n', (size_t)bytes);
    if (end) bytes = end - into;
    if (bytes && into[bytes - 1] == '\r') bytes--;
    if (bytes) return bytes;
    /* A bind without a password would succeed as nobody. */
    agent_fail("bind_password_file %s: its first line is empty", file);
    return -1;
}

static int simple_bind(LDAP *ldap, const char *dn, const char *password, size_t bytes)
{
    int result = bound(ldap);
    if (result != LDAP_SUCCESS) return result;
    struct berval secret = {bytes, (char *)(size_t)password};
    return ldap_sasl_bind_s(ldap, dn, LDAP_SASL_SIMPLE, &secret, NULL, NULL, NULL);
}

/* Binds the connection for searches, as bind_dn or as nobody. */
static int bind_for_search(void)
{
    char secret[SECRET_BYTES_MAX];
    const char *dn = agent_setting("bind_dn", "");
    ssize_t bytes = *dn ? read_secret(secret, sizeof secret) : 0;
    if (bytes < 0) return LDAP_LOCAL_ERROR;
    int result = simple_bind(search.ldap, dn, secret, (size_t)bytes);
    explicit_bzero(secret, sizeof secret);
    if (result != LDAP_SUCCESS) agent_fail("%s: bind as \"%s\": %s", agent_setting("server", ""), dn, detail(search.ldap, result));
    return result;
}

/* Makes sure that there is a connection. It may have broken since it was last used. */
static int have(struct connection *connection)
{
    if (connection->ldap) {
        connection->is_used = 1;
        return LDAP_SUCCESS;
    }
    int result = connect_to(connection);
    if (result == LDAP_SUCCESS && connection == &search) result = bind_for_search();
    if (result != LDAP_SUCCESS) disconnect(connection);
    return result;
}

/* ---- Searches ---- */

/* Searches on a connection, once more on a new one if the server has closed it while it was idle. NULL: the question is answered. */
static LDAPMessage *find(struct connection *connection, const char *base, int scope, const char *filter, const char *attribute, int most)
{
    char *attributes[] = {(char *)(size_t)attribute, NULL};
    for (;;) {
        LDAPMessage *found = NULL;
        if (have(connection) != LDAP_SUCCESS) return NULL;
        int result = bound(connection->ldap);
        if (result == LDAP_SUCCESS)
            result = ldap_search_ext_s(connection->ldap, base, scope, filter, attributes, 0, NULL, NULL, NULL, most, &found);
        if (result == LDAP_SUCCESS) return found;
        if (found) ldap_msgfree(found);
        int is_again = is_broken(result) && result != LDAP_TIMEOUT && connection->is_used && connection == &search;
        if (!is_again) {
            if (result == LDAP_SIZELIMIT_EXCEEDED)
                agent_fail("%s finds more than %d entries below \"%s\"", filter, most, base);
            else
                agent_fail("%s: search below \"%s\": %s", agent_setting("server", ""), base, detail(connection->ldap, result));
        }
        if (is_broken(result)) disconnect(connection);
        if (!is_again) return NULL;
    }
}

/* The first value of an attribute, if it is a text of one line: of strdup, or NULL. */
static char *value_of(LDAP *ldap, LDAPMessage *entry, const char *attribute)
{
    struct berval **values = ldap_get_values_len(ldap, entry, attribute);
    char *text = NULL;
    if (values && values[0] && values[0]->bv_len && !memchr(values[0]->bv_val, '\0', values[0]->bv_len))
        text = strndup(values[0]->bv_val, values[0]->bv_len);
    if (values) ldap_value_free_len(values);
    if (text && agent_has_controls(text)) {
        free(text);
        text = NULL;
    }
    return text;
}

/* The attribute with the name of a user: that of the settings, or the one that the filter compares with %u. */
static const char *name_attribute(const char *filter)
{
    static char name[128];
    const char *set = agent_setting("name_attribute", NULL);
    if (set) return set;
    const char *end = strstr(filter, "=%u");
    const char *begin = end;
    while (begin && begin > filter && !strchr("(&|!<>~:", begin[-1])) begin--;
    snprintf(name, sizeof name, "%.*s", end ? (int)(end - begin) : 0, end ? begin : "");
    return *name ? name : "uid";
}

/* ---- Users ---- */

/* Binds as a user. 1: the password is right; 0: it is answered. `dn` is the name of an entry, or another one that the server knows. */
static int bind_user(const char *dn, const char *password)
{
    for (;;) {
        if (have(&binds) != LDAP_SUCCESS) return 0;
        int result = simple_bind(binds.ldap, dn, password, strlen(password));
        switch (result) {
        case LDAP_SUCCESS:
            return 1;
        case LDAP_INVALID_CREDENTIALS:
        case LDAP_NO_SUCH_OBJECT:
        case LDAP_INVALID_DN_SYNTAX:
        case LDAP_INAPPROPRIATE_AUTH:
        case LDAP_UNWILLING_TO_PERFORM:
        case LDAP_CONSTRAINT_VIOLATION:
            agent_refuse("bind as \"%s\": %s", dn, detail(binds.ldap, result));
            return 0;
        default:
            if (!is_broken(result) || result == LDAP_TIMEOUT || !binds.is_used)
                agent_fail("%s: bind as \"%s\": %s", agent_setting("server", ""), dn, detail(binds.ldap, result));
            if (is_broken(result)) disconnect(&binds);
            if (agent_is_answered()) return 0;
        }
    }
}

/* Finds the entry of a user by the filter. 1; 0: it is answered. */
static int search_user(const struct agent_question *question, struct user *user)
{
    const char *base = agent_setting("base", ""), *filter = agent_setting("filter", "(uid=%u)");
    const char *attribute = name_attribute(filter);
    char *text = ldap_text_fill(filter, question->name, "", ldap_text_for_filter);
    if (!text) {
        agent_fail("out of memory");
        return 0;
    }
    LDAPMessage *found = find(&search, base, LDAP_SCOPE_SUBTREE, text, attribute, 2);
    free(text);
    if (!found) return 0;
    int entries = ldap_count_entries(search.ldap, found);
    LDAPMessage *entry = ldap_first_entry(search.ldap, found);
    if (entries == 1) {
        user->dn = ldap_get_dn(search.ldap, entry);
        user->name = value_of(search.ldap, entry, attribute);
    }
    ldap_msgfree(found);
    if (entries > 1) {
        agent_fail("the filter %s finds several entries of one user", filter);
    } else if (entries < 1) {
        /* As long as for a user who exists. */
        char *dn = ldap_text_join(NOBODY, base);
        if (dn && bind_user(dn, question->password)) agent_refuse("no such user");
        agent_refuse("no such user");
        free(dn);
    } else if (!user->dn || !*user->dn) {
        agent_fail("the directory does not tell the name of the entry");
    } else if (!user->name) {
        agent_fail("the entry \"%s\" has no attribute %s that can be read: set name_attribute", user->dn, attribute);
    }
    return !agent_is_answered();
}

/* Reads the name of the user from the first part of the entry's name (uid=ann,…). */
static char *name_of_dn(const char *dn)
{
    LDAPDN parsed = NULL;
    char *name = NULL;
    if (ldap_str2dn(dn, &parsed, LDAP_DN_FORMAT_LDAPV3) == LDAP_SUCCESS && parsed && parsed[0] && parsed[0][0]) {
        const struct berval *value = &parsed[0][0]->la_value;
        if (!memchr(value->bv_val, '\0', value->bv_len)) name = strndup(value->bv_val, value->bv_len);
    }
    if (parsed) ldap_dnfree(parsed);
    if (name && (!*name || agent_has_controls(name))) {
        free(name);
        name = NULL;
    }
    return name;
}

/* Asks the server who is bound (RFC 4532), because the spelling of the client (ANN) may be another one than that of the directory (ann),
   and rules are about one. "dn:uid=ann,…", or "u:EXAMPLE\ann". */
static void who_am_i(struct user *user)
{
    struct berval *said = NULL;
    char *text = NULL;
    if (bound(binds.ldap) == LDAP_SUCCESS && ldap_whoami_s(binds.ldap, &said, NULL, NULL) == LDAP_SUCCESS && said)
        text = strndup(said->bv_val, said->bv_len);
    if (said) ber_bvfree(said);
    if (text && !strncmp(text, "dn:", 3) && text[3]) {
        user->dn = ldap_strdup(text + 3);
        user->name = name_of_dn(text + 3);
    } else if (text && !strncmp(text, "u:", 2) && !agent_has_controls(text)) {
        const char *name = strrchr(text, '\\');
        user->name = strdup(name ? name + 1 : text + 2);
    }
    free(text);
}

/* Binds as the entry that user_dn names. 1; 0: it is answered. */
static int bind_by_template(const struct agent_question *question, const char *template, struct user *user)
{
    int is_dn = strchr(template, '=') != NULL;
    /* Other names than those of entries (ann@example.org) have no escapes. */
    if (!is_dn && strpbrk(question->name, "@\\/\"")) {
        agent_refuse("a name that no user has");
        return 0;
    }
    char *dn = ldap_text_fill(template, question->name, "", is_dn ? ldap_text_for_dn : ldap_text_as_it_is);
    if (!dn) {
        agent_fail("out of memory");
        return 0;
    }
    int is_right = bind_user(dn, question->password);
    if (is_right) who_am_i(user);
    const char *attribute = agent_setting("name_attribute", NULL);
    if (is_right && attribute) {
        free(user->name);
        user->name = NULL;
        LDAPMessage *found = find(&binds, user->dn ? user->dn : dn, LDAP_SCOPE_BASE, "(objectClass=*)", attribute, 1);
        if (found) user->name = value_of(binds.ldap, ldap_first_entry(binds.ldap, found), attribute);
        if (found) ldap_msgfree(found);
    }
    free(dn);
    if (is_right && !user->name)
        agent_fail("the directory does not tell the name of the user: set name_attribute, or filter instead of user_dn");
    return !agent_is_answered();
}

/* ---- Groups ---- */

/* Adds the groups of a user. 1; 0: it is answered, because a rule about groups must not be decided without them. */
static int find_groups(struct connection *connection, const struct user *user)
{
    const char *base = agent_setting("group_base", NULL), *attribute = agent_setting("group_attribute", "cn");
    const char *template = agent_setting("group_filter", "(|(member=%d)(uniqueMember=%d)(memberUid=%u))");
    if (!base) return 1;
    if (!user->dn && strstr(template, "%d")) {
        agent_fail("the directory does not tell the name of the user's entry: write group_filter without %%d");
        return 0;
    }
    char *filter = ldap_text_fill(template, user->name, user->dn ? user->dn : "", ldap_text_for_filter);
    LDAPMessage *found = filter ? find(connection, base, LDAP_SCOPE_SUBTREE, filter, attribute, GROUPS_MAX) : NULL;
    free(filter);
    if (!found) {
        agent_fail("out of memory");
        return 0;
    }
    LDAP *ldap = connection->ldap;
    for (LDAPMessage *entry = ldap_first_entry(ldap, found); entry; entry = ldap_next_entry(ldap, entry)) {
        char *name = value_of(ldap, entry, attribute);
        if (name) agent_group(name);
        free(name);
    }
    ldap_msgfree(found);
    return 1;
}

static void answer(const struct agent_question *question)
{
    const char *template = agent_setting("user_dn", NULL);
    struct user user = {NULL, NULL};
    int is_known = template ? bind_by_template(question, template, &user)
                            : search_user(question, &user) && bind_user(user.dn, question->password);
    if (is_known && find_groups(template ? &binds : &search, &user)) agent_accept(user.name);
    if (user.dn) ldap_memfree(user.dn);
    free(user.name);
}

int main(void)
{
    struct agent_question question;
    agent_begin();
    /* Only the settings of the server count, not those of ldap.conf or ldaprc. */
    setenv("LDAPNOINIT", "1", 1);
    while (agent_next(&question)) {
        if (agent_settings_have_changed()) {
            disconnect(&search);
            disconnect(&binds);
        }
        answer(&question);
    }
    disconnect(&search);
    disconnect(&binds);
    return 0;
}
