#!/usr/bin/env python3
"""Prints the variables of the request. SCRIPT_RTE is the name of the engine."""

import os

print("Content-Type: text/plain; charset=utf-8")
print()
for name in sorted(os.environ):
    # Secrets of the protocol between server and script.
    if not name.startswith("CGIPLUS"):
        print(f"{name}={ascii(os.environ[name])[1:-1]}")
