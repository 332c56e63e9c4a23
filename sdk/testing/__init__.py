"""The harness for tests of the SDKs with the real server; README.md has one page about it. Standard library only."""

from .client import Client, Response, chunk_frames, request_head
from .fifo import Fifo
from .lines import Lines
from .needs import missing, need, need_file, need_perl, need_program
from .processes import Process, is_alive, processes_of, wait_gone
from .server import CHECKOUT, Server, ServerCase, binary
from .waits import DEADLINE, wait_until

__all__ = [
    "CHECKOUT",
    "Client",
    "DEADLINE",
    "Fifo",
    "Lines",
    "Process",
    "Response",
    "Server",
    "ServerCase",
    "binary",
    "chunk_frames",
    "is_alive",
    "missing",
    "need",
    "need_file",
    "need_perl",
    "need_program",
    "processes_of",
    "request_head",
    "wait_gone",
    "wait_until",
]
