#!/usr/bin/env python3
"""counter.py: a CGIplus script in Python. The process stays, so it can count its requests."""
import os

end = os.environ["CGIPLUSEOF"]  # Not set in CGI.
uses = 0
# A request on CGIPLUSIN: a line "!", the variables as NAME=value, an empty line.
# On end-of-file the script must exit.
with open(os.environ["CGIPLUSIN"], encoding="utf-8", errors="surrogateescape", newline="\n") as requests:
    for start in requests:
        if start != "!\n":
            continue
        variables = {}
        while (line := requests.readline()) not in ("\n", ""):
            name, _, value = line.rstrip("\n").partition("=")
            variables[name] = value
        if not line:  # End-of-file within a request: the server has exited.
            break
        uses += 1
        print("Content-Type: text/plain\n")
        method, address = variables["REQUEST_METHOD"], variables["REMOTE_ADDR"]
        print(f"Python process {os.getpid()}, use {uses}: {method} from {address}")
        # Ends the reply; the process continues.
        print(end, flush=True)
