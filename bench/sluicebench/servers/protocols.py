"""The protocols in which a server is asked, and the certificate that all servers show.

Here: Protocol and the four that there are, TLS as all of them speak it, one request by curl. Not here: how a server is told to
speak a protocol (the file of its name), how load is made (sluicebench/load.py).
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Tuple

from .host import child_environment, find_program

# What the load tools ask for, alone, so that all servers do the same work: what browsers ask for first. The servers have
# preferences of their own, and would differ.
TLS_VERSION = "TLSv1.3"
TLS_CIPHER = "TLS_AES_128_GCM_SHA256"
TLS_GROUP = "X25519"

# Valid from now on, for longer than a run may take, days.
CERTIFICATE_DAYS = 2
OPENSSL_SECONDS = 30.0


@dataclass(frozen=True)
class Protocol:
    key: str
    label: str
    # Which of a server's ports it has: "clear", "tls" (one for both, where the client chooses by ALPN), "h2c".
    port: str
    # As h2load names it, and as curl does.
    h2load_name: str
    curl_name: str
    curl_options: Tuple[str, ...] = ()

    @property
    def tls(self) -> bool:
        return self.port == "tls"

    @property
    def scheme(self) -> str:
        return "https" if self.tls else "http"

    @property
    def multiplexed(self) -> bool:
        return self.curl_name == "2"


_CURL_TLS = ("--tlsv1.3", "--tls13-ciphers", TLS_CIPHER, "--curves", TLS_GROUP)

H1 = Protocol("h1", "HTTP/1.1", "clear", "http/1.1", "1.1", ("--http1.1",))
H1_TLS = Protocol("h1-tls", "HTTP/1.1 over TLS", "tls", "http/1.1", "1.1", ("--http1.1", *_CURL_TLS))
H2_TLS = Protocol("h2-tls", "HTTP/2 over TLS", "tls", "h2", "2", ("--http2", *_CURL_TLS))
# With prior knowledge: the client begins with it, unasked.
H2_CLEAR = Protocol("h2-clear", "HTTP/2, clear", "h2c", "h2c", "2", ("--http2-prior-knowledge",))

PROTOCOLS = (H1, H1_TLS, H2_TLS, H2_CLEAR)

# Keys of those that need the same of a server.
OVER_TLS = tuple(protocol.key for protocol in PROTOCOLS if protocol.tls)
HTTP2 = tuple(protocol.key for protocol in PROTOCOLS if protocol.multiplexed)


def make_certificate(certificate: Path, key: Path) -> str:
    """One for 127.0.0.1, signed by itself, its key on P-256. "", or why there is none, in words."""
    command = [
        find_program("openssl") or "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
        "-nodes", "-sha256", "-days", str(CERTIFICATE_DAYS), "-subj", "/CN=127.0.0.1",
        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate),
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=OPENSSL_SECONDS, check=False, env=child_environment(),
        )  # fmt: skip
    except FileNotFoundError:
        return "openssl is not installed"
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"openssl made no certificate: {error}"
    return f"openssl made no certificate: {done.stdout.decode(errors='replace')[-200:]}" if done.returncode else ""


def curl_options(protocol: Protocol, certificate: Path) -> Tuple[str, ...]:
    """With the check of the certificate, too."""
    return (*protocol.curl_options, "--cacert", str(certificate)) if protocol.tls else protocol.curl_options


def fetch(url: str, protocol: Protocol, certificate: Path, timeout_seconds: float) -> Tuple[int, bytes]:
    """Status and body of one GET; OSError when there is none, or one in another protocol."""
    command = ["curl", "-s", "-S", "-w", "%{stderr}%{http_code} %{http_version}", *curl_options(protocol, certificate), url]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            timeout=timeout_seconds, check=False, env=child_environment(),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise OSError("no answer to curl") from None
    said = done.stderr.decode(errors="replace").splitlines() or [""]
    if done.returncode:
        raise OSError(said[0])
    status, _, spoken = said[-1].partition(" ")
    if spoken != protocol.curl_name:
        raise OSError(f"an answer in HTTP/{spoken}")
    return int(status), done.stdout
