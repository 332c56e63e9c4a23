/* pam.c: an agent that asks PAM (pam(3)) whether the password of an account is right, and whether the account may be used.

   Settings (docs/guides/access.md#system-accounts-pam):
     service     the name of the service, "sluice": the rules are those of the file /etc/pam.d/sluice
     directory   the directory of the service's file, instead of those of the system

   A process of its own, because the modules of PAM may block, crash, change the process that calls them, and hold secrets. */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <security/pam_appl.h>
#include <sluice.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Groups of an account that the server gets. */
#define GROUPS_MAX 500

/* Bytes of what the modules say. */
#define SAID_BYTES_MAX 256

/* A conversation with the modules. */
struct conversation {
    const char *password;
    int asked;
    char said[SAID_BYTES_MAX];
};

/* Keeps the first thing that a module says, for the log. */
static void note(struct conversation *conversation, const char *text)
{
    if (!*conversation->said && text) snprintf(conversation->said, sizeof conversation->said, ": %s", text);
}

/* The modules ask for the password once, without echo. Further questions (a one-time code, a new password) have no answer here. */
static int converse(int count, const struct pam_message **messages, struct pam_response **responses, void *data)
{
    struct conversation *conversation = data;
    if (count <= 0 || count > PAM_MAX_NUM_MSG) return PAM_CONV_ERR;
    struct pam_response *answers = calloc((size_t)count, sizeof *answers);
    if (!answers) return PAM_BUF_ERR;
    for (int at = 0; at < count; at++) {
        const struct pam_message *message = messages[at];
        switch (message->msg_style) {
        case PAM_PROMPT_ECHO_OFF:
            if (conversation->asked++) {
                note(conversation, "a module asks for more than a password");
                goto failed;
            }
            if (!(answers[at].resp = strdup(conversation->password))) goto failed;
            break;
        case PAM_ERROR_MSG:
        case PAM_TEXT_INFO:
            note(conversation, message->msg);
            break;
        default:
            note(conversation, "a module asks a question that has no answer here");
            goto failed;
        }
    }
    *responses = answers;
    return PAM_SUCCESS;

failed:
    for (int at = 0; at < count; at++)
        if (answers[at].resp) {
            explicit_bzero(answers[at].resp, strlen(answers[at].resp));
            free(answers[at].resp);
        }
    free(answers);
    return PAM_CONV_ERR;
}

/* Modules delay the answer to a wrong password, which would hold up this process. The server delays it. */
static void no_delay(int result, unsigned microseconds, void *data)
{
    (void)result, (void)microseconds, (void)data;
}

/* Without a file of its own a service has the rules of the file "other", which often accepts every account of the system. */
static int has_service_file(const char *service, const char *directory)
{
    const char *const usual[] = {"/etc/pam.d", "/usr/lib/pam.d", "/usr/etc/pam.d"};
    const char *const *directories = directory ? &directory : usual;
    char path[4096];
    for (size_t at = 0; at < (directory ? 1 : sizeof usual / sizeof *usual); at++) {
        snprintf(path, sizeof path, "%s/%s", directories[at], service);
        if (!access(path, F_OK)) return 1;
    }
    agent_fail("there is no file of the service %s (%s/%s): write one, as the guide shows", service, directories[0], service);
    return 0;
}

/* Some modules make the name of a file of the name of the user, and an argument of a program. */
static int is_safe_name(const char *name)
{
    return !strchr(name, '/') && *name != '-' && strcmp(name, ".") && strcmp(name, "..");
}

/* The groups of an account of the system. */
static void say_groups(const struct passwd *account)
{
    static gid_t groups[GROUPS_MAX];
    int count = GROUPS_MAX;
    if (getgrouplist(account->pw_name, account->pw_gid, groups, &count) < 0) count = GROUPS_MAX;
    for (int at = 0; at < count; at++) {
        const struct group *group = getgrgid(groups[at]);
        if (group) agent_group(group->gr_name);
    }
}

/* Accepts the user by the name of the account: other spellings of it (ANN) may be accepted, too, and rules are about one. */
static void accept_user(pam_handle_t *pam, const char *asked)
{
    const void *item = NULL;
    const char *name = pam_get_item(pam, PAM_USER, &item) == PAM_SUCCESS && item ? item : asked;
    const struct passwd *account = getpwnam(name);
    if (account && !account->pw_uid) {
        agent_refuse("root is never accepted");
        return;
    }
    agent_accept(account ? account->pw_name : name);
    if (account) say_groups(account);
}

/* Whether an account is in the file of this machine, and not in a service that may be down. */
static int is_local(const char *name)
{
    FILE *file = fopen("/etc/passwd", "re");
    const struct passwd *account = NULL;
    if (!file) return 0;
    while ((account = fgetpwent(file)) && strcmp(account->pw_name, name)) continue;
    fclose(file);
    return account != NULL;
}

/* What a result means: the user's fault, or that of the system. */
static void answer(pam_handle_t *pam, int result, const char *name, const char *said)
{
    const char *text = pam_strerror(pam, result);
    switch (result) {
    case PAM_AUTH_ERR:
    case PAM_USER_UNKNOWN:
    case PAM_MAXTRIES:
    case PAM_PERM_DENIED:
    case PAM_ACCT_EXPIRED:
    case PAM_CRED_EXPIRED:
    case PAM_AUTHTOK_EXPIRED:
    case PAM_NEW_AUTHTOK_REQD:
        agent_refuse("%s%s", text, said);
        break;
    case PAM_AUTHINFO_UNAVAIL:
        /* pam_unix may not read the hash of this account. Another answer than for an unknown name would tell that it exists. */
        if (is_local(name)) {
            agent_refuse("%s%s", text, said);
            fprintf(stderr, "PAM: %s%s: for pam_unix the server's user must be in the group that may read /etc/shadow\n", text, said);
            break;
        }
        agent_fail("PAM: %s%s", text, said);
        break;
    default:
        agent_fail("PAM: %s%s", text, said);
    }
}

static void ask_modules(const struct agent_question *question, const char *service, const char *directory)
{
    struct conversation conversation = {.password = question->password};
    const struct pam_conv talk = {converse, &conversation};
    pam_handle_t *pam = NULL;
    int result = directory ? pam_start_confdir(service, question->name, &talk, directory, &pam)
                           : pam_start(service, question->name, &talk, &pam);
    if (result != PAM_SUCCESS) {
        agent_fail("PAM: the service %s: %s", service, pam_strerror(pam, result));
        return;
    }
    pam_set_item(pam, PAM_FAIL_DELAY, (const void *)(size_t)no_delay);
    const char *address = sluice_variable("REMOTE_ADDR");
    if (address) pam_set_item(pam, PAM_RHOST, address);
    result = pam_authenticate(pam, PAM_DISALLOW_NULL_AUTHTOK);
    if (result == PAM_SUCCESS) result = pam_acct_mgmt(pam, PAM_DISALLOW_NULL_AUTHTOK);
    if (result == PAM_SUCCESS)
        accept_user(pam, question->name);
    else
        answer(pam, result, question->name, conversation.said);
    pam_end(pam, result);
}

int main(void)
{
    struct agent_question question;
    agent_begin();
    /* What modules and their programs print must not become a part of the answer. */
    int output = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (output < 0) return 1;
    while (agent_next(&question)) {
        const char *service = agent_setting("service", "sluice"), *directory = agent_setting("directory", NULL);
        if (!is_safe_name(question.name)) {
            agent_refuse("a name that no account has");
            continue;
        }
        if (!has_service_file(service, directory)) continue;
        fflush(stdout);
        dup2(STDERR_FILENO, STDOUT_FILENO);
        ask_modules(&question, service, directory);
        fflush(stdout);
        if (dup2(output, STDOUT_FILENO) < 0) return 1;
    }
    return 0;
}
