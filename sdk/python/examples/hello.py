#!/usr/bin/env python3
"""hello: the smallest script. It runs as CGI, as CGIplus and under the Python engine."""

import sluice

while sluice.accept():
    sluice.respond("text/plain; charset=utf-8")
    sluice.write(f"Hello, {sluice.variable('REMOTE_ADDR')}.\n")
    sluice.write(f"This process has answered {sluice.uses()} request{'' if sluice.uses() == 1 else 's'}.\n")
