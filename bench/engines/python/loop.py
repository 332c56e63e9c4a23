#!/usr/bin/env python3
"""The application as a CGIplus program, with nothing but the standard library."""
import os

import work

END = os.environ["CGIPLUSEOF"].encode()


def records():
    """Yields the variables of each request."""
    with open(int(os.environ["CGIPLUSIN"].rpartition("/")[2]), "rb") as lines:
        for start in lines:
            if start == b"!\n":
                variables = {}
                for line in lines:
                    if line == b"\n":
                        break
                    name, _, value = line[:-1].partition(b"=")
                    variables[name.decode()] = value.decode(errors="surrogateescape")
                yield variables


def read(size):
    """Reads exactly `size` bytes of the body; less at its end only."""
    blocks = []
    while size > 0:
        block = os.read(0, min(size, 65536))
        if not block:
            break
        blocks.append(block)
        size -= len(block)
    return b"".join(blocks)


def write(data):
    while data:
        data = data[os.write(1, data) :]


for request in records():
    variable = request.get
    body = work.reply(
        variable("REQUEST_METHOD"), variable("QUERY_STRING"), variable("CONTENT_TYPE"), int(variable("CONTENT_LENGTH") or 0),
        read,
    )  # fmt: skip
    write(b"Content-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % len(body) + body + END + b"\n")
