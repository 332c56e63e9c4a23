#!/usr/bin/env python3
"""Writes MEGABYTES+b or MEGABYTES+m (the query) in blocks of 64 kB: to the memory buffer, or to the mailbox."""
import os
import sys

BLOCK = b"x" * 65536
megabytes, _, channel = os.environ["QUERY_STRING"].partition("+")
blocks = int(megabytes) * 16
if channel == "b":
    import sluice

    sluice.accept()
    sluice.buffer_begin(4 * 1024 * 1024)
    sluice.header("Content-Type", "application/octet-stream")
    sluice.respond()
    for _ in range(blocks):
        sluice.buffer_write(BLOCK)
    sluice.buffer_end()
else:
    out = sys.stdout.buffer
    out.write(b"Content-Type: application/octet-stream\r\n\r\n")
    for _ in range(blocks):
        out.write(BLOCK)
