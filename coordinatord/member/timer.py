"""A member's three timers, as Kafka's client keeps them, and how long it waits before it tries again.

Time is told with every call and never stored but as a deadline. A timer is expired *at* its deadline.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

NEVER: Final = 1 << 62
"""A deadline in milliseconds that does not come."""

BACKOFF_BASE: Final = 2
BACKOFF_JITTER: Final = 0.2


class Timer:
    """A deadline that is set from now on."""

    __slots__ = ("deadline_ms",)

    def __init__(self, deadline_ms: int = NEVER) -> None:
        self.deadline_ms = deadline_ms

    def reset(self, now_ms: int, timeout_ms: int) -> None:
        """Let it expire in `timeout_ms`."""
        assert timeout_ms >= 0
        self.deadline_ms = now_ms + timeout_ms

    def is_expired(self, now_ms: int) -> bool:
        """Whether its time has come."""
        return now_ms >= self.deadline_ms

    def remaining_ms(self, now_ms: int) -> int:
        """How long it has still to go."""
        return max(0, self.deadline_ms - now_ms)


class Backoff:
    """Exponential, up to a maximum, each time spread by a fifth. `random` gives a number from 0 to below 1."""

    __slots__ = ("_initial_ms", "_max_ms", "_random")

    def __init__(self, initial_ms: int, max_ms: int, random: Callable[[], float]) -> None:
        self._initial_ms = min(initial_ms, max_ms)
        self._max_ms = max_ms
        self._random = random

    def after_ms(self, attempts: int) -> int:
        """How long to wait after so many attempts before this one; 0 the first time."""
        if self._max_ms <= self._initial_ms:
            return self._initial_ms
        grown = self._initial_ms
        while attempts > 0 and grown < self._max_ms:
            grown *= BACKOFF_BASE
            attempts -= 1
        factor = 1 - BACKOFF_JITTER + 2 * BACKOFF_JITTER * self._random()
        return min(int(min(grown, self._max_ms) * factor), self._max_ms)


class Heartbeat:
    """When to send one, when to take the coordinator for dead, and when to take ourselves for dead.

    `session` runs from the last answer, `heartbeat` from the last request, `poll` from the application's last poll.
    """

    __slots__ = (
        "attempts",
        "backoff",
        "heartbeat",
        "heartbeat_interval_ms",
        "in_flight",
        "last_sent_ms",
        "max_poll_interval_ms",
        "poll",
        "session",
        "session_timeout_ms",
    )

    def __init__(
        self, session_timeout_ms: int, heartbeat_interval_ms: int, max_poll_interval_ms: int, backoff: Backoff
    ) -> None:
        if heartbeat_interval_ms >= session_timeout_ms:
            raise ValueError(
                f"heartbeat.interval.ms ({heartbeat_interval_ms}) must be lower than session.timeout.ms "
                f"({session_timeout_ms}): take a third of it"
            )
        self.session_timeout_ms = session_timeout_ms
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.max_poll_interval_ms = max_poll_interval_ms
        self.backoff = backoff
        self.heartbeat = Timer()
        self.session = Timer()
        self.poll = Timer()
        self.in_flight = False
        self.attempts = 0  # that failed since the last answer
        self.last_sent_ms: int | None = None

    def polled(self, now_ms: int) -> None:
        """The application is alive."""
        self.poll.deadline_ms = now_ms + self.max_poll_interval_ms

    def sent(self, now_ms: int) -> None:
        """The next one is due in an interval, whether this one is answered or not."""
        self.last_sent_ms = now_ms
        self.in_flight = True
        self.heartbeat.deadline_ms = now_ms + self.heartbeat_interval_ms

    def received(self, now_ms: int) -> None:
        """The coordinator is alive and has us."""
        self.in_flight = False
        self.attempts = 0
        self.session.deadline_ms = now_ms + self.session_timeout_ms

    def failed(self, now_ms: int) -> None:
        """Try again soon; each time that it fails a little later."""
        self.in_flight = False
        self.heartbeat.reset(now_ms, self.backoff.after_ms(self.attempts))
        self.attempts += 1

    def reset_timeouts(self, now_ms: int) -> None:
        """All three begin anew: the member has joined."""
        self.session.reset(now_ms, self.session_timeout_ms)
        self.poll.reset(now_ms, self.max_poll_interval_ms)
        self.heartbeat.reset(now_ms, self.heartbeat_interval_ms)

    def reset_session_timeout(self, now_ms: int) -> None:
        """Give a coordinator that was just found a whole session."""
        self.session.reset(now_ms, self.session_timeout_ms)

    def time_to_next_ms(self, now_ms: int) -> int:
        """Until the next heartbeat is due."""
        return self.heartbeat.remaining_ms(now_ms)
