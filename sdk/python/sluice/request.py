"""The loop, the variables and the body of a request."""

from __future__ import annotations

import atexit
import os
import sys
from typing import Callable, Dict, Iterator, List, Optional, Union, overload

from .channel import END, channel

READ_BYTES = 65536


class State:
    """The request that is worked on. `ends`: functions of the other modules, called at its end."""

    is_open = False
    was_accepted = False  # CGI and the engine: the only request
    is_implied = False  # it was accepted by `begin`
    uses = 0
    variables: Dict[str, str] = {}
    left: Optional[int] = None  # of the body; None if it ends with end-of-file
    ends: List[Callable[[], None]] = []
    before_ends: List[Callable[[], None]] = []


def accept() -> bool:
    """Waits for the next request: true if there is one, false if the script should end. It finishes the response before, if that
    was not done."""
    if State.is_implied:
        State.is_implied = False
        return True
    if State.is_open:
        finish()
    if END:
        request = channel.request()
        if request is None:
            return False
        State.variables = request
        if not channel.asked_for_struct:
            channel.asked_for_struct = True
            channel.ask_for_faster_requests()
    else:
        if State.was_accepted:
            return False
        State.was_accepted = True
        State.variables = dict(os.environ)
        atexit.register(_end_of_script)
    State.uses += 1
    State.is_open = True
    length = variable("CONTENT_LENGTH")
    State.left = int(length) if length and length.isdigit() else 0 if END or "SCRIPT_RTE" in os.environ else None
    return True


def begin() -> None:
    """Accepts the only request of a CGI script, or of a script of the engine, that uses the library without `accept`."""
    if not (END or State.was_accepted):
        accept()
        State.is_implied = True


def requests() -> Iterator[int]:
    """The requests as an iterator of `uses()`: `for number in sluice.requests(): …`"""
    while accept():
        yield uses()


def finish() -> None:
    """Ends the response. `accept` and the end of the script do it, too."""
    if not State.is_open:
        return
    State.is_open = False
    try:
        for function in State.before_ends:
            function()
        if END:
            channel.end()
        else:
            channel.flush()
    finally:
        for function in State.ends:
            function()
        channel.forget()


def _end_of_script() -> None:
    """CGI and the engine, in which this module stays imported for the next script."""
    State.is_implied = False
    try:
        finish()
    finally:
        forget()


def forget() -> None:
    """Forgets the request. The engine calls it, too, because a script may end without its functions for the exit."""
    if State.is_open:
        State.is_open = False
        for function in State.ends:
            function()
    State.was_accepted = State.is_implied = False
    State.variables = {}


def is_persistent() -> bool:
    """Whether `accept` can be true again: the loop of a CGIplus script. Not under CGI, nor in the engine, which calls the script for each
    request."""
    return bool(END)


def uses() -> int:
    """The number of requests that this process has got, this one included. 1 under CGI and in fork mode, where each request has its own
    process."""
    engine = sys.modules.get("sluice_engine")
    return int(engine.uses) if engine else State.uses


@overload
def variable(name: str) -> Optional[str]: ...
@overload
def variable(name: str, default: str) -> str: ...
def variable(name: str, default: Optional[str] = None) -> Optional[str]:
    """A variable of the request. The name is case-insensitive, with or without `WWW_`."""
    found = variables_now()
    name = name.upper()
    plain = name[4:] if name.startswith("WWW_") else name
    for word in (name, plain, "WWW_" + plain):
        if word in found:
            return found[word]
    return default


def variables() -> Dict[str, str]:
    """All variables of the request (in CGI and the engine: of the environment)."""
    return dict(variables_now())


def variables_now() -> Dict[str, str]:
    return State.variables if State.is_open or END else dict(os.environ)


def body_read(size: int = -1) -> bytes:
    """Up to `size` bytes of the body as they arrive, b"" at its end; all that is left without a size. Do not read sys.stdin as well. In the
    engine, ConnectionResetError if the client has left before its end."""
    begin()
    if size < 0:
        parts = []
        while part := body_read(READ_BYTES):
            parts.append(part)
        return b"".join(parts)
    if State.left is not None:
        size = min(size, State.left)
    if size == 0 or not State.is_open:
        return b""
    if "sluice_engine.body" in sys.modules:
        sys.modules["sluice_engine.body"].await_body()  # ConnectionResetError if the client has left
    data = os.read(0, size)
    if State.left is not None:
        State.left = State.left - len(data) if data else 0
    return data


Data = Union[str, bytes, bytearray, memoryview]
assert sys.version_info >= (3, 9), "sluice needs Python 3.9 or newer"
