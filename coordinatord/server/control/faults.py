"""Faults, and the selection of the requests that they hit. Pure: randomness comes from the seed, all else is passed in.

A fault matches requests by API, client id and group. Of the matching requests, `nth` selects one, `every` each n-th
one, and `probability` a random share that the seed determines; without these the fault hits all of them. After `times`
hits a fault hits no more. If several faults match a request, the fault that was made first hits it, and the others do
not count it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from coordinatord.server.control.problems import ControlError, not_there, unknown
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode


class Kind(StrEnum):
    """The effect of a fault on a request that it hits."""

    FAIL = "fail"
    """Send an error response, and do not process the request."""
    DELAY = "delay"
    """Process the request later."""
    HOLD = "hold"
    """Process the request when it is released."""
    DROP = "drop"
    """Never respond; with `after`, process the request nevertheless."""
    DISCONNECT = "disconnect"
    """Close the connection; with `after`, once the request is processed."""
    DUPLICATE = "duplicate"
    """Process the request twice, and respond once."""


API_KEYS: dict[str, int] = {key.title: int(key) for key in ApiKey}
"""The API keys by Kafka's names of the APIs."""

NO_FAULT_FOR = "coordinatord.testing"
"""The client id of the tests' own reads and writes: faults do not hit it."""


@dataclass(slots=True, eq=False)
class Fault:
    """One fault, and the counts of its matches and hits. None for `api`, `client` or `group` matches any."""

    number: int
    kind: Kind
    api: str | None = None
    client: str | None = None
    group: str | None = None
    error: ErrorCode = ErrorCode.NONE
    delay_ms: int = 0
    after: bool = False
    times: int | None = None
    nth: int | None = None
    every: int | None = None
    probability: float | None = None
    chance: random.Random = field(default_factory=random.Random)
    matched: int = 0
    hits: int = 0
    held: int = 0
    """Requests that the fault has stopped and not released yet."""

    @property
    def is_blackhole(self) -> bool:
        """True if the fault drops all of a client's requests; then the responses to earlier requests are lost as
        well.
        """
        limits = (self.api, self.group, self.times, self.nth, self.every, self.probability)
        return self.kind is Kind.DROP and self.client is not None and not any(each is not None for each in limits)

    @property
    def is_over(self) -> bool:
        """True if the fault hits no more requests."""
        if self.times is not None and self.hits >= self.times:
            return True
        return self.nth is not None and self.matched >= self.nth

    def hit(self) -> bool:
        """Count a matching request. Return whether the fault hits it."""
        self.matched += 1
        if self.nth is not None and self.matched != self.nth:
            return False
        if self.every is not None and self.matched % self.every:
            return False
        if self.probability is not None and self.chance.random() >= self.probability:
            return False
        self.hits += 1
        return True

    def description(self) -> str:
        """Return the fault in words, for sentences: `fail OffsetCommit with NOT_COORDINATOR (client a, 3 times)`."""
        what = self.kind.value if not self.after else f"{self.kind.value} after it is processed"
        error = f" with {self.error.name}" if self.kind is Kind.FAIL else ""
        limits = [
            f"client {self.client}" * (self.client is not None),
            f"group {self.group}" * (self.group is not None),
            ("once" if self.times == 1 else f"{self.times} times") * (self.times is not None),
            f"only number {self.nth}" * (self.nth is not None),
            f"every {self.every}." * (self.every is not None),
            f"with probability {self.probability}" * (self.probability is not None),
        ]
        limited = ", ".join(each for each in limits if each)
        return f"{what} {self.api or 'any request'}{error}" + (f" ({limited})" if limited else "")


class Faults:
    """The faults of one server, in the order in which they were made."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.active: dict[int, Fault] = {}
        self.removed: list[Fault] = []
        self._by_api: dict[int | None, list[Fault]] = {}
        self._made = 0

    def __iter__(self) -> Iterator[Fault]:
        return iter(self.active.values())

    def add(
        self,
        kind: str,
        *,
        api: str | None = None,
        error: str | None = None,
        client: str | None = None,
        group: str | None = None,
        delay_ms: int = 0,
        after: bool = False,
        times: int | None = None,
        nth: int | None = None,
        every: int | None = None,
        probability: float | None = None,
        number: int | None = None,
    ) -> Fault:
        """Make a fault. Raises ControlError for unknown names, and for numbers that hit nothing. `number` must be above
        all earlier ones; without it, the fault gets the next number.
        """
        if kind not in list(Kind):
            raise unknown("fault", kind, [each.value for each in Kind])
        if api is not None and api not in API_KEYS:
            raise unknown("API", api, API_KEYS)
        if (kind == Kind.FAIL) is not (error is not None):
            raise ControlError(
                "fail needs an error, such as NOT_COORDINATOR." if error is None else f"{kind} takes no error."
            )
        if kind == Kind.FAIL and api is None:
            raise ControlError("fail needs an API: each has a way of its own to say an error.")
        for name, count in (("times", times), ("nth", nth), ("every", every)):
            if count is not None and count < 1:
                raise ControlError(f"{name} counts from 1, so {count} hits nothing.")
        if nth is not None and (times is not None or every is not None):
            raise ControlError("nth names one request, so it goes with neither times nor every.")
        if probability is not None and not 0 < probability <= 1:
            raise ControlError(f"probability is above 0 and at most 1, not {probability}.")
        if delay_ms < 0:
            raise ControlError(f"A delay of {delay_ms} ms would be in the past.")
        if number is not None and number <= self._made:
            raise ControlError(f"There was a fault {number} already; the next is {self._made + 1}.")
        self._made = self._made + 1 if number is None else number
        chance = random.Random(f"{self.seed}/{self._made}")
        code = error_named(error) if error is not None else ErrorCode.NONE
        made = Fault(
            self._made, Kind(kind), api, client, group, code, delay_ms, after, times, nth, every, probability, chance
        )
        self.active[made.number] = made
        self._by_api.setdefault(None if api is None else API_KEYS[api], []).append(made)
        return made

    def find(self, number: int) -> Fault:
        """Return an active fault. Raises ControlError."""
        found = self.active.get(number)
        if found is None:
            raise not_there(f"There is no fault {number} now; there are {', '.join(map(str, self.active)) or 'none'}.")
        return found

    def remove(self, number: int) -> Fault:
        """Remove a fault, so that it hits no more. Raises ControlError."""
        found = self.find(number)
        del self.active[number]
        self.removed.append(found)
        key = None if found.api is None else API_KEYS[found.api]
        self._by_api[key].remove(found)
        if not self._by_api[key]:
            del self._by_api[key]
        return found

    def may_hit(self, api_key: int) -> bool:
        """Return whether an active fault matches requests of this API."""
        return api_key in self._by_api or None in self._by_api

    def meet(self, api_key: int, client: str | None, groups: Callable[[], frozenset[str]]) -> Fault | None:
        """Return the fault that hits a request, or None. `groups` reads the groups that the request names."""
        if client == NO_FAULT_FOR:
            return None
        may_hit: list[Fault] = [*self._by_api.get(api_key, ()), *self._by_api.get(None, ())]
        for fault in sorted(may_hit, key=lambda each: each.number):
            if fault.is_over or (fault.client is not None and fault.client != client):
                continue
            if fault.group is not None and fault.group not in groups():
                continue
            if fault.hit():
                return fault
        return None


def error_named(name: str) -> ErrorCode:
    """Return the error of this name, as Kafka writes it. Raises ControlError."""
    try:
        found = ErrorCode[name]
    except KeyError:
        raise unknown("error", name, [each.name for each in ErrorCode if each]) from None
    if found is ErrorCode.NONE:
        raise ControlError("NONE is no error: without a fault the request is answered so.")
    return found
