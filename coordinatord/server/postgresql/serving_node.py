"""The interface of the daemon that a store on PostgreSQL uses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from coordinatord.base.observe.metrics import Metrics
from coordinatord.broker.metadata.log import MetadataLog
from coordinatord.broker.topics import Topics
from coordinatord.transport.cluster.nodes import Nodes


class ServingNode(Protocol):
    """A daemon that begins to serve. See server/daemon/daemon.py."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    @property
    def metrics(self) -> Metrics: ...

    @property
    def nodes(self) -> Nodes: ...

    @property
    def topics(self) -> Topics: ...

    @property
    def metadata(self) -> MetadataLog: ...

    def log_failed(self, error: BaseException) -> None:
        """Stop the daemon: its log can no longer be written."""

    def every(self, seconds: float, work: Callable[[], object]) -> None:
        """Call `work` again and again, `seconds` apart."""
