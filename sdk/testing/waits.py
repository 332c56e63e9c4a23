"""Waits with a deadline. Tests never sleep for a fixed time: they wait for an event, or poll a condition that has none."""

import threading
import time

# The longest wait for something that must happen: far longer than it takes on a busy machine.
DEADLINE = 60.0


def wait_until(condition, deadline=DEADLINE):
    """Polls a condition that has no event (the process table, files). False if it has not become true in time."""
    end = time.monotonic() + deadline
    pause = threading.Event()
    while not condition():
        if time.monotonic() > end:
            return False
        pause.wait(0.005)
    return True
