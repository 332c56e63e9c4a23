"""How a script ended: tracebacks on standard error, exit statuses, and whether they spoil the reply."""

import sys
import traceback

FIELDS_OF_OTHER_STATUS = (b"status:", b"location:")


def exit_status(stop):
    """The exit status for a SystemExit, as CPython's: a text goes to standard error and is status 1."""
    code = stop.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    try:
        sys.stderr.write(f"{code}\n")
    except Exception:  # noqa: BLE001 the script may have replaced sys.stderr
        pass
    return 1


def print_traceback(error, script_globals):
    """Writes the traceback to sys.stderr, without the frames of the engine, as sys.excepthook would. Returns its last line with the
    place."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals is not script_globals:
        trace = trace.tb_next
    if sys.excepthook is not sys.__excepthook__:
        sys.excepthook(type(error), error, trace)
    else:
        traceback.print_exception(type(error), error, trace)
    return one_line(error, trace)


def one_line(error, trace):
    """`ValueError: no such colour (shop.py, line 12)`"""
    text = "".join(traceback.format_exception_only(type(error), error)[-1:]).strip()
    if trace is None:
        return text
    while trace.tb_next is not None:
        trace = trace.tb_next
    file = trace.tb_frame.f_code.co_filename.rpartition("/")[2]
    return f"{text} ({file}, line {trace.tb_lineno})"


def is_reply(start, size):
    """Whether output that begins with `start` and has `size` bytes is a reply of its own although the script has ended with another
    status than 0: it has a body, or its head says what happened (RFC 3875 section 6.2)."""
    for mark in (b"\n\n", b"\n\r\n"):
        at = start.find(mark)
        if at >= 0:
            if size > at + len(mark):
                return True
            lines = start[:at].lower().split(b"\n")
            return any(line.startswith(FIELDS_OF_OTHER_STATUS) and not line.startswith((b"status: 2", b"status:2")) for line in lines)
    return False
