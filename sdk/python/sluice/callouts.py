"""Callouts: questions to the server in the middle of a response."""

from __future__ import annotations

import re
from typing import Optional, Tuple

from .channel import channel
from .request import variable

LINE_BYTES_MAX = 8191
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


class CalloutError(OSError):
    """The server has no callouts, or its answer cannot be understood."""


def callout(request: str) -> Tuple[int, str]:
    """Makes a callout such as "MAP-PATH: /x": the code and the text of the answer, (0, "") for one that begins with `!` or `#`,
    which has no answer."""
    send(request)
    return (0, "") if request[:1] in "!#" else answer()


def send(request: str) -> None:
    """Sends a callout without reading its answer."""
    line = request.encode("utf-8", "surrogateescape")
    if not line or _CONTROL.search(line) or len(line) > LINE_BYTES_MAX:
        raise ValueError(f"a callout is one line of up to {LINE_BYTES_MAX} bytes, not {request[:200]!r}")
    if not channel.callout(line):
        raise CalloutError("this server has no callouts")


def answer() -> Tuple[int, str]:
    """The next answer."""
    line = channel.line()
    if line is None:
        raise BrokenPipeError("the server has left")
    text = line.decode("utf-8", "surrogateescape")
    if not re.match(r"[0-9]{3}( |$)", text):
        raise CalloutError(f"no answer to a callout: {text!r}")
    return int(text[:3]), text[4:]


def _text(request: str) -> Optional[str]:
    code, text = callout(request)
    return text if code == 200 else None


def notice(text: str) -> None:
    """Writes a line to the server's log."""
    callout(f"NOTICED: {text}")


def watch(text: str) -> None:
    """Shows a line to those who watch this request (WATCH, item callouts). While nobody does nothing is sent."""
    if variable("WATCH_SCRIPT") is not None:
        line = _CONTROL.sub(b" ", text.encode("utf-8", "surrogateescape"))
        send("!WATCH: " + line.decode("utf-8", "surrogateescape"))


def map_path(path: str) -> Optional[str]:
    """The file for a path of the site; None if there is none."""
    return _text(f"MAP-PATH: {path}")


def map_file(file: str) -> Optional[str]:
    """The path of the site for a file; None if there is none."""
    return _text(f"MAP-FILE: {file}")


def lifetime(text: str) -> Optional[str]:
    """How long this process may be idle: "10" minutes, "30s", "5m", "2h", "none". What the server has accepted; None if it has not."""
    return _text(f"LIFETIME: {text}")
