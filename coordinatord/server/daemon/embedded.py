"""A daemon inside a process of another program, and a daemon that tests control.

A guest leaves the process as it is: its garbage collector, its limit of open files, its signals.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coordinatord.broker.log.disk import Disk
from coordinatord.server.control.control import Control
from coordinatord.server.control.faults import Faults

if TYPE_CHECKING:
    from coordinatord.server.daemon.assembled import Assembled


@dataclass(slots=True)
class EmbeddedOptions:
    """Options of a daemon inside another program. `disk` holds its files, None for the operating system's. `faults` are
    the faults of an earlier daemon, which continue.
    """

    disk: Disk | None = None
    faults: Faults | None = None


class InlineWorker:
    """A worker that writes the log on the event loop's thread (log.writer.Worker): for a disk in memory."""

    def submit(self, job: Callable[[], None]) -> None:
        job()

    def stop(self) -> None:
        """Do nothing: no job waits."""


def put_control(daemon: Assembled, guest: EmbeddedOptions | None) -> Control:
    """Replace the router of an assembled daemon by a control, and add the control to its admin port."""
    faults = guest.faults if guest is not None else None
    control = Control(daemon, faults or Faults(daemon.settings.test_control_seed))
    daemon.door.router = control.requests
    if daemon.admin is not None:
        from coordinatord.server.control.http import Pages

        listener = daemon.settings.admin
        assert listener is not None, "there is an admin server"
        daemon.admin.add_part("/test", Pages(control, daemon.settings.test_control_token, listener.host).answer)
    return control


async def abort(daemon: Assembled) -> None:
    """End a daemon as SIGKILL would, as far as that can be seen from outside: without draining, flushing or
    responding.
    """
    for server in daemon._servers:
        server.close()
    for task in daemon._tasks:
        task.cancel()
    daemon.timers.close()
    for connection in list(daemon.connections.open):
        connection.line.lost()
        connection._transport.abort()
    if daemon.admin is not None:
        daemon.admin.stop()
    await asyncio.sleep(0)  # connections are closed in the loop's next turn
