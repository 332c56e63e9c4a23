#!/usr/bin/env python3
"""counter: keeps a number in memory. As CGIplus it is a variable of this script. Under the Python engine the script starts again with each
request, but modules stay, and the library counts; as CGI each request has a process of its own and gets 1."""

import sluice

count = 0
while sluice.accept():
    count = count + 1 if sluice.is_persistent() else sluice.uses()
    sluice.header("Cache-Control", "no-store")
    sluice.respond("text/plain; charset=utf-8")
    sluice.write(f"{count}\n")
