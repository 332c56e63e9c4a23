"""A test server for one script process: descriptors 0 to 4, requests, callouts, and the reader's side of the memory buffer.

It never sleeps: every wait is for an event, with a deadline that fails the test.
"""

import ctypes
import fcntl
import mmap
import os
import platform
import select
import signal
import socket
import struct
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.join(os.path.dirname(HERE), "build")
DEADLINE = 60.0  # seconds; only a failing test waits that long
DIGITS = "0123456789abcdef01234567"
END, ESCAPE, CLOSE = (f"${letter}-{DIGITS}-".encode() for letter in "ZED")
CONTROL_BYTES = 4096

LIBC = ctypes.CDLL(None, use_errno=True)
SYS_FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98}[platform.machine()]
FUTEX_WAKE = 1


class Ring:
    """The reader's side of a ring, without atomics: CPython runs thousands of instructions between two accesses, and no store
    stays in a store buffer that long. The strict version, with atomics, is peer.c."""

    def __init__(self, memory, capacity):
        os.ftruncate(memory, max(os.fstat(memory).st_size, CONTROL_BYTES + capacity))
        self.map = mmap.mmap(memory, CONTROL_BYTES + capacity)
        self.map[:CONTROL_BYTES] = bytes(CONTROL_BYTES)
        struct.pack_into("=8sQ", self.map, 0, b"SLUICER1", capacity)
        self.capacity = capacity
        self.sent = 0
        self.wakes = 0
        for name, kind, offset in (
            ("head", ctypes.c_uint64, 64),
            ("wake_at", ctypes.c_uint64, 72),
            ("writer_waits", ctypes.c_uint32, 80),
            ("tail", ctypes.c_uint64, 128),
            ("reader_sleeps", ctypes.c_uint32, 136),
            ("closed", ctypes.c_uint32, 140),
        ):
            setattr(self, name, kind.from_buffer(self.map, offset))

    def take(self, most):
        """Takes and frees up to `most` bytes."""
        count = min(self.head.value - self.sent, most)
        if count < 0 or self.head.value - self.sent > self.capacity:
            raise AssertionError(f"head {self.head.value} with tail {self.sent} of {self.capacity}")
        at = self.sent % self.capacity
        first = min(count, self.capacity - at)
        data = self.map[CONTROL_BYTES + at : CONTROL_BYTES + at + first] + self.map[CONTROL_BYTES : CONTROL_BYTES + count - first]
        self.sent += count
        self.tail.value = self.sent
        if self.sent >= self.wake_at.value:
            self.wake()
        return data

    def wake(self):
        if self.writer_waits.value:
            self.writer_waits.value = 0
            LIBC.syscall(SYS_FUTEX, ctypes.byref(self.writer_waits), FUTEX_WAKE, 1, None, None, 0)
            self.wakes += 1

    def close(self):
        self.closed.value = 1
        self.wake()


class Response:
    """The response to one request: `head`, `body` (including the bytes of the ring), `callouts` in order."""

    def __init__(self):
        self.output = bytearray()
        self.after_ring = bytearray()
        self.ring_bytes = bytearray()
        self.callouts = []
        self.doorbells = 0
        self.is_ended = False

    @property
    def head(self):
        return split_head(self.output)[0]

    @property
    def body(self):
        return split_head(self.output)[1] + bytes(self.ring_bytes) + bytes(self.after_ring)

    def field(self, name):
        for line in self.head.decode().splitlines():
            if line.lower().startswith(name.lower() + ":"):
                return line.split(":", 1)[1].strip()
        return None


def split_head(output):
    ends = [(output.find(mark), len(mark)) for mark in (b"\n\n", b"\n\r\n") if output.find(mark) >= 0]
    if not ends:
        return bytes(output), b""
    at, length = min(ends)
    return bytes(output[:at]).rstrip(b"\r"), bytes(output[at + length :])


class Script:
    """A script process. `records`: the mailbox keeps records. `persistent`: CGIplus, otherwise CGI with `variables`."""

    def __init__(self, program, *, persistent=True, variables=None, environment=None, records=False, wrapper=(), body=b"", plain=False, open_body=False):
        self.records = records
        self.persistent = persistent
        self.struct = False
        self.ring = None
        self.ring_capacity = None  # overrides what the script asks for
        self.ring_take = lambda: 1 << 30
        self.on_ring = lambda response: None
        self.answers = {}
        self.pending = bytearray()
        self.record_queue = []
        body_read, self.body_write = os.pipe()
        cgiplusin_read, self.cgiplusin = os.pipe()
        self.errors, errors_write = os.pipe()
        if records:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self.mailbox, mailbox_write = ours.detach(), theirs.detach()
        else:
            self.mailbox, mailbox_write = os.pipe()
            fcntl.fcntl(self.mailbox, fcntl.F_SETPIPE_SZ, 1 << 20)
        self.memory = os.memfd_create("ring")
        env = {"PATH": os.environ["PATH"]}
        if not plain:  # plain: an ordinary CGI server
            env |= {"CGIPLUSIN": "/dev/fd/3", "CGIPLUSBUF": "/dev/fd/4"}
            if persistent:
                env |= {"CGIPLUSEOF": END.decode(), "CGIPLUSESC": ESCAPE.decode(), "CGIPLUSEOT": CLOSE.decode()}
            else:
                env |= gateway_variables()
        env |= (environment or {}) | (variables or {})
        given = [body_read, mailbox_write, errors_write, cgiplusin_read, self.memory]
        high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 20) for descriptor in given]
        path = program if "/" in program else os.path.join(BUILD, program)
        command = [*wrapper, path]
        self.pid = os.posix_spawnp(
            command[0], command, env, file_actions=[(os.POSIX_SPAWN_DUP2, descriptor, wanted) for wanted, descriptor in enumerate(high)]
        )
        for descriptor in [*high, *given[:4]]:
            os.close(descriptor)
        self.status = None
        if not persistent:
            if body:
                os.write(self.body_write, body)
            if not open_body:
                self.end_body()

    def feed(self, data):
        """Writes a large body; the script may end before it has read all."""
        try:
            while data:
                data = data[os.write(self.body_write, data[:65536]) :]
        except BrokenPipeError:
            pass

    # ---- requests

    def request(self, variables, body=b"", mode=None):
        """Sends a request, in struct mode after the script has asked for it."""
        everything = gateway_variables() | variables
        if body:
            everything["CONTENT_LENGTH"] = str(len(body))
        entries = [f"{name}={value}".encode() for name, value in everything.items()]
        os.write(self.cgiplusin, encode_struct(entries) if (mode or ("struct" if self.struct else "record")) == "struct" else encode_records(entries))
        if body:
            os.write(self.body_write, body)

    def send(self, data):
        os.write(self.cgiplusin, data)

    def ask(self, variables, body=b"", mode=None):
        """Sends a request and returns its whole response."""
        self.request(variables, body, mode)
        return self.response()

    def end_body(self):
        if self.body_write is not None:
            os.close(self.body_write)
            self.body_write = None

    # ---- the mailbox

    def wait_readable(self, descriptor):
        if not select.select([descriptor], [], [], DEADLINE)[0]:
            raise AssertionError("the script wrote nothing before the deadline")

    def response(self):
        """Reads until the end sentinel or end-of-file."""
        response = Response()
        self.inside_callout = False
        while True:
            if self.ring_is_readable(response):
                self.read_ring(response)
            for kind, data in self.tokens(response):
                if kind == "end":
                    self.drain_ring(response)
                    response.is_ended = True
                    return response
                if kind == "eof":
                    self.drain_ring(response)
                    return response
                if kind == "callout":
                    self.answer(response, data)
                else:
                    self.output(response, data)

    def output(self, response, data):
        if self.ring_is_readable(response):
            response.doorbells += data.count(b"\0")
            assert data.strip(b"\0") == b"", f"not a doorbell: {data!r}"
        elif response.ring_bytes or getattr(response, "ring_ended", False):
            response.after_ring += data
        else:
            response.output += data

    def tokens(self, response):
        """The result of the next read, split at sentinels."""
        self.wait_readable(self.mailbox)
        chunk = os.read(self.mailbox, 1 << 20)
        if not chunk:
            tokens = [("bytes", bytes(self.pending)), ("eof", b"")]
            self.pending.clear()
            return tokens
        if self.records:
            return self.record_tokens(chunk)
        self.pending += chunk
        return self.stream_tokens()

    def record_tokens(self, record):
        text = record.rstrip(b"\r\n")
        if text == END:
            return [("end", b"")]
        if text in (ESCAPE, CLOSE):
            self.inside_callout = text == ESCAPE
            return []
        return [("callout" if self.inside_callout else "bytes", record)]

    def stream_tokens(self):
        tokens = []
        while True:
            if self.inside_callout:
                token = self.callout_token()
            else:
                token = self.output_token()
            if token is None:
                return tokens
            tokens.append(token)

    def output_token(self):
        found = [(self.pending.find(mark), mark) for mark in (END, ESCAPE) if mark in self.pending]
        if found:
            at, mark = min(found)
            if is_in_dump(self.pending, at):
                return "bytes", self.consume(at + len(mark))
            if at > 0:
                return "bytes", self.consume(at)
            if mark == END:
                self.consume(len(END))
                return "end", b""
            self.consume(len(ESCAPE))
            self.swallow_line_feed()
            self.inside_callout = True
            return "bytes", b""
        whole = len(self.pending) - held_back(self.pending)
        return ("bytes", self.consume(whole)) if whole else None

    def callout_token(self):
        close, line_end = self.pending.find(CLOSE), self.pending.find(b"\n")
        if close >= 0 and (line_end < 0 or close < line_end):
            if close > 0:
                return "callout", self.consume(close)
            self.consume(len(CLOSE))
            self.swallow_line_feed()
            self.inside_callout = False
            return "bytes", b""
        if line_end >= 0:
            return "callout", self.consume(line_end + 1)
        # A WASD script writes no line end and waits. The server detects that by a pause; here, one write without a line end is
        # taken as complete.
        if self.pending and not CLOSE.startswith(self.pending[:1]):
            return "callout", self.consume(len(self.pending))
        return None

    def swallow_line_feed(self):
        if self.pending[:1] == b"\n":
            self.consume(1)

    def consume(self, count):
        data = bytes(self.pending[:count])
        del self.pending[:count]
        return data

    # ---- callouts

    def answer(self, response, line):
        text = line.decode().strip("\r\n")
        response.callouts.append(text)
        wants_answer = not text.startswith(("!", "#"))
        keyword, _, parameters = text.lstrip("!#").partition(":")
        keyword, parameters = keyword.strip().upper(), parameters.strip()
        if keyword in self.answers:
            answer = self.answers[keyword]
        else:
            answer = getattr(self, "callout_" + keyword.lower().replace("-", "_"), self.unknown)(response, parameters)
        if wants_answer and answer is not None:
            os.write(self.cgiplusin, answer.encode() + b"\n")

    def unknown(self, response, parameters):
        return "400 unknown callout"

    def callout_noop(self, response, parameters):
        return "200 OK"

    def callout_map_path(self, response, parameters):
        return "200 /srv" + parameters

    def callout_map_file(self, response, parameters):
        return "200 " + parameters.removeprefix("/srv")

    def callout_lifetime(self, response, parameters):
        return "200 600"

    def callout_http_status(self, response, parameters):
        return "200 200"

    def callout_cgiplus(self, response, parameters):
        self.struct = parameters.lower() == "struct"
        return "200 OK"

    def callout_buffer_begin(self, response, parameters):
        size, _, kind = parameters.partition(" ")
        assert size.endswith("k") and kind == "ring", parameters
        capacity = self.ring_capacity or (int(size[:-1]) << 10) or 1 << 20
        capacity = max(8192, -(-capacity // 4096) * 4096)
        self.ring = Ring(self.memory, capacity)
        return f"200 /dev/fd/4 {capacity} ring"

    def callout_buffer_end(self, response, parameters):
        self.drain_ring(response)
        response.ring_ended = True
        return f"200 {len(response.ring_bytes)}"

    # ---- the ring

    def ring_is_readable(self, response):
        return self.ring is not None and any(mark in response.output for mark in (b"\n\n", b"\n\r\n"))

    def read_ring(self, response):
        """Empties the ring; then announces that it sleeps and checks again, as the protocol requires."""
        ring = self.ring
        while True:
            data = ring.take(self.ring_take())
            if data:
                response.ring_bytes += data
                self.on_ring(response)
                continue
            ring.reader_sleeps.value = 1
            if ring.head.value == ring.sent:
                return
            ring.reader_sleeps.value = 0

    def drain_ring(self, response):
        if self.ring:
            ring, self.ring = self.ring, None
            while data := ring.take(1 << 30):
                response.ring_bytes += data

    def writes(self):
        """Number of write system calls that the script has made; the last one may be missing."""
        with open(f"/proc/{self.pid}/io", encoding="ascii") as file:
            return int(next(line for line in file if line.startswith("syscw:")).split()[1])

    # ---- the end

    def close_cgiplusin(self):
        if self.cgiplusin is not None:
            os.close(self.cgiplusin)
            self.cgiplusin = None

    def hang_up(self):
        """Simulates a server that died: closes every channel."""
        self.close_cgiplusin()
        self.end_body()
        os.close(self.mailbox)
        self.mailbox = None

    def leave(self):
        """Closes CGIPLUSIN, which ends the script; returns its exit code (negative: the signal) and what it wrote to stderr."""
        self.close_cgiplusin()
        return self.wait()

    def wait(self):
        log = bytearray()
        end = time.monotonic() + DEADLINE
        while True:
            if not select.select([self.errors], [], [], max(0, end - time.monotonic()))[0]:
                raise AssertionError(f"the script does not end; stderr so far: {bytes(log)!r}")
            chunk = os.read(self.errors, 65536)
            if not chunk:
                break
            log += chunk
        self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.status, log.decode()

    def discard(self):
        """Clean-up: kills the process if it still runs, closes all descriptors."""
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.status = -signal.SIGKILL
        for name in ("cgiplusin", "body_write", "mailbox", "errors", "memory"):
            if getattr(self, name) is not None:
                os.close(getattr(self, name))
                setattr(self, name, None)


def is_in_dump(output, at):
    """Whether a sentinel follows the name of its variable, as in a dump of the environment. (All of it is one read in these tests.)"""
    before = output[max(0, at - 64) : at]
    return any(name + which in before for name in (b"GATEWAY_", b"CGIPLUS") for which in (b"EOF", b"ESC", b"EOT"))


def held_back(data):
    """Number of bytes at the end that may be the start of a sentinel."""
    for count in range(min(len(data), len(END) - 1), 0, -1):
        if any(mark.startswith(data[-count:]) for mark in (END, ESCAPE)):
            return count
    return 0


def gateway_variables():
    return {
        "WWW_GATEWAY_MRS": "65536",
        "WWW_GATEWAY_EOF": END.decode(),
        "WWW_GATEWAY_ESC": ESCAPE.decode(),
        "WWW_GATEWAY_EOT": CLOSE.decode(),
    }


def encode_records(entries):
    return b"!\n" + b"".join(entry + b"\n" for entry in entries) + b"\n"


def encode_struct(entries):
    block = b"".join(struct.pack("<H", len(entry) + 1) + entry + b"\0" for entry in entries) + b"\0\0"
    return b"!!%d\n" % len(block) + block
