"""Who makes a call: a module that is being imported, or the script."""

import sys


def is_import(script_globals, frame=None):
    """Whether the frame (default: the caller's caller) belongs to the import of a module: on the way up to the script there is the
    code of another module. Its effects stay, because the module stays and is not imported again."""
    frame = frame or sys._getframe(2)
    while frame is not None:
        if frame.f_globals is script_globals and frame.f_code.co_name == "<module>":
            return False
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") != "__main__":
            return True
        frame = frame.f_back
    return False
