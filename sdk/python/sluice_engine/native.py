"""Makes `import sluice` work in scripts without an installation of the library: it is found beside the engine, after everything else."""

import os
import sys
from importlib.machinery import PathFinder


class LibraryFinder:
    """The last entry of sys.meta_path."""

    directory = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return PathFinder.find_spec(name, [cls.directory]) if name == "sluice" else None


def install():
    sys.meta_path.append(LibraryFinder)
