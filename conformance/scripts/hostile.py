#!/usr/bin/env python3
"""A script that makes kernel calls of its server wait, as the chaos test asks for it in the query: `splice`, `linger`."""

import array
import os
import socket
import struct

LINGER_SECONDS = 20


def lingering():
    """A TCP socket whose last close waits, because its peer, which is returned, too, reads nothing."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(1)
    sender = socket.create_connection(listener.getsockname())
    sender.setblocking(False)
    try:
        while True:
            sender.send(bytes(1 << 16))
    except BlockingIOError:
        pass
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, LINGER_SECONDS))
    return sender, listener


def send_along(stream, text, sender):
    """Sends a text with a socket, which is closed here. False if the kernel refuses that for the other side."""
    try:
        stream.sendmsg([text], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [sender.fileno()]))])
        return True
    except PermissionError:
        # Otherwise this close would wait.
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False
    finally:
        sender.close()


def main():
    head = b"Content-Type: text/plain\r\n\r\n"
    near, _far = socket.socketpair()
    if os.environ.get("QUERY_STRING") == "linger":
        # Standard output is a socket (mailbox = "record").
        sender, _peer = lingering()
        output = socket.socket(fileno=os.dup(1))
        if not send_along(output, head, sender):
            output.send(head)
    else:
        os.write(1, head + b"splice\n")
        if hasattr(os, "splice"):
            try:
                # Holds the lock of the pipe until a byte comes, which never does.
                os.splice(near.fileno(), 1, 1 << 16)
            except OSError:
                pass  # standard output is no pipe
    # Stays until the server ends it.
    near.recv(1)


if __name__ == "__main__":
    main()
