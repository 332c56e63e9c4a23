"""What is undone by noting the calls of a script, because to look for the changes after each request would cost more.

Each function is replaced once, at the start of the engine, by one that notes what was and calls the original. Calls by a module that is
being imported are not noted (owner.py)."""

import atexit
import faulthandler
import logging
import os
import resource
import signal
import sys
import traceback

from .owner import is_import

# After these, the process is not what the server has started.
IRREVOCABLE = (
    "nice setpriority sched_setscheduler sched_setparam sched_setaffinity setuid seteuid setreuid setresuid setgid setegid setregid "
    "setresgid setgroups initgroups setsid setpgid setpgrp chroot unshare setns"
).split()


class Calls:
    """`restore` undoes what was noted, in reverse order."""

    def __init__(self, isolation):
        self._isolation = isolation
        self._undo = []
        self._noted = set()
        self._exit_functions = []
        self._globals = None
        self._wrap_signals()
        self._wrap_atexit()
        self._wrap_logging()
        self._wrap_limits()
        for name in IRREVOCABLE:
            if hasattr(os, name):
                self._wrap(os, name, lambda *_: setattr(isolation, "retire", not isolation.is_child or isolation.retire))

    def begin(self, script_globals):
        self._globals = script_globals

    def restore(self):
        self._globals = None
        while self._undo:
            function, *arguments = self._undo.pop()
            try:
                function(*arguments)
            except (OSError, ValueError):
                self._isolation.retire = True
        self._noted.clear()

    def run_exit_functions(self):
        """Calls what the script has registered with atexit, last first."""
        while self._exit_functions:
            function, arguments, named = self._exit_functions.pop()
            try:
                function(*arguments, **named)
            except SystemExit:
                pass
            except BaseException:  # noqa: BLE001 as atexit does
                sys.stderr.write("Error in atexit._run_exitfuncs:\n")
                traceback.print_exc()

    # ---- Noting ----

    def _is_of_script(self):
        return self._globals is not None and not is_import(self._globals, sys._getframe(2))

    def _note(self, key, function, *arguments):
        """Remembers how the first change of `key` is undone."""
        if key not in self._noted:
            self._noted.add(key)
            self._undo.append((function, *arguments))

    def _wrap(self, module, name, note):
        """Replaces a function by one that calls `note` with the arguments if the script calls it."""
        function = getattr(module, name)

        def call(*arguments, **named):
            if self._is_of_script():
                note(*arguments)
            return function(*arguments, **named)

        call.__name__, call.__doc__, call.__wrapped__ = name, function.__doc__, function
        setattr(module, name, call)
        return function

    # ---- Signals and timers ----

    def _wrap_signals(self):
        set_handler, get_handler = signal.signal, signal.getsignal

        def note_handler(number, *_):
            before = get_handler(number)
            self._note(("signal", int(number)), set_handler, number, signal.SIG_DFL if before is None else before)

        self._wrap(signal, "signal", note_handler)
        set_timer = signal.setitimer
        self._wrap(signal, "setitimer", lambda which, *_: self._note(("timer", which), set_timer, which, 0))
        self._wrap(signal, "alarm", lambda *_: self._note(("timer", signal.ITIMER_REAL), set_timer, signal.ITIMER_REAL, 0))
        set_mask = signal.pthread_sigmask
        self._wrap(
            signal, "pthread_sigmask", lambda *_: self._note("mask", set_mask, signal.SIG_SETMASK, set_mask(signal.SIG_BLOCK, ()))
        )
        wakeup = signal.set_wakeup_fd
        self._wrap(signal, "set_wakeup_fd", lambda *_: self._note("wakeup", wakeup, -1))
        interrupts = signal.siginterrupt
        self._wrap(signal, "siginterrupt", lambda number, *_: self._note(("restart", number), interrupts, number, True))
        cancel = faulthandler.cancel_dump_traceback_later
        self._wrap(faulthandler, "dump_traceback_later", lambda *_: self._note("dump", cancel))

    # ---- atexit ----

    def _wrap_atexit(self):
        register, unregister = atexit.register, atexit.unregister

        def script_register(func, /, *arguments, **named):
            if self._globals is None or is_import(self._globals):
                return register(func, *arguments, **named)
            if not callable(func):
                raise TypeError("the first argument must be callable")
            self._exit_functions.append((func, arguments, named))
            return func

        def script_unregister(func, /):
            self._exit_functions[:] = [entry for entry in self._exit_functions if entry[0] != func]
            unregister(func)

        atexit.register, atexit.unregister = script_register, script_unregister

    # ---- logging ----

    def _wrap_logging(self):
        manager = logging.Logger.manager

        def note_loggers(logger, *_):
            self._note("loggers", _restore_loggers, _state_of_loggers())

        for name in ("addHandler", "removeHandler", "setLevel", "addFilter"):
            owner = logging.Filterer if name == "addFilter" else logging.Logger
            self._wrap(owner, name, note_loggers)
        self._wrap(logging, "disable", lambda *_: self._note("disable", setattr, manager, "disable", manager.disable))

    # ---- Limits ----

    def _wrap_limits(self):
        set_limit, get_limit = resource.setrlimit, resource.getrlimit
        self._wrap(resource, "setrlimit", lambda which, *_: self._note(("limit", which), set_limit, which, get_limit(which)))


def _state_of_loggers():
    loggers = [logging.root, *(logger for logger in logging.Logger.manager.loggerDict.values() if isinstance(logger, logging.Logger))]
    return [(logger, list(logger.handlers), logger.level, list(logger.filters), logger.disabled, logger.propagate) for logger in loggers]


def _restore_loggers(states):
    """Puts all loggers back, and closes the handlers that were added."""
    before = {id(logger): state for logger, *state in states}
    for logger, handlers, level, *_ in _state_of_loggers():
        first_handlers, first_level, first_filters, first_disabled, first_propagate = before.get(id(logger)) or ([], 0, [], False, True)
        if first_handlers != handlers:
            added = [handler for handler in handlers if handler not in first_handlers and type(handler) is not logging.NullHandler]
            logger.handlers[:] = [handler for handler in handlers if handler not in added] or first_handlers
            for handler in added:
                handler.close()
        if level != first_level:
            logger.level = first_level
            logging.Logger.manager._clear_cache()
        logger.filters[:] = first_filters
        logger.disabled, logger.propagate = first_disabled, first_propagate
