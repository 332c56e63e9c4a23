"""What a table is: its rows and columns.

Here: Column, Row, Table. Not here: the tables themselves (plan.py, engines.py)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from .servers.applications import Body
from .servers.protocols import H1, Protocol

KIB, MIB = 1024, 1024 * 1024

#: Ways of running a persistent program; the first that a server supports is used.
KEPT_WAYS = ("cgiplus", "module", "fastcgi")

#: Duration of h2load's warm-up before its measurement window: requests in progress at the end of the window are then
#: compensated by those in progress at its beginning. Longer for many connections, because opening them takes time.
WARM_UP_SECONDS, WARM_UP_SECONDS_MANY, MANY_CONNECTIONS = 0.06, 0.3, 100


@dataclass(frozen=True)
class Column:
    """A server and a way of running; with the server "limit", one of the limit programs."""

    key: str
    label: str
    server: str
    way: str
    #: The Sluice column that it is compared with; None for a Sluice column.
    against: Optional[str] = None
    #: membufdemo's second keyword: b for the memory buffer, m for the mailbox. In the Apache module b is the fastest method
    #: found, with its own block size, and m writes record by record.
    channel: str = "m"
    #: False: the server ends each connection after a response, so the clients connect for each request.
    keep_alive: bool = True
    #: Assumed requests per second if it is slow, for the estimate of the time; 0: it is not.
    rate: float = 0.0
    #: Further columns of Sluice with which it is compared, in addition to those that name it in `against`.
    beside: tuple[str, ...] = ()

    @property
    def is_limit(self) -> bool:
        return self.server == "limit"


@dataclass(frozen=True)
class Row:
    key: str
    label: str
    concurrency: int = 1
    keep_alive: bool = True
    protocol: Protocol = H1
    streams: int = 1  # concurrent requests on each connection
    requests: int = 0  # in total; 0: as many as possible in the time
    file: str = ""
    bytes: int = 0  # of a response
    record: str = ""  # membufdemo's third keyword
    ring: str = ""  # and its fourth
    workers: Optional[int] = None  # of the server; None: one for each processor
    seconds: float = 0.0  # of one measurement; 0: the table's
    unit: str = ""  # if it differs from the table's
    kind: str = ""  # of the request to an application (servers/applications.py)
    body: Optional[Body] = None  # of the request
    warm_up: float = 0.0  # seconds; 0: by the number of connections
    ways: tuple[str, ...] = ()  # instead of the column's: the first that the server has
    channel: str = ""  # instead of the column's
    #: A part of another row's figure, which is measured with it: the name of the part and the key of that row.
    part: str = ""
    of: str = ""
    #: Columns without this row.
    without: tuple[str, ...] = ()

    @property
    def warm_up_seconds(self) -> float:
        if self.warm_up:
            return self.warm_up
        return WARM_UP_SECONDS_MANY if self.concurrency >= MANY_CONNECTIONS else WARM_UP_SECONDS


@dataclass(frozen=True)
class Table:
    key: str
    title: str
    what: str  # a sentence or two for the reader
    measure: str  # "requests", "bytes", "applications" (all h2load), "bulk" (curl), "processor" (both), "cost"
    unit: str
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    rounds: int
    seconds: float  # of one measurement
    less_is_better: bool = False
    megabytes: int = 0  # of a bulk transfer, at least
    group: str = ""  # tables that are measured only if the group or the table is named

    def measured_rows(self) -> list[Row]:
        """Without those that are a part of another one."""
        return [row for row in self.rows if not row.of]

    def columns_of(self, row: Row) -> list[Column]:
        return [column for column in self.columns if column.key not in row.without]

    def seconds_of(self, row: Row) -> float:
        return row.seconds or self.seconds

    def unit_of(self, row: Row) -> str:
        return row.unit or self.unit

    def column(self, key: str) -> Column:
        return next(column for column in self.columns if column.key == key)

    def rivals(self, sluice_column: str) -> list[Column]:
        return [column for column in self.columns if column.against == sluice_column]

    def compared(self, sluice_column: str) -> list[Column]:
        """The columns with which one of Sluice is compared: other ways of Sluice first."""
        beside = self.column(sluice_column).beside
        return [column for column in self.columns if column.key in beside] + self.rivals(sluice_column)

    def sluice_columns(self) -> list[Column]:
        return [column for column in self.columns if column.server == "sluice" and not column.against]
