"""State of the interpreter that is compared with what it was, because a comparison is cheap."""

import _locale
import builtins
import gc
import os
import sys
import warnings

STREAMS = {"stdin", "stdout", "stderr", "__stdin__", "__stdout__", "__stderr__"}  # renewed by streams.py


class Interpreter:
    """The values to go back to."""

    def __init__(self):
        os.umask(mask := os.umask(0o077))
        self._mask = mask
        self._locale = _locale.setlocale(_locale.LC_ALL)
        self._recursion = sys.getrecursionlimit()
        self._interval = sys.getswitchinterval()
        self._thresholds = gc.get_threshold()
        self.path = sys.path  # the list object, which a script may replace
        self.base_path = list(sys.path)
        self.argv = sys.argv
        self._lists = [(sys.meta_path, list(sys.meta_path)), (sys.path_hooks, list(sys.path_hooks))]
        self._sys = dict(sys.__dict__)
        self._builtins = dict(builtins.__dict__)
        self._filters, self._filter_list = warnings.filters, list(warnings.filters)
        self._show = warnings.showwarning, warnings.formatwarning
        self._keep_filters_of_imports()

    def adopt(self):
        """Takes the streams of the module sys as they are now."""
        for name in STREAMS:
            self._sys[name] = sys.__dict__[name]

    def restore(self):
        os.umask(self._mask)
        if _locale.setlocale(_locale.LC_ALL) != self._locale:
            _locale.setlocale(_locale.LC_ALL, self._locale)
        if sys.__dict__ != self._sys:
            _restore_names(sys.__dict__, self._sys, STREAMS)
        if builtins.__dict__ != self._builtins:
            _restore_names(builtins.__dict__, self._builtins, {"_"} if "_" not in self._builtins else set())
            builtins.__dict__.pop("_", None)  # gettext.install()
        self.path[:] = self.base_path
        if sys.getrecursionlimit() != self._recursion:
            sys.setrecursionlimit(self._recursion)
        if not gc.isenabled() or gc.get_threshold() != self._thresholds:
            gc.enable()
            gc.set_threshold(*self._thresholds)
        socket = sys.modules.get("_socket")
        if socket is not None and socket.getdefaulttimeout() is not None:
            socket.setdefaulttimeout(None)
        if warnings.filters is not self._filters or self._filters != self._filter_list:
            self._restore_filters()
        self._restore_rare()

    def _restore_rare(self):
        if (warnings.showwarning, warnings.formatwarning) != self._show:
            warnings.showwarning, warnings.formatwarning = self._show
        if sys.gettrace() is not None:
            sys.settrace(None)
        if sys.getprofile() is not None:
            sys.setprofile(None)
        if sys.getswitchinterval() != self._interval:
            sys.setswitchinterval(self._interval)
        for current, saved in self._lists:
            if current != saved and len(current) < len(saved):
                current[:] = saved
        tempfile = sys.modules.get("tempfile")
        if tempfile is not None and tempfile.tempdir is not None:
            tempfile.tempdir = None

    def _restore_filters(self):
        warnings.filters = self._filters
        self._filters[:] = self._filter_list
        mutated = getattr(warnings, "_filters_mutated", None) or getattr(warnings, "_filters_mutated_lock_held", None)
        if mutated:
            try:
                mutated()
            except RuntimeError:  # Python 3.14: the lock has to be held
                with warnings._lock:
                    mutated()

    def _keep_filters_of_imports(self):
        """A filter that a module adds while it is imported stays."""
        from .owner import is_import

        add = getattr(warnings, "_add_filter", None)
        if add is None:
            return

        def _add_filter(*item, append):
            add(*item, append=append)
            main = sys.modules.get("__main__")
            if warnings.filters is self._filters and main is not None and is_import(main.__dict__):
                self._filter_list[:] = [f for f in self._filter_list if f != item]
                self._filter_list.insert(len(self._filter_list) if append else 0, item)

        warnings._add_filter = _add_filter


def _restore_names(current, saved, except_names):
    """Puts the changed entries of a dictionary back, removes new ones, adds missing ones."""
    for name in list(current):
        if name in except_names:
            continue
        if name not in saved:
            del current[name]
        elif current[name] is not saved[name]:
            current[name] = saved[name]
    for name in saved.keys() - current.keys() - except_names:
        current[name] = saved[name]
