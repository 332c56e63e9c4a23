"""State of modules of the standard library that a script can change for the next one, and of the module sluice.

Most of those modules are large, so the engine does not import them: their functions are replaced when something else does."""

import _csv
import sys
import threading
from importlib.machinery import PathFinder


class Library:
    """An entry of sys.meta_path. `restore` puts back what no call shows."""

    def __init__(self, calls):
        self._calls = calls
        self._opener = None  # of urllib.request, if a module has installed one while it was imported
        self._contexts = None  # of ssl: what makes the contexts for https
        self._changes = {"random": self._random, "urllib.request": self._urllib, "ssl": self._ssl}
        for module, name in ((threading, "stack_size"), (_csv, "field_size_limit")):
            self._wrap_setting(module, name, getattr(module, name))
        for name in self._changes.keys() & sys.modules.keys():
            self._changes.pop(name)(sys.modules[name])
        sys.meta_path.insert(0, self)

    def find_spec(self, name, path=None, target=None):
        if name not in self._changes:
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module):
            del spec.loader.exec_module
            execute(module)
            if name in self._changes:
                self._changes.pop(name)(module)

        spec.loader.exec_module = exec_module
        return spec

    def restore(self):
        urllib = sys.modules.get("urllib.request")
        if urllib is not None and "urllib.request" not in self._changes:
            urllib._opener = self._opener
        request = sys.modules.get("sluice.request")
        if request is not None:
            request.forget()
        if self._contexts:
            sys.modules["ssl"]._create_default_https_context = self._contexts

    def _random(self, module):
        """A known state would make the numbers of the next script predictable."""
        for name in ("seed", "setstate"):
            self._calls._wrap(module, name, lambda *_: self._calls._note("random", module._inst.seed))

    def _wrap_setting(self, module, name, function):
        """A function that returns a value, and sets it if it has an argument."""
        self._calls._wrap(module, name, lambda *new: self._calls._note(name, function, function()))

    def _urllib(self, module):
        install, calls = module.install_opener, self._calls

        def install_opener(opener):
            if not calls._is_of_script():
                self._opener = opener
            install(opener)

        module.install_opener = install_opener

    def _ssl(self, module):
        self._contexts = module._create_default_https_context
