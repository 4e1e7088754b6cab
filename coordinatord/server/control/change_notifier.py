"""Waits that the coordinator wakes: nobody polls.

`version` counts changes of groups, transactions, faults and records. Whoever waits for a condition looks, and if it
does not hold, waits until the version is beyond the one that it saw, and looks again.
"""

from __future__ import annotations

import asyncio

MAX_WAIT_S = 30.0
"""The longest that one call waits; the caller asks again."""


class Changes:
    """All methods belong to the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.version = 0
        self._loop = loop
        self._waiters: list[asyncio.Future[None]] = []

    def tell(self) -> None:
        """Something has changed. Those who wait look after this turn of the loop."""
        self.version += 1
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, since: int, timeout_s: float) -> int:
        """Returns the version once it is above `since`, or after `timeout_s`."""
        if self.version <= since and timeout_s > 0:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._waiters.append(waiter)
            try:
                await asyncio.wait_for(waiter, min(timeout_s, MAX_WAIT_S))
            except TimeoutError:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
        return self.version
