"""Waits that end when the coordinator's state changes, so that no caller polls.

`version` counts changes of groups, transactions, faults and records. A caller that waits for a condition checks it, and
if it does not hold, waits until the version is beyond the one of its check, and checks again.
"""

from __future__ import annotations

import asyncio

MAX_WAIT_S = 30.0
"""Longest duration of one wait in seconds; a caller that needs longer waits again."""


class Changes:
    """The version and its waiters. All methods must be called on the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.version = 0
        self._loop = loop
        self._waiters: list[asyncio.Future[None]] = []

    def tell(self) -> None:
        """Count a change. Waiters continue after this turn of the loop."""
        self.version += 1
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, since: int, timeout_s: float) -> int:
        """Return the version once it is above `since`, or after `timeout_s` seconds, at most MAX_WAIT_S."""
        if self.version <= since and timeout_s > 0:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._waiters.append(waiter)
            try:
                await asyncio.wait_for(waiter, min(timeout_s, MAX_WAIT_S))
            except TimeoutError:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
        return self.version
