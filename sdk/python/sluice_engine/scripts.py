"""Scripts: compiled once, run as __main__ with fresh globals."""

import builtins
import contextvars
import os
import sys
import types
from importlib.machinery import SourceFileLoader

from . import failure
from .body import ClientHasLeft
from .streams import DISCARD, HOLD, PASS

SCRIPTS_MAX = 2000  # compiled scripts in memory; beyond, they are compiled again when they are needed


class Script:
    """A script file and its code."""

    def __init__(self, path):
        self.path = path
        self.directory = os.path.dirname(path) or "/"
        self.module_directory = os.path.dirname(os.path.realpath(path))
        self.is_imported = False  # --fresh=fork: its imports are done
        self.code = None
        self._identity = None

    def load(self):
        """Compiles the file if it is new or has changed."""
        status = os.stat(self.path)
        identity = (status.st_ino, status.st_mtime_ns, status.st_size)
        if identity != self._identity:
            with open(self.path, "rb") as file:
                source = file.read()
            self.code = compile(source, self.path, "exec", dont_inherit=True)
            self._identity = identity
            self.module_directory = os.path.dirname(os.path.realpath(self.path))
            self.is_imported = False

    def module(self):
        """A fresh __main__."""
        main = types.ModuleType("__main__")
        main.__dict__.update(
            __file__=self.path, __cached__=None, __loader__=SourceFileLoader("__main__", self.path), __builtins__=builtins
        )
        return main


class Scripts:
    """Runs the script of each request."""

    def __init__(self, channel, streams, environment, isolation, modules):
        self.channel = channel
        self.streams = streams
        self.environment = environment
        self.isolation = isolation
        self.modules = modules
        self.interpreter = isolation.interpreter
        self._scripts = {}

    def script(self, record):
        """The script that the request names."""
        name = record.get("SCRIPT_FILENAME") or record.get("WWW_SCRIPT_FILENAME") or ""
        script = self._scripts.get(name)
        if script is None:
            if len(self._scripts) >= SCRIPTS_MAX:
                self._scripts.clear()
            script = self._scripts[name] = Script(os.fsdecode(name.encode("latin-1")))
        return script

    def prepare(self, script):
        """Makes the process that of this script: working directory, arguments, paths and modules."""
        os.chdir(script.directory)
        sys.argv = self.interpreter.argv
        sys.argv[:] = [script.path]
        self.interpreter.path[:0] = [script.module_directory]
        self.modules.enter(script.module_directory)

    def run(self, script):
        """Runs a script up to the end of its output. Returns "" or why it has failed; what it has left unsent is in the mailbox."""
        mailbox = self.streams.mailbox
        failed, status, main = "", 0, None
        try:
            script.load()
            self.prepare(script)
            main = sys.modules["__main__"] = script.module()
            self.isolation.begin(main.__dict__)
            contextvars.Context().run(exec, script.code, main.__dict__)
        except SystemExit as stop:
            status = failure.exit_status(stop)
        except ClientHasLeft:
            mailbox.mode = DISCARD
        except BaseException as error:  # noqa: BLE001 whatever the script raises
            failed = self._failed(error, main)
        self._run_exit_functions()
        if mailbox.mode != DISCARD:
            mailbox.mode = HOLD
        if self.isolation.is_child:
            self._exit_child(1 if failed else status)
        self.streams.flush()
        if status and not failed:
            failed = self._judge(status)
        if main is not None:
            variables = main.__dict__
            del main
            while variables:
                variables.popitem()
            self.streams.flush()
        return failed

    def _run_exit_functions(self):
        try:
            self.isolation.run_exit_functions()
        except BaseException as error:  # noqa: BLE001 a signal handler of the script may raise
            failure.print_traceback(error, None)

    def _failed(self, error, main):
        """Reports an exception. "" if sys.excepthook (of cgitb, for example) has written a reply about it."""
        before = self.streams.output_bytes()
        try:
            text = failure.print_traceback(error, main and main.__dict__)
        except BaseException:  # noqa: BLE001 an excepthook of the script
            sys.__excepthook__(*sys.exc_info())
            text = failure.one_line(error, None)
        if sys.excepthook is not sys.__excepthook__ and self.streams.output_bytes() > before:
            return ""
        if not self.isolation.is_child:
            self.streams.mailbox.mode = DISCARD
        return text

    def _judge(self, status):
        """An empty text if there is a reply in spite of this exit status, otherwise what is reported."""
        mailbox = self.streams.mailbox
        size = mailbox.sent + sum(map(len, mailbox.held))
        if size:
            is_reply = failure.is_reply(mailbox.start + b"".join(mailbox.held), size)
        else:  # it may have written to descriptor 1 itself
            self.channel.callout(b"HTTP-STATUS:")
            code, text = self.channel.answer()
            is_reply = code == 200 and text[:3] != "000"
        if is_reply:
            return ""
        mailbox.mode = DISCARD
        return f"exit status {status}"

    def _exit_child(self, status):
        """Ends a process that the script has forked and that has run to the end of the script, as CPython ends: with its output
        flushed."""
        self.streams.mailbox.mode = HOLD
        self.streams.flush()
        self.streams.mailbox.mode = PASS
        self.streams.mailbox.release()
        os._exit(status)

    def restore(self, had_body):
        """Puts everything back after `run`."""
        self.environment.restore()
        self.modules.leave()
        if self.streams.renew(had_body):
            self.interpreter.adopt()
        self.isolation.restore()
