#!/usr/bin/env python3
"""The application as a CGI script; under the engine, the same file."""
import os
import sys

import work

variable = os.environ.get
body = work.reply(
    variable("REQUEST_METHOD"), variable("QUERY_STRING"), variable("CONTENT_TYPE"), int(variable("CONTENT_LENGTH") or 0),
    sys.stdin.buffer.read,
)  # fmt: skip
sys.stdout.buffer.write(b"Content-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
