"""The protocols of the benchmark, and the certificate of all servers.

Here: Protocol and its four values, the TLS parameters of all servers, one request by curl. Not here: how a protocol is
configured (the file of each server), the load (sluicebench/load.py).
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Tuple

from .host import child_environment, find_program

# The only offer of the load tools, so that all servers do the same work; browsers offer it first. With several offers the
# servers would choose differently.
TLS_VERSION = "TLSv1.3"
TLS_CIPHER = "TLS_AES_128_GCM_SHA256"
TLS_GROUP = "X25519"

# Validity of the certificate, longer than any run, days.
CERTIFICATE_DAYS = 2
OPENSSL_SECONDS = 30.0


@dataclass(frozen=True)
class Protocol:
    key: str
    label: str
    # The server's port: "clear", "tls" (one for both, where the client chooses by ALPN), "h2c".
    port: str
    # The name that h2load prints, and the one that curl prints.
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
# With prior knowledge: the client begins with HTTP/2, without negotiation.
H2_CLEAR = Protocol("h2-clear", "HTTP/2, clear", "h2c", "h2c", "2", ("--http2-prior-knowledge",))

PROTOCOLS = (H1, H1_TLS, H2_TLS, H2_CLEAR)

# Keys of protocols with the same requirements.
OVER_TLS = tuple(protocol.key for protocol in PROTOCOLS if protocol.tls)
HTTP2 = tuple(protocol.key for protocol in PROTOCOLS if protocol.multiplexed)


def make_certificate(certificate: Path, key: Path) -> str:
    """Creates a self-signed certificate for 127.0.0.1 with a P-256 key. Returns "", or the reason of a failure."""
    command = [
        find_program("openssl") or "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
        "-nodes", "-sha256", "-days", str(CERTIFICATE_DAYS), "-subj", "/CN=127.0.0.1",
        "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", str(key), "-out", str(certificate),
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
    """The options of curl, which also verify the certificate."""
    return (*protocol.curl_options, "--cacert", str(certificate)) if protocol.tls else protocol.curl_options


def fetch(url: str, protocol: Protocol, certificate: Path, timeout_seconds: float) -> Tuple[int, bytes]:
    """Status and body of one GET; raises OSError without an answer, or with one over another protocol."""
    command = ["curl", "-s", "-S", "-w", "%{stderr}%{http_code} %{http_version}", *curl_options(protocol, certificate), url]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            timeout=timeout_seconds, check=False, env=child_environment(),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise OSError("curl got no answer") from None
    said = done.stderr.decode(errors="replace").splitlines() or [""]
    if done.returncode:
        raise OSError(said[0])
    status, _, spoken = said[-1].partition(" ")
    if spoken != protocol.curl_name:
        raise OSError(f"an answer in HTTP/{spoken}")
    return int(status), done.stdout
