#!/usr/bin/env python3
"""A CGI script without a loop. As CGI each request has a process of its own; run by the engine (/rte/hello.py), the process stays."""

import os

import hello_uses

# The names of this script are new for each request; an imported module stays.
hello_uses.count += 1

print("Content-Type: text/plain; charset=utf-8")
print()
print(
    f"Hello from Python, process {os.getpid()}, use {hello_uses.count}: "
    f"{os.environ['REQUEST_METHOD']} from {os.environ['REMOTE_ADDR']}"
)
