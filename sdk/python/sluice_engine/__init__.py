"""The parts of the Python engine.

    loop.py         the start, and one request after another
    options.py      the command line
    channel.py      descriptors, request records, sentinels, callouts
    environment.py  os.environ and the environment of the C library, changed by difference
    streams.py      sys.stdin, sys.stdout and sys.stderr of scripts
    body.py         descriptor 0 of scripts: the body, then end-of-file
    scripts.py      compiled scripts, and one run of one of them
    modules.py      imported modules: which belong to one directory of scripts only
    failure.py      tracebacks, exit statuses, and whether they spoil the reply
    isolation/      what is put back after a script
    wsgi.py         WSGI applications
    fork.py         --fresh=fork: a child process for each request
    native.py       import sluice without an installation

The order of a request: channel reads it, environment and body prepare the process, scripts (or wsgi) runs it, isolation puts everything
back, channel writes the rest of the reply and the end sentinel."""

uses = 0  # requests of this process, for sluice.uses()
