"""The environment of a script: os.environ and that of the C library, which child processes inherit.

From request to request only few variables change, so only the difference is applied. Changes that a script makes by os.environ or
os.putenv are noted by name, because both end in os.putenv, which is replaced here."""

import os
import time

_putenv, _unsetenv = os.putenv, os.unsetenv


class Environment:
    """`start` is the environment of the process without CGIPLUSEOF and CGIPLUSSOCK; `apply` adds a request to it; `restore` takes back what the
    script has changed."""

    def __init__(self):
        self._object = os.environ
        self._objectb = os.environb
        self._data = os.environ._data  # names and values as bytes
        for name in (b"CGIPLUSEOF", b"CGIPLUSSOCK"):
            if self._data.pop(name, None) is not None:
                _unsetenv(name)
        self._start = dict(self._data)
        self._record = {}
        self._changed = set()
        self._note_changes()

    def start_variables(self):
        """The start environment as latin-1 text."""
        return {name.decode("latin-1"): value.decode("latin-1") for name, value in self._start.items()}

    def apply(self, record):
        """Changes the environment to that of the request with these variables."""
        before, data = self._record, self._data
        for name, value in record.items():
            if before.get(name) != value:
                key, raw = name.encode("latin-1"), value.encode("latin-1")
                data[key] = raw
                _putenv(key, raw)
        if len(before) != len(record) or before.keys() != record.keys():
            for name in before.keys() - record.keys():
                self._set(name.encode("latin-1"), None)
        self._record = record

    def restore(self):
        """Takes back the changes of the script."""
        if os.environ is not self._object or os.environb is not self._objectb:
            os.environ, os.environb = self._object, self._objectb
        if self._changed:
            changed, self._changed = self._changed, set()
            self._note_changes()
            for name in changed:
                value = self._record.get(name.decode("latin-1"))
                self._set(name, None if value is None else value.encode("latin-1"))
            if b"TZ" in changed:
                time.tzset()

    def _set(self, key, raw):
        """Sets a variable to `raw`; None: to its value in the start environment, or it is removed."""
        if raw is None:
            raw = self._start.get(key)
        if raw is not None:
            self._data[key] = raw
            _putenv(key, raw)
        elif self._data.pop(key, None) is not None or key not in self._start:
            _unsetenv(key)

    def _note_changes(self):
        changed = self._changed

        def putenv(name, value, /):
            _putenv(name, value)
            changed.add(os.fsencode(name))

        def unsetenv(name, /):
            _unsetenv(name)
            changed.add(os.fsencode(name))

        os.putenv, os.unsetenv = putenv, unsetenv
