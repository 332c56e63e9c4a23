"""The script side of CGIplus, as small as the tests need it: bytes in, bytes out, unbuffered output."""

import os
import signal
import sys


def _sentinel(name):
    return os.environb.get(b"CGIPLUS" + name) or os.environb[b"WWW_GATEWAY_" + name]


EOF, ESC, EOT = _sentinel(b"EOF"), _sentinel(b"ESC"), _sentinel(b"EOT")
HEAD = b"Content-Type: text/plain\n\n"
TEST_DIR = os.environ["TEST_DIR"]
cgiplusin = os.fdopen(3, "rb")
# A route says so with this variable: requests come by the socket, from the second one on.
by_socket = "BY_SOCKET" in os.environ
request_socket = os.fdopen(int(os.environ["CGIPLUSSOCK"]), "rb") if by_socket else None
accepted = 0


def put(data):
    """Writes to the mailbox. The script ends if the mailbox has no reader."""
    while data:
        data = data[os.write(1, data) :]


def accept():
    """The variables of the next request; None at end-of-file, which asks the script to exit."""
    global accepted
    requests = request_socket if by_socket and accepted else cgiplusin
    variables = read_request(requests)
    accepted += 1
    if accepted == 1 and by_socket:
        put(ESC + b"\n!CGIPLUS: socket\n" + EOT + b"\n")
    return variables


def channel():
    """The descriptor by which the next request comes."""
    return request_socket.fileno() if by_socket and accepted else 3


def read_request(requests):
    while line := requests.readline():
        if line == b"!\n":
            texts = []
            while (text := requests.readline()) != b"\n":
                texts.append(text[:-1])
        elif line.startswith(b"!!"):
            block, texts = requests.read(int(line[2:])), []
            while length := int.from_bytes(block[:2], "little"):
                texts.append(block[2 : 2 + length - 1])
                block = block[2 + length :]
        else:
            continue
        return {name.decode(): value.decode() for name, value in (text.split(b"=", 1) for text in texts)}
    return None


def begin():
    """In CGIplus, reads the first line of the request; `accept` reads the rest, or a script does without."""
    if "CGIPLUSEOF" in os.environ:
        cgiplusin.peek(1)


def body(count):
    """Up to `count` bytes of the request body, fewer only at end-of-file."""
    read = b""
    while len(read) < count and (part := os.read(0, count - len(read))):
        read += part
    return read


def answers(lines):
    """Reads the answers to these lines; lines with ! or # have none."""
    return [cgiplusin.readline() for line in lines if line[:1] not in (b"!", b"#")]


def ask(*lines):
    """Sends one callout and returns its answers."""
    put(ESC + b"\n" + b"".join(line + b"\n" for line in lines) + EOT + b"\n")
    return answers(lines)


def finish():
    put(EOF + b"\n")


def report(name, text=""):
    """Writes a line to a FIFO that the test reads."""
    with open(f"{TEST_DIR}/{name}", "w") as fifo:
        fifo.write(f"{text}\n")


def wait_at(name):
    """Waits at a gate of the test."""
    with open(f"{TEST_DIR}/{name}", "rb", buffering=0) as fifo:
        while fifo.read(1) != b"\n":
            pass
