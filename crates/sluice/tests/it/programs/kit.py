"""A script's side of the protocol, as small as the tests need it: bytes in, bytes out, nothing buffered on the way out."""

import os
import signal
import sys


def _sentinel(name):
    return os.environb.get(b"CGIPLUS" + name) or os.environb[b"WWW_GATEWAY_" + name]


EOF, ESC, EOT = _sentinel(b"EOF"), _sentinel(b"ESC"), _sentinel(b"EOT")
HEAD = b"Content-Type: text/plain\n\n"
TEST_DIR = os.environ["TEST_DIR"]
orders = os.fdopen(3, "rb")


def put(data):
    """Writes to the mailbox. A mailbox that nobody reads ends the script."""
    while data:
        data = data[os.write(1, data) :]


def accept():
    """The variables of the next request; None: end-of-file, the order to exit."""
    while line := orders.readline():
        if line == b"!\n":
            texts = []
            while (text := orders.readline()) != b"\n":
                texts.append(text[:-1])
        elif line.startswith(b"!!"):
            block, texts = orders.read(int(line[2:])), []
            while length := int.from_bytes(block[:2], "little"):
                texts.append(block[2 : 2 + length - 1])
                block = block[2 + length :]
        else:
            continue
        return {name.decode(): value.decode() for name, value in (text.split(b"=", 1) for text in texts)}
    return None


def body(count):
    """Bytes of the request body: so many, or fewer at end-of-file."""
    read = b""
    while len(read) < count and (piece := os.read(0, count - len(read))):
        read += piece
    return read


def answers(lines):
    """Reads one answer for each of these lines that wants one."""
    return [orders.readline() for line in lines if line[:1] not in (b"!", b"#")]


def ask(*lines):
    """One callout; its answers."""
    put(ESC + b"\n" + b"".join(line + b"\n" for line in lines) + EOT + b"\n")
    return answers(lines)


def finish():
    put(EOF + b"\n")


def tell(name, text=""):
    """Writes a line to the test's listener."""
    with open(f"{TEST_DIR}/{name}", "w") as fifo:
        fifo.write(f"{text}\n")


def wait_at(name):
    """Waits at the test's gate."""
    with open(f"{TEST_DIR}/{name}", "rb", buffering=0) as fifo:
        while fifo.read(1) != b"\n":
            pass
