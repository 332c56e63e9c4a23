/* agent.h: what the agents have in common: the questions of the server, its settings, and the answers.

   An agent is asked by the server whether a password is right. It is a CGIplus script (docs/guides/access.md#agents): each question is a request
   with the variables REMOTE_USER, AUTH_PASSWORD and AUTH_AGENT, the settings. The functions here answer what needs no directory: tokens, and
   names and passwords that are empty. */
#ifndef SLUICE_AGENT_H
#define SLUICE_AGENT_H

#include <stddef.h>
#include <time.h>

/* What is asked: both texts are not empty. */
struct agent_question {
    const char *name;
    const char *password;
};

/* Prepares the process, once: secrets stay out of core dumps, and programs that modules start do not get its descriptors. */
void agent_begin(void);

/* Answers the last question, and waits for the next one. 0: the server needs this process no more. */
int agent_next(struct agent_question *question);

/* The value of a setting; `otherwise` if the server has not set it. Valid until agent_next(). */
const char *agent_setting(const char *name, const char *otherwise);

/* 1 if the settings are others than at the last question. */
int agent_settings_have_changed(void);

/* Seconds until the question must be answered, at least 0. */
double agent_seconds_left(void);

/* The answer: the first of agent_accept(), agent_refuse() and agent_fail() counts. Each takes one line; control characters become blanks.
   agent_group() adds a group of the user, before or after agent_accept(). */
void agent_accept(const char *name);
void agent_group(const char *name);
void agent_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
void agent_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* 1 if the question is answered. */
int agent_is_answered(void);

/* 1 if a text has control characters. */
int agent_has_controls(const char *text);

#endif
