"""The servers of the benchmark, by name, in display order.

A new peer needs a file here and a name below.
"""

from typing import Dict, Type

from .apache import Apache
from .base import Reply, Server, ServerFailed, Site, verify
from .caddy import Caddy
from .h2o import H2o
from .hyper import Hyper
from .lighttpd import Lighttpd
from .nginx import Nginx
from .peers import PEERS
from .sluice import Sluice, SluiceLookup, SluiceUncached

SERVERS: Dict[str, Type[Server]] = {kind.name: kind for kind in (Sluice, Apache, Lighttpd, Nginx, H2o, Caddy, SluiceUncached, SluiceLookup)}

# And the peers of the engines, which serve only applications, and the limit of the libraries, which serves no files.
ALL_SERVERS: Dict[str, Type[Server]] = {**SERVERS, **PEERS, Hyper.name: Hyper}

__all__ = ["ALL_SERVERS", "PEERS", "SERVERS", "Reply", "Server", "ServerFailed", "Site", "verify"]
