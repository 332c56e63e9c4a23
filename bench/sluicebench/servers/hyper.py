"""bench/limit, the upper bound for a server on Sluice's libraries: the same bytes for each request, by hyper alone.

Here: a process for each file and protocol, at addresses that look like those of a server. Not here: the program (bench/limit).
It writes no log and does not read the path, so it is no peer, and its bytes are not verified; their number is, by the load tool.
"""

from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from .base import Server
from .host import free_port
from .protocols import H1, Protocol

#: The files that it stands for, by name: bytes.
SIZES = {"0k.txt": 0, "64k.txt": 64 * 1024}


class Hyper(Server):
    name = "hyper"
    ways = {"file": "/"}
    is_verified = False

    def __init__(self, *what: Any, **more: Any) -> None:
        super().__init__(*what, **more)
        #: Path and protocol → the port that answers them.
        self.places: Dict[Tuple[str, Protocol], int] = {}

    @classmethod
    def available(cls) -> Optional[str]:
        return None

    def missing_binary(self) -> Optional[str]:
        return self.missing_build("", self.binary).get("")

    @property
    def version(self) -> str:
        return "hyper (bench/limit)"

    @property
    def binary(self) -> Path:
        return self.site.build / "limit"

    def configuration(self) -> str:
        return ""

    def command(self) -> List[str]:
        return self.command_of(self.port, H1, 0)

    def command_of(self, port: int, protocol: Protocol, size: int) -> List[str]:
        kind = "http2" if protocol.multiplexed else "http1"
        files = [str(self.site.certificate), str(self.site.key)] if protocol.tls else []
        return [str(self.binary), kind, f"127.0.0.1:{port}", str(size), *files]

    def start_helpers(self) -> None:
        for protocol in self.protocols():
            for name, size in SIZES.items():
                if (protocol, size) != (H1, 0):
                    port = self.places[f"/{name}", protocol] = free_port()
                    self.spawn_helper(self.command_of(port, protocol, size))

    def address(self, path: str, protocol: Protocol = H1) -> str:
        return f"{protocol.scheme}://127.0.0.1:{self.places.get((path, protocol), self.port)}{path}"
