"""The Python engine of Sluice: a process that runs one Python script or WSGI request after another.

The server starts it for routes with `mode = "rte"` and `engine = "python"`. The work is done in sluice_engine; this file only makes it
importable, without leaving its directory on sys.path, which belongs to the scripts."""

import os
import sys

if sys.version_info < (3, 9):
    sys.stderr.write("The Python engine needs Python 3.9 or newer; this is %d.%d.\n" % sys.version_info[:2])
    sys.exit(64)

sys.path[0] = os.path.dirname(os.path.abspath(__file__))
from sluice_engine import loop  # noqa: E402

del sys.path[0]

if __name__ == "__main__":
    loop.main(sys.argv[1:])
