"""The command line of the engine: [--app=MODULE:CALLABLE] [--fresh=fork]."""

import sys

USAGE_STATUS = 64  # EX_USAGE of sysexits.h


class Options:
    """What the server asks for. `app` is "" if scripts are run."""

    def __init__(self, arguments):
        self.app = ""
        self.fork = False
        for argument in arguments:
            name, equals, value = argument.partition("=")
            if name == "--app" and value:
                self.app = value
            elif name == "--fresh" and value == "fork":
                self.fork = True
            else:
                refuse(f"unknown option {argument!r}; known are --app=MODULE:CALLABLE and --fresh=fork")


def refuse(text):
    """Ends the engine because of its command line."""
    sys.stderr.write(f"Python engine: {text}\n")
    sys.exit(USAGE_STATUS)
