#!/usr/bin/env python3
"""printenv.py: a CGI script in Python. Prints its environment, sorted."""
import os
import sys

# Bytes, not text: what a client sends need not be UTF-8.
out = sys.stdout.buffer
out.write(b"Content-Type: text/plain\n\n")
for name, value in sorted(os.environb.items()):
    out.write(b"%s=%s\n" % (name, value))
