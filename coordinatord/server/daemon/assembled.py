"""The interface of an assembled daemon for the modules beside it. Only type checkers import it."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from coordinatord.base.config import Settings
from coordinatord.base.observe.admin import AdminServer
from coordinatord.base.observe.metrics import Metrics
from coordinatord.coordination.runtime.loading import Loading
from coordinatord.coordination.runtime.runtime import Runtime
from coordinatord.server.control.node import Node
from coordinatord.server.daemon.secured import Listening


class Assembled(Node, Protocol):
    """A daemon, as server/control uses it, with what its own package needs of it. See daemon.Daemon."""

    _servers: list[Listening]
    _tasks: list[asyncio.Task[Any]]

    @property
    def settings(self) -> Settings: ...

    @property
    def metrics(self) -> Metrics: ...

    @property
    def runtime(self) -> Runtime: ...

    @property
    def loading(self) -> Loading: ...

    @property
    def admin(self) -> AdminServer | None: ...
