"""The head and the body of a response."""

from __future__ import annotations

import re
from http.client import responses as PHRASES
from typing import List, Optional, Tuple
from urllib.parse import quote

from .channel import channel
from .request import Data, State, begin

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
URL_CHARACTERS = "!#$%&'()*+,/:;=?@[]~"


class Head:
    """The head of the response to be written."""

    code: Optional[int] = None
    fields: List[Tuple[str, str]] = []
    is_written = False


def _forget() -> None:
    Head.code, Head.fields, Head.is_written = None, [], False


def _write_late_head() -> None:
    """A response of which only the head was said."""
    if not Head.is_written and (Head.code is not None or Head.fields):
        respond()


State.before_ends.append(_write_late_head)
State.ends.append(_forget)


def status(code: int) -> None:
    """Sets the status of the response, 200 without it."""
    _check_open()
    if not 200 <= code <= 599:
        raise ValueError(f"no status of a response: {code!r}")
    Head.code = code


def header(name: str, value: object) -> None:
    """Adds a header field. ValueError if it contains a line break or another control character."""
    _check_open()
    text = str(value)
    if not _TOKEN.fullmatch(name) or _CONTROL.search(text):
        raise ValueError(f"no header field: {name!r}: {text!r}")
    if name.lower() == "content-type":
        Head.fields = [field for field in Head.fields if field[0].lower() != "content-type"]
    Head.fields.append((name, text))


def _check_open() -> None:
    begin()
    if Head.is_written:
        raise RuntimeError("the head of the response has been written")


def respond(type: Optional[str] = None) -> None:
    """Writes the head: once; later calls do nothing. The type is text/html in UTF-8 if none is said, and left out for 204 and 304."""
    begin()
    if Head.is_written:
        return
    if type is not None:
        header("Content-Type", type)
    elif Head.code not in (204, 304) and not any(name.lower() in ("content-type", "location") for name, _ in Head.fields):
        header("Content-Type", "text/html; charset=utf-8")
    lines = [] if Head.code is None else [f"Status: {Head.code} {PHRASES.get(Head.code, '')}".rstrip()]
    lines += (f"{name}: {value}" for name, value in Head.fields)
    Head.is_written = True
    channel.output().write(("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "surrogateescape"))


def write(data: Data) -> None:
    """Writes a part of the body: text (UTF-8) or bytes. It writes the head if that was not done."""
    if not Head.is_written:
        respond()
    channel.output().write(data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data)


def flush() -> None:
    """Sends what has been written."""
    channel.flush()


def redirect(url: str, code: int = 302) -> None:
    """A redirect as the whole response. The client goes to `url`, a path or a URL; what may not be in one is percent-encoded."""
    if not 300 <= code <= 399:
        raise ValueError(f"no status of a redirect: {code!r}")
    if _CONTROL.search(url):
        raise ValueError(f"no URL: {url!r}")
    status(code)
    header("Location", quote(url, safe=URL_CHARACTERS))
    respond("text/plain; charset=utf-8")


def fail(code: int, text: Optional[str] = None) -> None:
    """An error as the whole response, in plain text. RuntimeError if the head of another one has been written."""
    if not 400 <= code <= 599:
        raise ValueError(f"no status of an error: {code!r}")
    _check_open()
    Head.fields = []
    status(code)
    respond("text/plain; charset=utf-8")
    write(f"{code} {PHRASES.get(code, 'Error')}\n" + (f"{text}\n" if text else ""))


def event(data: str, name: Optional[str] = None, id: Optional[str] = None) -> bool:
    """Sends a server-sent event, the first one with the head of such a stream. False if the client has left. `name` and `id` are one
    line; `data` may be several."""
    begin()
    for text in (name, id):
        if text is not None and re.search(r"[\r\n\0]", text):
            raise ValueError(f"no name or id of an event: {text!r}")
    if not Head.is_written:
        if not any(field[0].lower() == "cache-control" for field in Head.fields):
            header("Cache-Control", "no-store")
        respond("text/event-stream")
    lines = [f"id: {id}"] if id is not None else []
    lines += [f"event: {name}"] if name is not None else []
    lines += [f"data: {line}" for line in re.split(r"\r\n|\r|\n", data)]
    try:
        write("\n".join(lines) + "\n\n")
        flush()
    except BrokenPipeError:
        return False
    return True
