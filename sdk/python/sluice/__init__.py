"""Sluice for script authors: requests, forms, responses, callouts and the memory buffer.

    import sluice

    while sluice.accept():
        sluice.respond("text/plain; charset=utf-8")
        sluice.write(f"Hello, {sluice.variable('REMOTE_ADDR')}\\n")

The same source runs as CGI (the loop runs once), as CGIplus (it runs until the server ends it) and under the Python engine (once for each
request). Use it from one thread. Errors are exceptions: FormError, CalloutError, ValueError for what no response may contain, and
OSError, of which BrokenPipeError says that the client has left."""

from .buffer import buffer_begin, buffer_end, buffer_write
from .callouts import CalloutError, callout, lifetime, map_file, map_path, notice, watch
from .forms import FormError, Upload, parameter, parameter_names, parameters, upload, upload_limit, uploads
from .request import accept, body_read, finish, is_persistent, requests, uses, variable, variables
from .responses import event, fail, flush, header, redirect, respond, status, write
from .text import escape_html, url_decode, url_encode

__version__ = "0.1.0"

__all__ = [
    "CalloutError",
    "FormError",
    "Upload",
    "accept",
    "body_read",
    "buffer_begin",
    "buffer_end",
    "buffer_write",
    "callout",
    "escape_html",
    "event",
    "fail",
    "finish",
    "flush",
    "header",
    "is_persistent",
    "lifetime",
    "map_file",
    "map_path",
    "notice",
    "parameter",
    "parameter_names",
    "parameters",
    "redirect",
    "requests",
    "respond",
    "status",
    "upload",
    "upload_limit",
    "uploads",
    "uses",
    "url_decode",
    "url_encode",
    "variable",
    "variables",
    "watch",
    "write",
]
