#!/usr/bin/env python3
"""events: server-sent events: ?count=N times (10 without it) the time, one each second (?pause=MILLISECONDS), as new EventSource("…") reads
them. A client that connects again continues after the last event that it has seen."""

import time

import sluice


def number(text, most):
    """A number that a client has sent."""
    return min(int(text), most) if text.isdigit() else 0


def send_events():
    first = number(sluice.variable("HTTP_LAST_EVENT_ID", "0"), 1000000) + 1
    count, pause = number(sluice.parameter("count", "10"), 1000), number(sluice.parameter("pause", "1000"), 60000)
    for id in range(first, first + count):
        if not sluice.event(time.strftime("%H:%M:%S"), "tick", str(id)):
            return  # the client has left
        time.sleep(pause / 1000)


while sluice.accept():
    send_events()
