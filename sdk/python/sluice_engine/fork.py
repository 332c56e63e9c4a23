"""--fresh=fork: a child process for each request, so that nothing can be left behind.

The parent reads the requests, loads each script once (its code, and the modules that it imports at its top level), forks, and waits. It
never runs the code of a script. The child does the request on the same descriptors and ends the reply; the parent ends it if the child
could not."""

import ast
import gc
import io
import mmap
import os
import signal
import sys

import sluice_engine

from .loop import Turn

HAS_ENDED = 0  # a byte of the memory that parent and child share


class Fork:
    """One forked process for each call of `run`."""

    def __init__(self, channel):
        self.channel = channel
        self.shared = mmap.mmap(-1, mmap.PAGESIZE)

    def run(self, in_child, clean=lambda: None):
        """Calls `in_child` in a new process, which ends after it. If the child has not ended the reply, calls `clean` and ends it."""
        self.shared[HAS_ENDED] = 0
        connection = self.channel.mailbox, self.channel.input
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                self.channel.mailbox, self.channel.input = connection
                self.channel.region = None  # to map it for one request takes longer than the pipe
                sluice_engine.uses = 1  # nothing of an earlier request is in this process
                in_child()
                sys.stderr.flush()
                status = 0
            finally:
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if not self.shared[HAS_ENDED]:
            clean()
            if status:
                self.channel.failed(f"exit status {status}" if status > 0 else f"ended by signal {_name(-status)}")
            self.channel.finish()


class Forks(Turn):
    """Requests by scripts, each in a process of its own."""

    def __init__(self, scripts):
        super().__init__(scripts)
        self._fork = Fork(scripts.channel)
        self._processes = scripts.isolation.processes

    def serve(self, record):
        script = self._scripts.script(record)
        try:
            script.load()
            if not script.is_imported:
                self._import_modules_of(script)
        except Exception:  # noqa: BLE001 the child has the same problem, and reports it
            pass
        self._fork.run(lambda: self._in_child(record), self._end_processes)

    def _in_child(self, record):
        self._processes.becomes_main()
        super().serve(record)

    def _end_processes(self):
        """The parent finds all processes that the child has started, because they are its own when the child has ended."""
        self._processes.were_started = True
        self._processes.end()

    def _end(self, failed):
        if self._processes.were_started:  # the parent ends them, and then the reply
            self._scripts.channel.end = b""
        else:
            self._fork.shared[HAS_ENDED] = 1
        super()._end(failed)
        os._exit(0)

    def _import_modules_of(self, script):
        """Imports what a script imports at its top level."""
        scripts, output = self._scripts, sys.stdout
        sys.stdout = io.StringIO()
        try:
            scripts.prepare(script)
            with open(script.path, "rb") as file:
                import_modules(ast.parse(file.read()).body)
        finally:
            sys.stdout = output
            scripts.modules.leave()
            scripts.interpreter.restore()
        script.is_imported = True
        gc.collect()
        gc.freeze()


class AppForks:
    """Requests by a WSGI application, each in a process of its own."""

    def __init__(self, channel, application):
        self._application = application
        self._fork = Fork(channel)

    def serve(self, record):
        self._fork.run(lambda: self._in_child(record))

    def _in_child(self, record):
        channel = self._fork.channel
        if self._application.serve(record) and channel.mailbox != channel.null:
            self._fork.shared[HAS_ENDED] = 1


def import_modules(statements):
    """Does the imports of the top level of a script, those in `try` included."""
    for statement in statements:
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                _import(alias.name)
        elif isinstance(statement, ast.ImportFrom) and statement.level == 0:
            _import(statement.module, [alias.name for alias in statement.names])
        elif isinstance(statement, ast.Try):
            import_modules(statement.body)


def _import(name, names=()):
    try:
        __import__(name, fromlist=[word for word in names if word != "*"])
    except BaseException:  # noqa: BLE001 the child reports it
        pass


def _name(number):
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
