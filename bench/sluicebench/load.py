"""The load tools h2load, curl and spawn_limit: their commands and their output.

Here: command line, invocation, parsing, and the definition of a failure. Not here: the workloads (plan.py), their order
(run.py).

Observed behaviour of h2load 1.52, on which this file depends:
  -D with keep-alive counts correctly (compared with the servers' access logs), also for slow replies. Without
    --warm-up-time the requests in progress at the end would be missing: c/2 of them on average.
  -D ends late if its threads are busy with large replies, but divides by the planned time. If the two differ, the
    reported duration is used instead.
  The warm-up also ends late: a thread reads from one connection as long as there is data, and a server that is faster
    than the thread always has data. Bytes received during the warm-up are counted in "data" but not in "traffic", so a byte
    rate is all data divided by the whole time. (With the requested warm-up subtracted, the fastest server seemed slower
    by a third.)
  -D with `Connection: close` never ends, because it reconnects forever. There -n is used, with a count from the speed of
    the previous run. Each client has a fixed share of -n. This does not matter if each request is a new connection, but
    with keep-alive the slowest client would determine the result, so -n is not used there.
  The exit status is 0 even if all requests fail; only the count of failures shows it.
  Over TLS it uses the protocol that the server chooses, and reports it for its first connection; this is checked.
  Over TLS with `Connection: close` a client resumes its previous session if the server issued a ticket (nginx's
    $ssl_session_reused is set for all but the first connection of each client). For full handshakes there are as many
    clients as requests, all at once.
"""

from __future__ import annotations

import math
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from .results import NotMeasured, Sample, failed
from .servers.protocols import H1, TLS_CIPHER, TLS_GROUP, TLS_VERSION, Protocol, curl_options
from .tables import MIB, Row

#: -n of the first run without keep-alive, when no speed is known.
COUNT_FIRST = 500
COUNT_LEAST = 100

#: What h2load reports of the first connection: labels and possible values.
SPOKEN = {
    "Application protocol": r"h2c|h2|http/1\.[01]",
    "TLS Protocol": r"TLSv1\.\d|TLSv1",
    "Cipher": r"(?:TLS_|[A-Z]+-)[A-Z0-9_-]*?SHA(?:256|384)",
}

UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class Invocation:
    """A command, its output (stdout and stderr), and its exit status; None if it timed out and was killed."""

    command: tuple[str, ...]
    output: str
    status: Optional[int]

    def __str__(self) -> str:
        ending = (
            ""
            if self.status == 0
            else f"[status {self.status}]\n"
            if self.status is not None
            else "[killed: took too long]\n"
        )
        return f"$ {' '.join(self.command)}\n{self.output}{ending}"


def invoke(command: Sequence[str], timeout_seconds: float) -> Invocation:
    try:
        done = subprocess.run(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_seconds,
            check=False,
        )
        return Invocation(tuple(command), done.stdout.decode(errors="replace"), done.returncode)
    except subprocess.TimeoutExpired as expired:
        return Invocation(tuple(command), (expired.stdout or b"").decode(errors="replace"), None)
    except OSError as error:
        return Invocation(tuple(command), f"{error}\n", 127)


# ---- h2load ----


@dataclass(frozen=True)
class H2load:
    """The report that h2load prints at its end."""

    finished_seconds: float
    done: int
    succeeded: int
    failed: int
    errored: int
    timed_out: int
    statuses: tuple[int, ...]  # 2xx, 3xx, 4xx, 5xx
    traffic_bytes: int
    data_bytes: int
    #: Requests per second of the individual clients: min, max, mean, standard deviation.
    shares: tuple[float, ...]
    #: Of the first connection: "http/1.1", "h2", "h2c"; over TLS its version and cipher. "" if not reported.
    protocol: str
    tls_version: str
    tls_cipher: str


def parse_h2load(text: str) -> H2load:
    """Raises ValueError if something is missing."""

    def numbers(pattern: str) -> tuple[str, ...]:
        found = re.search(pattern, text)
        if not found:
            raise ValueError(f"h2load's output has no {pattern.split(':')[0].split('(')[0].strip()!r}")
        return found.groups()

    finished, unit = numbers(r"finished in ([\d.]+)(us|ms|s|m|h),")
    counts = numbers(
        r"requests: \d+ total, \d+ started, (\d+) done, (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout"
    )
    done, succeeded, failures, errored, timed_out = map(int, counts)
    statuses = numbers(r"status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx")
    traffic, data = numbers(r"traffic: \S+ \((\d+)\) total, .* \S+ \((\d+)\) data")
    shares = numbers(r"req/s\s+:\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)")
    return H2load(
        float(finished) * UNITS[unit], done, succeeded, failures, errored, timed_out,
        tuple(map(int, statuses)), int(traffic), int(data), tuple(map(float, shares)),
        *(spoken(text, name, pattern) for name, pattern in SPOKEN.items()),
    )  # fmt: skip


def spoken(text: str, name: str, pattern: str) -> str:
    """Finds the first matching word after `name`, which need not be adjacent: h2load's threads write parts of lines without
    synchronisation: `TLS Protocol: Warm-up started for thread #TLSv1.31.`"""
    found = re.search(rf"^{name}: .*?({pattern})", text, re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def h2load_command(
    url: str, row: Row, seconds: float, count: int = 0, body: Optional[tuple[Path, str]] = None
) -> list[str]:
    """With `count`, that many requests; otherwise as many as possible in `seconds`, after a warm-up. `body`: each is a POST of this
    file, with this type."""
    threads = min(row.concurrency, 2)  # the servers need the rest of the machine
    command = ["h2load", *protocol_options(row), "-c", str(row.concurrency), "-t", str(threads)]
    if count:
        command += ["-n", str(count)]
    else:
        command += ["-D", f"{seconds * 1000:.0f}ms", f"--warm-up-time={row.warm_up_seconds * 1000:.0f}ms"]
    if not row.keep_alive:
        command += ["-H", "Connection: close"]
    if body:
        command += ["-d", str(body[0]), "-H", f"Content-Type: {body[1]}"]
    return [*command, url]


def protocol_options(row: Row) -> list[str]:
    """HTTP/2 is h2load's default, or its first offer."""
    options = ["-m", str(row.streams)] if row.protocol.multiplexed else ["--h1"]
    return [*options, f"--tls13-ciphers={TLS_CIPHER}", f"--groups={TLS_GROUP}"] if row.protocol.tls else options


def next_count(rate: Optional[float], row: Row, seconds: float) -> int:
    """-n for a run of about `seconds`, a multiple of the number of clients so that all have the same share."""
    if row.requests:
        return row.requests
    count = max(rate * seconds, COUNT_LEAST) if rate else COUNT_FIRST
    return math.ceil(count / row.concurrency) * row.concurrency


def fault_in(report: H2load, row: Row) -> str:
    """The reason why a run is invalid; "" if it is valid."""
    wrong = [f"{number} replies {kind}" for number, kind in zip(report.statuses[1:], ("3xx", "4xx", "5xx")) if number]
    if wrong:
        return ", ".join(wrong)
    if report.failed or report.errored or report.timed_out:
        return f"{report.failed} requests failed, {report.errored} errored, {report.timed_out} timed out"
    if report.succeeded != report.done:
        return f"{report.done} requests done, but {report.succeeded} succeeded"
    if report.data_bytes < report.done * row.bytes:
        return f"{report.done} replies with {report.data_bytes} bytes, instead of {row.bytes} each"
    return fault_of_protocol(report, row.protocol)


def fault_of_protocol(report: H2load, wanted: Protocol) -> str:
    if report.protocol != wanted.h2load_name:
        return f"spoke {report.protocol or 'nothing known'} instead of {wanted.h2load_name}"
    tls = f"{report.tls_version} {report.tls_cipher}"
    if wanted.tls and tls != f"{TLS_VERSION} {TLS_CIPHER}":
        return f"spoke {tls} instead of {TLS_VERSION} {TLS_CIPHER}"
    return ""


def window_seconds(report: H2load, row: Row, seconds: float) -> float:
    """The time during which h2load counted."""
    if not row.keep_alive:
        return report.finished_seconds
    took = report.finished_seconds - row.warm_up_seconds
    return took if took - seconds > 0.01 else seconds  # it prints 10 ms as its smallest step


def checked(run: Invocation, row: Row) -> H2load:
    """Returns the report of a run without failures; raises NotMeasured otherwise."""
    if run.status is None:
        raise NotMeasured("h2load did not exit: does the server close connections that it should keep open?")
    try:
        report = parse_h2load(run.output)
    except ValueError as error:
        raise NotMeasured(f"{error}: {run.output.strip()[-200:]}") from None
    fault = fault_in(report, row)
    if fault:
        raise NotMeasured(fault)
    return report


def h2load_sample(run: Invocation, row: Row, seconds: float, in_bytes: bool = False) -> Sample:
    """Requests or MiB per second of a run of h2load."""
    try:
        report = checked(run, row)
    except NotMeasured as reason:
        return failed(str(reason))
    if in_bytes:
        value = report.data_bytes / MIB / report.finished_seconds
    else:
        value = report.done / window_seconds(report, row, seconds)
    if not value:
        return failed("no reply")
    least, most, mean, deviation = report.shares
    return Sample(value, details={"least": least, "most": most, "mean": mean, "deviation": deviation})


# ---- curl ----

CURL_FORMAT = "%{http_code} %{size_download} %{time_total} %{http_version}\\n"


def curl_command(url: str, protocol: Protocol, certificate: Path) -> list[str]:
    return ["curl", "-s", "-S", "-o", "/dev/null", "-w", CURL_FORMAT, *curl_options(protocol, certificate), url]


def curl_sample(run: Invocation, expected_bytes: int, protocol: Protocol = H1) -> Sample:
    """MiB per second of one transfer. The last line is curl's report, earlier lines are error messages."""
    lines = run.output.strip().splitlines()
    report = re.fullmatch(r"(\d+) (\d+) ([\d.]+) (\S+)", lines[-1]) if lines else None
    if run.status != 0 or not report:
        return failed(f"curl ended with status {run.status}: {' '.join(lines[:1])}")
    status, size, seconds = int(report[1]), int(report[2]), float(report[3])
    if status != 200:
        return failed(f"status {status}")
    if size != expected_bytes:
        return failed(f"{size} bytes instead of {expected_bytes}")
    if report[4] != protocol.curl_name:
        return failed(f"spoke HTTP/{report[4]} instead of {protocol.label}")
    return Sample(size / MIB / seconds, details={"seconds": seconds})


def next_megabytes(least: int, sample: Sample, seconds: float) -> int:
    """`least` MiB, or somewhat more than fit into `seconds` at the speed of the previous transfer."""
    if sample.value is None:
        return least
    return max(least, math.ceil(sample.value * seconds * 1.2 / 250) * 250)


# ---- the bare start of a program ----


def spawn_sample(run: Invocation) -> Sample:
    found = re.search(r"^spawns_per_second ([\d.]+)$", run.output, re.MULTILINE)
    if run.status != 0 or not found:
        return failed(f"spawn_limit ended with status {run.status}: {run.output.strip()[:200]}")
    return Sample(float(found[1]))
