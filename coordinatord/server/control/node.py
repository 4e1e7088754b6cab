"""The interface of the daemon that the control uses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from coordinatord.base.clocks.clock import Clock
from coordinatord.base.clocks.timers import Timers
from coordinatord.broker.log.data_dir import DataDirectory
from coordinatord.broker.log.writer import LogWriter
from coordinatord.broker.topics import Topics
from coordinatord.coordination.service.groups import Coordinator
from coordinatord.coordination.service.ledger import Ledger
from coordinatord.coordination.service.ledger_writer import LedgerWriter
from coordinatord.coordination.share.delivery import ShareDelivery
from coordinatord.coordination.share.leader import ShareKey
from coordinatord.coordination.share.redeliveries import Redeliveries
from coordinatord.coordination.transactions.coordinator import Transactions
from coordinatord.transport.cluster.moved_partitions import MovedPartitions
from coordinatord.transport.cluster.nodes import Nodes
from coordinatord.transport.net.connections import Connections
from coordinatord.transport.net.server_context import ServerContext


class WorkerPlace(Protocol):
    """The share of one of several workers."""

    @property
    def worker(self) -> int: ...

    @property
    def placed(self) -> MovedPartitions | None: ...


class Share(Protocol):
    """The share groups of a node."""

    @property
    def delivery(self) -> ShareDelivery: ...

    @property
    def redeliveries(self) -> Redeliveries | None: ...

    def start_offset(self, key: ShareKey) -> int:
        """Return the start offset of a share partition as it is stored, -1 if there is none."""


class Node(Protocol):
    """A daemon of one process, or a worker. `now_ms` is `clock` unless the caller has passed another clock, which
    cannot jump.
    """

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def now_ms(self) -> Callable[[], int]: ...

    @property
    def timers(self) -> Timers: ...

    @property
    def writer(self) -> LogWriter: ...

    @property
    def topics(self) -> Topics: ...

    @property
    def coordinator(self) -> Coordinator: ...

    @property
    def transactions(self) -> Transactions: ...

    @property
    def share(self) -> Share | None: ...

    @property
    def part(self) -> WorkerPlace | None: ...

    @property
    def nodes(self) -> Nodes: ...

    @property
    def data(self) -> DataDirectory: ...

    @property
    def ledger_writer(self) -> LedgerWriter: ...

    @property
    def ledger(self) -> Ledger | None: ...

    @property
    def connections(self) -> Connections: ...

    @property
    def door(self) -> ServerContext: ...
