"""Faults as blocks: `with kafka.fail("OffsetCommit", "NOT_COORDINATOR", times=3) as fault: ...`"""

from __future__ import annotations

import contextlib
import warnings
from typing import Any, Self

from coordinatord.server.control.faults import NO_FAULT_FOR
from coordinatord.testing.links import Link
from coordinatord.testing.problems import KafkaError, NeverFired
from coordinatord.testing.waits import Looking, Waited

TIMEOUT_S = 30.0


class Fault:
    """A fault that is active during its `with` (or `async with`) block. Created by the methods of `Kafka`.

    Entering the block raises KafkaError for unknown names and for limits that match no request, OnlyHere for an
    external broker. Leaving it raises NeverFired if the fault has hit no request, unless the fault is `optional` or the
    block has raised an exception.
    """

    def __init__(self, link: Link, optional: bool, **arguments: Any) -> None:
        self._link = link
        self._optional = optional
        self._arguments = {name: value for name, value in arguments.items() if value is not None}
        self._number: int | None = None
        self._was_entered = False
        self._last: dict[str, Any] = {}
        self._counts: dict[str, dict[str, int]] = {}

    def __del__(self) -> None:
        if not getattr(self, "_was_entered", True):
            what = f"kafka.{self._arguments.get('kind', 'fail')}(…) without a block does nothing"
            warnings.warn(f"{what}: write `with` before it.", RuntimeWarning, stacklevel=2)

    def __repr__(self) -> str:
        return f"<fault: {self._last.get('told', self._arguments)}>"

    @property
    def hits(self) -> int:
        """Number of requests that the fault has hit, during its block and after it."""
        if self._number is not None:
            self._last = self._link.call("fault", fault=self._number)
        hits: int = self._last.get("hits", 0)
        return hits

    def arrived(self, count: int = 1, timeout: float = TIMEOUT_S) -> Waited[int]:
        """Wait until the fault has hit at least `count` requests. In a coroutine, await the result.

        Args:
            count: number of hits.
            timeout: seconds.

        Returns:
            A wait whose result is the number of hits.

        Raises:
            NotInTime: with the requests that arrived instead.
            KafkaError: outside of the fault's block.
        """
        number = self._active()

        def look() -> tuple[int, int]:
            self._last = self._link.call("fault", fault=number)
            return self._last["version"], self._last["hits"]

        times = "once" if count == 1 else f"{count} times"
        what = f"{self._last['description']}: hit {times}"
        return Looking(self._link, what, look, lambda hits: hits >= count, timeout, self._hits_text).waited()

    def _hits_text(self, hits: int) -> str:
        return f"{hits} hit{'s' if hits != 1 else ''}; in its block there came {self._came()}"

    def release(self, count: int | None = None) -> int:
        """Let requests continue that a `hold` has stopped, the earliest first.

        `count` is their number; None releases all. Returns the number of released requests. Raises KafkaError outside
        of the fault's block.
        """
        released: int = self._link.call("release", fault=self._active(), count=count)["released"]
        return released

    def _active(self) -> int:
        if self._number is None:
            raise KafkaError("A fault is there within its block: `with kafka.hold(…) as held:`.")
        return self._number

    def __enter__(self) -> Self:
        self._was_entered = True
        if self._number is not None:
            raise KafkaError("This fault is there already: make another one.")
        self._last = self._link.call("add_fault", **self._arguments)
        self._number = self._last["fault"]
        self._counts = self._link.call("last_requests")["counts"]
        return self

    def __exit__(self, kind: type[BaseException] | None, _error: object, _trace: object) -> None:
        number, self._number = self._number, None
        if kind is not None:
            with contextlib.suppress(KafkaError):  # the server itself may have failed
                self._last = self._link.call("remove_fault", fault=number)
            return
        self._last = self._link.call("remove_fault", fault=number)
        if not self._last["hits"] and not self._optional:
            raise NeverFired(self._never_fired())

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        self.__exit__(kind, error, trace)

    def _came(self) -> str:
        """Return the requests since the block was entered, as text."""
        came = []
        for client, counts in sorted(self._link.call("last_requests")["counts"].items()):
            if client == NO_FAULT_FOR:
                continue
            before = self._counts.get(client, {})
            new = {api: count - before.get(api, 0) for api, count in counts.items()}
            told = ", ".join(f"{count} {api}" for api, count in sorted(new.items()) if count)
            if told:
                came.append(f"from {client or 'a client without an id'} {told}")
        return "; ".join(came) or "no requests"

    def _never_fired(self) -> str:
        matched = self._last["matched"]
        why = f"{matched} requests matched, and none was its turn" if matched else "no request matched"
        return (
            f"This fault has never fired: {self._last['description']}; {why}. In its block there came "
            f"{self._came()}. With optional=True that is fine."
        )
