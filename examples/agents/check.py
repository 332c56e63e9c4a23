#!/usr/bin/env python3
"""An authentication agent: users of a text file with lines NAME:PASSWORD:GROUP,GROUP. A real one would ask a directory server.

sluice.toml:
    access = { agent = "/agents/check.py", agent_parameters = "/etc/sluice/agent-users" }
"""
import hmac
import os
import sys

ESCAPE, END_OF_CALLOUT, END = (os.environ["CGIPLUS" + name] for name in ("ESC", "EOT", "EOF"))


def request(lines):
    """The variables of the next question, or None at the end."""
    variables = {}
    for line in lines:
        line = line.rstrip("\n")
        if line == "!":
            continue
        if not line:
            return variables
        name, _, value = line.partition("=")
        variables[name] = value
    return None


def answer(variables):
    """What is said of the user."""
    name, password = variables.get("REMOTE_USER", ""), variables.get("AUTH_PASSWORD", "")
    try:
        users = open(variables.get("AUTH_AGENT", ""), encoding="utf-8")
    except OSError as error:
        return [f"500 {error}"]
    with users:
        for line in users:
            user, expected, groups = (line.strip().split(":") + ["", ""])[:3]
            if user == name and hmac.compare_digest(expected.encode(), password.encode()):
                return ["100 USER " + user] + ["100 GROUP " + group for group in groups.split(",") if group]
    return ["401 no such user, or another password"]


with open(os.environ["CGIPLUSIN"], encoding="utf-8", errors="surrogateescape") as questions:
    while (variables := request(questions)) is not None:
        print(ESCAPE, *answer(variables), END_OF_CALLOUT, sep="\n")
        print(END, flush=True)
