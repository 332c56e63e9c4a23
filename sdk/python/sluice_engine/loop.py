"""The start of the engine, and one request after another."""

import gc
import os

import sluice_engine

from .body import Body
from .channel import REGION_BYTES_MIN, Channel
from .environment import Environment
from .isolation import Isolation
from .modules import Modules, distrust_fresh_bytecode
from .native import install as install_library
from .options import Options
from .scripts import Scripts
from .streams import DISCARD, Streams

HEAD_BYTES_MAX = 8192  # of a reply whose body goes to the output region; a longer head is not searched for its end


def main(arguments):
    options = Options(arguments)
    channel = Channel()
    install_library()
    distrust_fresh_bytecode()
    environment = Environment()
    if options.app:
        from .wsgi import serve

        serve(channel, environment, options)
    else:
        run_scripts(channel, environment, options)


def run_scripts(channel, environment, options):
    """Serves requests by scripts until end-of-file."""
    streams = Streams(channel)
    isolation = Isolation(channel)
    scripts = Scripts(channel, streams, environment, isolation, Modules(isolation.interpreter.base_path))
    if options.fork:
        from .fork import Forks

        serve_one = Forks(scripts).serve
    else:
        serve_one = Turn(scripts).serve
    gc.collect()
    gc.freeze()
    while (record := channel.request()) is not None:
        if streams._buffer_bytes > channel.record_bytes_max and channel.keeps_records:
            streams.fits_records(channel.record_bytes_max)
            isolation.interpreter.adopt()
        sluice_engine.uses += 1
        serve_one(record)
        if isolation.retire:
            break
    exit_now()


def exit_now():
    """Ends the engine: what modules have registered for its end is called by CPython, and threads are not waited for."""
    import atexit

    try:
        atexit._run_exitfuncs()
    finally:
        os._exit(0)


class Turn:
    """Requests that are run in this process."""

    def __init__(self, scripts):
        self._scripts = scripts

    def serve(self, record):
        scripts = self._scripts
        scripts.environment.apply(record)
        length = record.get("CONTENT_LENGTH") or record.get("WWW_CONTENT_LENGTH")
        body = Body(scripts.channel, int(length)) if length and length.isdigit() and length != "0" else None
        failed = scripts.run(scripts.script(record))
        if body:
            body.end()
        self._end(failed)
        scripts.restore(body is not None)
        if scripts.modules.have_grown:
            # They stay, so the garbage collector can skip them.
            scripts.modules.have_grown = False
            gc.collect()
            gc.freeze()

    def _end(self, failed):
        """Writes the rest of the reply and the end sentinel."""
        isolation, mailbox, channel = self._scripts.isolation, self._scripts.streams.mailbox, self._scripts.channel
        isolation.processes.end()
        if failed:
            mailbox.mode = DISCARD
            channel.failed(failed)
            channel.finish()
            return
        held = mailbox.held
        data = held[0] if len(held) == 1 else b"".join(held)
        if len(data) >= REGION_BYTES_MIN and not mailbox.sent:
            channel.finish(*_parts(data))
        else:
            channel.finish(data)


def _parts(reply):
    """The body and the head of a whole reply; the reply and nothing if its head is too long, or has no end."""
    ends = [end for mark in (b"\n\n", b"\n\r\n") if (end := reply.find(mark, 0, HEAD_BYTES_MAX) + len(mark)) >= len(mark)]
    if not ends:
        return reply, b""
    return memoryview(reply)[min(ends) :], reply[: min(ends)]
