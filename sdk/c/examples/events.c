/* events: server-sent events: ?count=N times (10 without it) the time, one each second (?pause=MILLISECONDS), as new EventSource("…") reads
   them. A client that connects again continues after the last event that it has seen. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "sluice.h"

/* A number that a client has sent. */
static long number(const char *text, long otherwise, long most)
{
    long value = text ? strtol(text, NULL, 10) : otherwise;
    return value < 0 ? 0 : value > most ? most : value;
}

static void send_events(void)
{
    long first = number(sluice_variable("HTTP_LAST_EVENT_ID"), 0, 1000000) + 1;
    long count = number(sluice_parameter("count"), 10, 1000), pause = number(sluice_parameter("pause"), 1000, 60000);
    struct timespec between = {.tv_sec = pause / 1000, .tv_nsec = pause % 1000 * 1000000};
    for (long id = first; id < first + count; id++) {
        char data[32], text[24];
        time_t now = time(NULL);
        strftime(data, sizeof data, "%H:%M:%S", localtime(&now));
        snprintf(text, sizeof text, "%ld", id);
        if (sluice_event(data, "tick", text)) return; /* the client has left */
        nanosleep(&between, NULL);
    }
}

int main(void)
{
    while (sluice_accept()) send_events();
}
