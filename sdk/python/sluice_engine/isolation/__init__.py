"""What is put back after a script, so that nothing of one request reaches the next.

    interpreter.py  sys, builtins, warnings, locale, umask, gc, time-outs
    descriptors.py  files and sockets that were left open; descriptors 0 to 4
    processes.py    child processes that still run
    threads.py      threads that still run
    library.py      random, csv, urllib and ssl of the standard library
    calls.py        what is undone by noting the calls: signals, timers, atexit, logging, limits, priorities
    owner.py        whether a call comes from an import, whose effects stay with the module

Imported modules stay: that is the gain. What a module does while it is imported stays with it; what a script does, itself or
through functions, is taken back. A state that cannot be put back (a changed user, a thread of the script that does not end) makes the
process exit after the reply: `retire`."""

from . import calls
from .descriptors import Descriptors
from .interpreter import Interpreter
from .library import Library
from .processes import Processes
from .threads import Threads


class Isolation:
    """The state of the process before a script. Made when everything of the engine is loaded."""

    def __init__(self, channel):
        self.retire = False
        self.is_child = False  # of a fork(2) in a script
        self.processes = Processes(self, channel)
        self.descriptors = Descriptors(self, channel)
        self.threads = Threads(self)
        self.calls = calls.Calls(self)
        self.threads.note_calls(self.calls)
        self.library = Library(self.calls)
        self.interpreter = Interpreter()

    def begin(self, script_globals):
        """Before a script."""
        self.calls.begin(script_globals)

    def run_exit_functions(self):
        """What CPython does before it flushes the standard streams at its exit."""
        self.threads.finish()
        self.calls.run_exit_functions()

    def restore(self):
        """After a script, with its globals gone."""
        self.calls.restore()
        self.library.restore()
        self.processes.end()
        self.interpreter.restore()
        self.descriptors.restore()
