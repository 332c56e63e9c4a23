"""WSGI applications (PEP 3333): --app=MODULE:CALLABLE.

The application is imported before the first request. Descriptor 1 is standard error for it, because prints are no part of a reply;
the engine writes the reply to its own copy of the mailbox."""

import ast
import gc
import importlib
import io
import os
import sys
import traceback

import sluice_engine

from .body import ClientHasLeft
from .failure import one_line
from .loop import exit_now
from .wsgi_reply import FileWrapper, Reply, Unwritable

INPUT_BUFFER_BYTES = 65536
CO_COROUTINE = 0x80  # inspect.CO_COROUTINE


class AppError(Exception):
    """The application cannot be used as it is named."""


class Body(io.RawIOBase):
    """The body of a request: CONTENT_LENGTH bytes of the server's pipe, then end-of-file, until `end`: what comes after it on the pipe is the
    body of another request."""

    def __init__(self, fd, length):
        self._fd, self._left = fd, length
        self._is_reading = self._has_ended = False

    def end(self):
        """Ends it with the reply, for an application that has kept it. False if a thread waits for bytes of it: it would take those of the next body."""
        self._has_ended, self._left = self._left > 0, 0
        return not self._is_reading

    def readable(self):
        return True

    def readinto(self, buffer):
        if self._has_ended:
            raise ValueError("the request of this body has been answered")
        if not self._left:
            return 0
        view = memoryview(buffer)
        self._is_reading = True
        try:
            count = os.readv(self._fd, [view[: self._left] if len(view) > self._left else view])
        finally:
            self._is_reading = False
        if not count and len(view):
            raise ClientHasLeft
        self._left -= count
        return count


def load(name):
    """The application that "module:callable" names."""
    module_name, _, expression = name.partition(":")
    module = importlib.import_module(module_name)
    try:
        tree = ast.parse(expression, mode="eval").body
        call = tree if isinstance(tree, ast.Call) else None
        found = _attribute(module, call.func if call else tree)
        if call:
            arguments = [ast.literal_eval(argument) for argument in call.args]
            found = found(*arguments, **{keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords})
    except (SyntaxError, ValueError) as error:
        raise AppError(f"app = {name!r}: write module:callable or module:factory() with literal arguments ({error})") from None
    if not callable(found):
        raise AppError(f"app = {name!r}: {expression} is of type {type(found).__name__}, which cannot be called")
    if _is_coroutine(found) or _is_coroutine(getattr(type(found), "__call__", None)):
        raise AppError(
            f"app = {name!r}: {expression} is an ASGI application, and this engine runs WSGI: wrap it by a2wsgi.ASGIMiddleware (pip install a2wsgi)"
        )
    return found


def _is_coroutine(function):
    """Whether it is defined by `async def`."""
    return bool(getattr(getattr(function, "__code__", None), "co_flags", 0) & CO_COROUTINE)


def _attribute(module, tree):
    if isinstance(tree, ast.Name):
        if not hasattr(module, tree.id):
            raise AppError(f"{module.__name__} ({getattr(module, '__file__', 'no file')}) has no {tree.id!r}")
        return getattr(module, tree.id)
    if isinstance(tree, ast.Attribute):
        return getattr(_attribute(module, tree.value), tree.attr)
    raise ValueError("a name is expected")


class Application:
    """Calls the application, one request after another."""

    def __init__(self, channel, environment, name):
        self._channel = channel
        os.register_at_fork(after_in_child=channel.leave)
        channel.keep_stdout_apart()
        sluice_engine.application_channel = channel  # for callouts by the library
        sys.path.insert(0, os.getcwd())
        sys.argv = [name]
        sys.stdout.reconfigure(line_buffering=True)
        self._base = environment.start_variables()
        for word in ("CGIPLUSIN", "CGIPLUSBUF", "CGIPLUSESC", "CGIPLUSEOT"):
            self._base.pop(word, None)
        self._base.update(
            {
                "wsgi.version": (1, 0),
                "wsgi.errors": sys.stderr,
                "wsgi.multithread": False,
                "wsgi.multiprocess": True,
                "wsgi.run_once": False,
                "wsgi.input_terminated": True,
                "wsgi.file_wrapper": FileWrapper,
            }
        )
        self.callable, self.problem = None, ""
        self._body = None  # of the request
        self.must_end = False
        try:
            self.callable = load(name)
        except AppError as error:
            self.problem = str(error)
            sys.stderr.write(f"{error}\n")
        except BaseException as error:  # noqa: BLE001 whatever the module raises
            traceback.print_exception(type(error), error, _own_frames(error.__traceback__))
            self.problem = "the application cannot be imported: " + one_line(error, None)

    def environ(self, record):
        """The environment of a request."""
        environ = self._base.copy()
        if "WWW_REQUEST_METHOD" in record:  # variable_prefix of the route
            record = {name[4:] if name[:4] == "WWW_" else name: value for name, value in record.items()}
        environ.update(record)
        # A server may leave an empty one out (PEP 3333), but the usual ones do not, and applications rely on that.
        environ.setdefault("PATH_INFO", "")
        environ.setdefault("SCRIPT_NAME", "")
        length = environ.get("CONTENT_LENGTH")
        if length and length != "0":
            self._body = Body(self._channel.body, int(length))
            environ["wsgi.input"] = io.BufferedReader(self._body, INPUT_BUFFER_BYTES)
        else:
            environ["wsgi.input"] = io.BytesIO()
        environ["wsgi.url_scheme"] = environ.get("REQUEST_SCHEME") or ("https" if environ.get("HTTPS") in ("on", "1") else "http")
        return environ

    def serve(self, record):
        """Answers one request. True if the reply has been ended."""
        reply = Reply(self._channel, record, self._end_body)
        failed = self.problem or self.respond(record, reply)
        if failed and not reply.is_ended:
            reply.fail(failed)
        return True

    def _end_body(self):
        """Ends the body of the request, before its reply. The server sends the next one only after that."""
        if self._body:
            self.must_end |= not self._body.end()
            self._body = None

    def respond(self, record, reply):
        """Calls the application and writes what it returns. The reason if it fails."""
        result = None
        try:
            try:
                result = self.callable(self.environ(record), reply.start_response)
                reply.write_all(result)
            finally:
                if hasattr(result, "close"):
                    result.close()
            reply.end()
        except Unwritable:
            return "the server has closed the mailbox"
        except ClientHasLeft:
            reply.abandon()
            return ""
        except SystemExit as stop:
            return f"the application called sys.exit({stop.code!r})"
        except BaseException as error:  # noqa: BLE001 whatever the application raises
            trace = _own_frames(error.__traceback__)
            traceback.print_exception(type(error), error, trace)
            return one_line(error, trace)
        return ""


def _own_frames(trace):
    """The traceback from the first frame outside of the engine and of importlib."""
    here = os.path.dirname(os.path.abspath(__file__))
    first = trace
    while trace is not None and _is_engine(trace.tb_frame.f_code.co_filename, here):
        trace = trace.tb_next
    return trace or first


def _is_engine(file, here):
    return file.startswith((here, "<frozen importlib")) or file.endswith("importlib/__init__.py")


def serve(channel, environment, options):
    """Serves requests by the application until end-of-file."""
    application = Application(channel, environment, options.app)
    serve_one = application.serve
    if options.fork:
        from .fork import AppForks

        serve_one = AppForks(channel, application).serve
    gc.collect()
    gc.freeze()
    while (record := channel.request()) is not None:
        sluice_engine.uses += 1
        serve_one(record)
        if application.problem or application.must_end:
            break  # A thread reads a body that is not its own: this process is replaced.
    exit_now()
