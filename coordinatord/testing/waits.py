"""Waits and blocks that work in a test and in a coroutine.

A wait in a test blocks until its condition holds. In a coroutine it returns at once and must be awaited; a wait that is
never awaited raises a RuntimeWarning. A block that waits at its end has to be entered with `async with` in a coroutine:
a plain `with` would stop the event loop that the consumers run on.
"""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Awaitable, Callable, Generator
from typing import Generic, TypeVar

from coordinatord.testing.links import Link
from coordinatord.testing.problems import KafkaError, NotInTime

T = TypeVar("T")


def in_coroutine() -> bool:
    """Return whether an event loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class Waited(Generic[T]):
    """A wait: completed in a test, to be awaited in a coroutine. Its result is the awaited value."""

    def __init__(self, what: str, now: Callable[[], T], later: Callable[[], Awaitable[T]]) -> None:
        self._what = what
        self._result: list[T] = []
        self._later: Callable[[], Awaitable[T]] | None = None
        if in_coroutine():
            self._later = later
        else:
            self._result.append(now())

    @property
    def result(self) -> T:
        """Value of the completed wait. Raises KafkaError if the wait has not been awaited."""
        if not self._result:
            raise KafkaError(f"{self._what} has not been awaited: put `await` before it.")
        return self._result[0]

    def __await__(self) -> Generator[object, None, T]:
        return self._wait().__await__()

    async def _wait(self) -> T:
        later, self._later = self._later, None
        if later is not None:
            self._result.append(await later())
        return self.result

    def __del__(self) -> None:
        if getattr(self, "_later", None) is not None:
            warnings.warn(f"{self._what} was never awaited: put `await` before it.", RuntimeWarning, stacklevel=2)


class Looking(Generic[T]):
    """A condition that is checked after each notification of the server until it holds. `look` returns (version,
    value). Raises NotInTime after `timeout` seconds.
    """

    def __init__(
        self,
        link: Link,
        what: str,
        look: Callable[[], tuple[int, T]],
        holds: Callable[[T], bool],
        timeout: float,
        shown: Callable[[T], str] = str,
    ) -> None:
        self._shown = shown
        self._link = link
        self._what = what
        self._look = look
        self._holds = holds
        self._timeout = timeout

    def waited(self) -> Waited[T]:
        """Return the wait: completed, or in a coroutine to be awaited."""
        return Waited(self._what, self.now, self.later)

    def now(self) -> T:
        """Block this thread until the condition holds; return the value. Raises NotInTime."""
        ends_s = time.monotonic() + self._timeout
        while True:
            version, found = self._look()
            if self._holds(found):
                return found
            left_s = ends_s - time.monotonic()
            if left_s <= 0:
                raise self._not_in_time(found)
            self._link.call("changed", since=version, timeout_ms=_milliseconds(left_s))

    async def later(self) -> T:
        """Await the condition; return the value. Raises NotInTime."""
        ends_s = time.monotonic() + self._timeout
        while True:
            version, found = self._look()
            if self._holds(found):
                return found
            left_s = ends_s - time.monotonic()
            if left_s <= 0:
                raise self._not_in_time(found)
            await self._link.call_later("changed", since=version, timeout_ms=_milliseconds(left_s))

    def _not_in_time(self, found: T) -> NotInTime:
        return NotInTime(f"{self._what}: not within {self._timeout:g} s. There is: {self._shown(found)}.")


def _milliseconds(seconds: float) -> int:
    """Return milliseconds, at least one: a timeout of 0 would cause a busy loop."""
    return max(1, int(seconds * 1000))


def refuse_plain_with(what: str) -> None:
    """Raise KafkaError in a coroutine. `what` is the name of the block."""
    if in_coroutine():
        raise KafkaError(
            f"{what} waits when its block ends, which would stop the event loop of this coroutine: use `async with`."
        )
