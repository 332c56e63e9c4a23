#!/usr/bin/env python3
"""greet.py: answers a form. One file for both modes: as CGI it serves one request, as CGIplus one after another."""
import html
import os
import sys
from urllib.parse import parse_qs

BODY_BYTES_MAX = 10_000


def requests():
    """Yields the variables of each request."""
    if "CGIPLUSEOF" not in os.environ:  # CGI: the variables are the environment.
        yield os.environ
        return
    with open(os.environ["CGIPLUSIN"], encoding="utf-8", errors="surrogateescape", newline="\n") as records:
        for start in records:
            if start != "!\n":
                continue
            variables = {}
            while (line := records.readline()) not in ("\n", ""):
                name, _, value = line.rstrip("\n").partition("=")
                variables[name] = value
            if not line:  # End-of-file within a request: the server has exited.
                return
            yield variables
            print(os.environ["CGIPLUSEOF"], flush=True)


def read_fields(length):
    """Returns the fields of a urlencoded form. Reads exactly `length` bytes, because in CGIplus the input does not end."""
    body = sys.stdin.buffer.read(length).decode("utf-8", "replace")
    return {name: values[0] for name, values in parse_qs(body).items()}


def respond(variables, uses):
    length = int(variables.get("CONTENT_LENGTH") or 0)
    if length > BODY_BYTES_MAX:  # The server discards the unread body.
        print(f"Status: 413\nContent-Type: text/plain\n\nAt most {BODY_BYTES_MAX} bytes, please.")
        return
    form = read_fields(length)
    name = html.escape(form.get("name", "").strip() or "nobody")
    times = "once" if uses == 1 else f"{uses} times"
    print(f"""\
Content-Type: text/html; charset=utf-8

<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Hello</title>
<link rel="stylesheet" href="/style.css">
<main>
<h1>Hello, {name}</h1>
<p>You sent {length} bytes. Process {os.getpid()} has been used {times}.
<p><a href="/#form">Back to the form</a>
</main>""")


sys.stdout.reconfigure(encoding="utf-8")
for count, request in enumerate(requests(), start=1):
    respond(request, count)
