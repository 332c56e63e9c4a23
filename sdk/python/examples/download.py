#!/usr/bin/env python3
"""download: sends ?mb=N megabytes (64 without it) by the memory buffer, or by the mailbox where there is no buffer."""

import sluice

CHUNK = 64 << 10


def download(megabytes):
    # Before the head: the server may refuse, and the script can still choose.
    try:
        sluice.buffer_begin(4 << 20)
        write, has_buffer = sluice.buffer_write, True
    except OSError:
        write, has_buffer = sluice.write, False
    sluice.header("Content-Length", megabytes << 20)
    sluice.header("Content-Disposition", 'attachment; filename="download.bin"')
    sluice.header("X-Buffer", "yes" if has_buffer else "no")
    sluice.respond("application/octet-stream")
    chunks = [bytes([number]) * CHUNK for number in range(256)]
    try:
        for number in range(megabytes << 4):
            write(chunks[number & 0xFF])
        if has_buffer:
            sluice.buffer_end()
    except BrokenPipeError:
        pass  # the client has left


while sluice.accept():
    text = sluice.parameter("mb", "64")
    if text.isdigit() and int(text) <= 100000:
        download(int(text))
    else:
        sluice.fail(400, "mb is a number from 0 to 100000.")
