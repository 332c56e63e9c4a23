"""The progress line: the current step and the remaining time.

Here: one line that is overwritten on a terminal, or otherwise a line every few seconds. Not here: the estimate of each
step (plan.py)."""

from __future__ import annotations

import sys
import time
from typing import Callable, TextIO

#: Without a terminal, the minimum interval between lines, seconds.
LINE_SECONDS = 10.0
#: The estimate is corrected by the observed pace only after this time, seconds.
PACE_SECONDS = 30.0


class Progress:
    def __init__(
        self, planned_seconds: float, out: TextIO = sys.stderr, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.planned = planned_seconds
        self.done = 0.0
        self.out = out
        self.clock = clock
        self.begin = clock()
        self.last_line = float("-inf")
        self.on_terminal = out.isatty()

    def left_seconds(self) -> float:
        spent = self.clock() - self.begin
        pace = spent / self.done if self.done > PACE_SECONDS else 1.0
        return max(0.0, (self.planned - self.done) * pace)

    def step(self, what: str, planned_seconds: float) -> None:
        """Ends the previous step and begins `what`, which is planned to take `seconds`."""
        line = f"{clock_time(self.left_seconds())} left   {what}"
        if self.on_terminal:
            self.out.write(f"\r\x1b[K{line[:110]}")
        elif self.clock() - self.last_line >= LINE_SECONDS:
            self.out.write(f"{line}\n")
            self.last_line = self.clock()
        self.out.flush()
        self.done += planned_seconds

    def say(self, line: str) -> None:
        """Prints a permanent line."""
        self.out.write(("\r\x1b[K" if self.on_terminal else "") + line + "\n")
        self.out.flush()

    def end(self) -> None:
        if self.on_terminal:
            self.out.write("\r\x1b[K")
            self.out.flush()


def clock_time(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
