"""What the control needs of the daemon that it controls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from coordinatord.clocks.clock import Clock
from coordinatord.clocks.timers import Timers
from coordinatord.coordinator.groups import Coordinator
from coordinatord.log.writer import LogWriter
from coordinatord.net.connections import Connections
from coordinatord.net.door import Door
from coordinatord.observe.ledger import Ledger
from coordinatord.topics import Topics
from coordinatord.transactions.coordinator import Transactions


class Node(Protocol):
    """A daemon of one process. `now_ms` is `clock` unless the caller has passed another one, which cannot jump."""

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
    def ledger(self) -> Ledger | None: ...

    @property
    def connections(self) -> Connections: ...

    @property
    def door(self) -> Door: ...
