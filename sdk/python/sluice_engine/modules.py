"""Imported modules that belong to scripts of one directory.

Two scripts in different directories may each have a `config.py` beside them. So a module that does not come from the paths of the
interpreter (its library, site-packages, PYTHONPATH) is visible only to scripts of the directory whose script imported it first."""

import os
import sys
import time
from importlib.machinery import SourceFileLoader

FRESH_SECONDS = 2


def distrust_fresh_bytecode():
    """Makes imports write no byte code of a source that has just changed. Such a file is valid for sources with the same size and the
    same second of change, so another change within that second would not be seen by the processes that the server starts for it."""
    write = SourceFileLoader._cache_bytecode

    def _cache_bytecode(self, source_path, cache_path, data):
        if time.time() - os.stat(source_path).st_mtime > FRESH_SECONDS:
            write(self, source_path, cache_path, data)

    SourceFileLoader._cache_bytecode = _cache_bytecode


class Modules:
    """Switches the local modules in sys.modules when a script of another directory runs."""

    def __init__(self, base_path):
        self._base = tuple(os.path.join(os.path.realpath(entry), "") for entry in base_path if entry)
        self._local = {}  # directory -> {name: module}
        self._directory = None
        self._seen = set(sys.modules)
        self.have_grown = False

    def enter(self, directory):
        """Before a script of this directory."""
        if directory == self._directory:
            return
        for name, module in self._local.get(self._directory, {}).items():
            if sys.modules.get(name) is module:
                del sys.modules[name]
        self._directory = directory
        sys.modules.update(self._local.get(directory, {}))
        self._seen = set(sys.modules)

    def leave(self):
        """After a script: notes the modules that it has imported."""
        if len(sys.modules) == len(self._seen):
            return
        for name in sys.modules.keys() - self._seen:
            if self._is_local(sys.modules[name]):
                self._local.setdefault(self._directory, {})[name] = sys.modules[name]
        self._seen = set(sys.modules)
        self.have_grown = True

    def _is_local(self, module):
        spec = getattr(module, "__spec__", None)
        origin = getattr(spec, "origin", None)
        if not isinstance(origin, str):  # a package without __init__.py
            origin = next(iter(getattr(spec, "submodule_search_locations", None) or ()), None)
        return isinstance(origin, str) and os.path.isabs(origin) and not os.path.realpath(origin).startswith(self._base)
