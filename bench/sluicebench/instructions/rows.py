"""What is counted: a kind of request for each row, a server for each column.

Here: data. Not here: how it is counted (run.py), the table (table.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..servers.protocols import H1, H1_TLS, H2_CLEAR, Protocol


@dataclass(frozen=True)
class Row:
    key: str
    label: str
    #: Ways of running, the first that a server has: keys of Server.ways.
    ways: tuple[str, ...]
    #: What follows the route's prefix.
    name: str
    #: As the counting program calls it.
    client: str = "http1"
    protocol: Protocol = H1
    in_flight: int = 1
    #: Requests that are counted; with more instructions for each there are fewer.
    requests: int = 6
    stepped_first: int = 1
    warm_up: int = 300


KEPT = ("cgiplus", "fastcgi")

ROWS: tuple[Row, ...] = (
    Row("file-0", "file from the cache, 0 kB", ("file",), "0k.txt"),
    Row("file-64", "file from the cache, 64 kB", ("file",), "64k.txt"),
    Row("close-0", "file, 0 kB, a connection for each request", ("file",), "0k.txt", client="close"),
    Row("cgi-0", "CGI, 0 kB", ("cgi",), "cgiplustest?0", requests=4, warm_up=20),
    Row("cgiplus-0", "CGIplus (peers: FastCGI), 0 kB", KEPT, "cgiplustest?0"),
    Row("cgiplus-64", "CGIplus (peers: FastCGI), 64 kB", KEPT, "cgiplustest?65536"),
    Row("rte", "RTE, hello in Python", ("rte",), "hello.py", warm_up=50),
    Row("h2-1", "HTTP/2, file, 0 kB", ("file",), "0k.txt", "http2", H2_CLEAR),
    Row("h2-32", "HTTP/2, file, 0 kB, 32 at once", ("file",), "0k.txt", "http2", H2_CLEAR, 32, requests=1, stepped_first=0, warm_up=30),
    Row("tls-0", "TLS 1.3, file, 0 kB", ("file",), "0k.txt", "tls", H1_TLS),
)

#: A server and what it is called.
COLUMNS: dict[str, str] = {
    "sluice": "Sluice",
    "hyper": "hyper alone",
    "nginx": "nginx",
    "lighttpd": "lighttpd",
    "h2o": "h2o",
}
