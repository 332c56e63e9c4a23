"""The standard streams of scripts, with the types and encodings that CPython gives a CGI process.

Output is collected up to BUFFER_BYTES and written as it comes beyond that, so that a small reply is one write(2), end sentinel
included. The same objects serve one request after another, unless a script closed, detached or reconfigured them."""

import io
import sys

from .body import Input

BUFFER_BYTES = 131072
KEPT_BYTES = 16384  # of what has been sent: enough for the head of a reply
HELD_BYTES_MAX = 1 << 20

PASS, HOLD, DISCARD = range(3)


class Mailbox(io.RawIOBase):
    """Descriptor 1 below sys.stdout. `mode` says what happens to output: it is written, held for the last write, or discarded."""

    name = "<stdout>"
    channel = None

    def __init__(self):
        self.mode = PASS
        self.start = b""  # what has been sent, up to KEPT_BYTES
        self.sent = 0
        self.held = []

    def fileno(self):
        return 1

    def writable(self):
        return True

    def write(self, data):
        size = len(data)
        if self.mode == PASS:
            if self.held:
                self.release()
            if self.sent < KEPT_BYTES:
                self.start += data[: KEPT_BYTES - self.sent]
            self.sent += size
            self.channel.write(data, 1)
        elif self.mode == HOLD:
            self.held.append(bytes(data))
            if size == BUFFER_BYTES and sum(map(len, self.held)) > HELD_BYTES_MAX:
                self.release()
        return size

    def release(self):
        """Writes what is held."""
        data, self.held, mode, self.mode = b"".join(self.held), [], self.mode, PASS
        self.write(data)
        self.mode = mode


class Text(io.TextIOWrapper):
    """A standard stream that notes whether it is as it was."""

    is_spoilt = False

    def reconfigure(self, **settings):
        self.is_spoilt = True
        super().reconfigure(**settings)

    def detach(self):
        self.is_spoilt = True
        return super().detach()

    def close(self):
        self.is_spoilt = True
        super().close()


class Streams:
    """sys.stdin, sys.stdout and sys.stderr of the script that runs."""

    def __init__(self, channel):
        Mailbox.channel = channel
        self._encodings = [(stream.encoding, stream.errors) for stream in (sys.stdin, sys.stdout, sys.stderr)]
        self._first = sys.stdin, sys.stdout, sys.stderr  # kept: their end would close what they share
        self._buffer_bytes = BUFFER_BYTES
        self.input = self._input()
        self.output, self.mailbox = self._output()
        self.errors = self._errors()
        self.install()

    def install(self):
        """Makes the streams those of the module sys."""
        sys.stdin = sys.__stdin__ = self.input
        sys.stdout = sys.__stdout__ = self.output
        sys.stderr = sys.__stderr__ = self.errors

    def _input(self):
        encoding, errors = self._encodings[0]
        return Text(io.BufferedReader(Input()), encoding, errors)

    def _output(self):
        encoding, errors = self._encodings[1]
        mailbox = Mailbox()
        return Text(io.BufferedWriter(mailbox, self._buffer_bytes), encoding, errors, "\n"), mailbox

    def _errors(self):
        encoding, errors = self._encodings[2]
        return Text(io.BufferedWriter(io.FileIO(2, "wb", closefd=False)), encoding, errors, "\n", line_buffering=True)

    def fits_records(self, bytes_max):
        """Makes the blocks of output no larger than a record."""
        self._buffer_bytes = min(BUFFER_BYTES, bytes_max // 4096 * 4096 or bytes_max)
        self.output, self.mailbox = self._output()
        self.install()

    # ---- After a script ----

    def flush(self):
        """Flushes what the script has left in sys.stdout, whatever it has put there, and in the stream below it."""
        if sys.stdout is not self.output:
            _flush(sys.stdout)
        if not _flush(self.output):
            self.output.is_spoilt = True
        if sys.stderr is not self.errors:
            _flush(sys.stderr)

    def renew(self, had_body):
        """Replaces the streams that the script has changed or read from, and forgets its output. True if there are new ones."""
        if not self._are_installed():
            self.install()  # an object that the script has put there ends here, and may close what is below it
        before = self.input, self.output, self.errors
        if had_body or self.input.is_spoilt or self.input.buffer.closed or self.input.__dict__:
            self.input = self._input()
        if self.output.is_spoilt or self.mailbox.closed or self.output.__dict__:
            self.output, self.mailbox = self._output()
        else:
            self.mailbox.__init__()
        if self.errors.is_spoilt or self.errors.closed or self.errors.__dict__:
            self.errors = self._errors()
        if before == (self.input, self.output, self.errors):
            return False
        self.install()
        return True

    def _are_installed(self):
        output, errors, input_ = self.output, self.errors, self.input
        return (
            sys.stdout is output
            and sys.__stdout__ is output
            and sys.stderr is errors
            and sys.__stderr__ is errors
            and sys.stdin is input_
            and sys.__stdin__ is input_
        )

    def output_bytes(self):
        """The bytes that the script has written to sys.stdout, sent or not."""
        mode, self.mailbox.mode = self.mailbox.mode, HOLD
        self.flush()
        self.mailbox.mode = mode
        return self.mailbox.sent + sum(map(len, self.mailbox.held))


def _flush(stream):
    """Flushes a stream; false if that is not possible."""
    try:
        stream.flush()
        return True
    except Exception:  # noqa: BLE001 a stream of the script may do anything
        return False
