"""The servers of the benchmark, by name, in display order.

A new peer needs a file here and a name below.
"""

from typing import Dict, Type

from .apache import Apache
from .base import Reply, Server, ServerFailed, Site, verify
from .h2o import H2o
from .lighttpd import Lighttpd
from .nginx import Nginx
from .peers import PEERS
from .sluice import Sluice, SluiceUncached

SERVERS: Dict[str, Type[Server]] = {kind.name: kind for kind in (Sluice, Apache, Lighttpd, Nginx, H2o, SluiceUncached)}

# And the peers of the engines, which serve only applications.
ALL_SERVERS: Dict[str, Type[Server]] = {**SERVERS, **PEERS}

__all__ = ["ALL_SERVERS", "PEERS", "SERVERS", "Reply", "Server", "ServerFailed", "Site", "verify"]
