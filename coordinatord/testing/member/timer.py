"""Timers of a member, as in Kafka's client, and the back-off before a retry.

The time is an argument of every call; only deadlines are stored. A timer is expired *at* its deadline.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

NEVER: Final = 1 << 62
"""Deadline in milliseconds that is never reached."""

BACKOFF_BASE: Final = 2
BACKOFF_JITTER: Final = 0.2


def check_timeout(timeout_ms: int) -> None:
    """Raise `ValueError` for a negative timeout, as Kafka's `Timer` throws IllegalArgumentException."""
    if timeout_ms < 0:
        raise ValueError(f"Invalid negative timeout {timeout_ms}")


class Timer:
    """A deadline relative to the time of its last reset."""

    __slots__ = ("deadline_ms", "start_ms")

    def __init__(self, deadline_ms: int = NEVER) -> None:
        self.deadline_ms = deadline_ms
        self.start_ms: int | None = None  # the last reset

    def reset(self, now_ms: int, timeout_ms: int) -> None:
        """Let the timer expire in `timeout_ms`, at the latest `NEVER`. Raises `ValueError` for a negative timeout."""
        check_timeout(timeout_ms)
        self.start_ms = now_ms
        self.deadline_ms = min(now_ms + timeout_ms, NEVER)

    def is_expired(self, now_ms: int) -> bool:
        """Return whether the deadline is reached."""
        return now_ms >= self.deadline_ms

    def remaining_ms(self, now_ms: int) -> int:
        """Return the milliseconds left until the deadline."""
        return max(0, self.deadline_ms - now_ms)

    def elapsed_ms(self, now_ms: int) -> int:
        """Return the milliseconds since the last reset; 0 before the first."""
        return 0 if self.start_ms is None else now_ms - self.start_ms


class Backoff:
    """Exponential back-off, up to a maximum, with 20 % jitter. `random` returns a number from 0 to below 1."""

    __slots__ = ("_initial_ms", "_max_ms", "_random")

    def __init__(self, initial_ms: int, max_ms: int, random: Callable[[], float]) -> None:
        self._initial_ms = min(initial_ms, max_ms)
        self._max_ms = max_ms
        self._random = random

    def after_ms(self, attempts: int) -> int:
        """Return the milliseconds to wait after a failed attempt; `attempts` is the number of attempts before it, so 0
        the first time.
        """
        if self._max_ms <= self._initial_ms:
            return self._initial_ms
        grown = self._initial_ms
        while attempts > 0 and grown < self._max_ms:
            grown *= BACKOFF_BASE
            attempts -= 1
        factor = 1 - BACKOFF_JITTER + 2 * BACKOFF_JITTER * self._random()
        return min(int(min(grown, self._max_ms) * factor), self._max_ms)


class Heartbeat:
    """Timers for the next heartbeat, for a failed coordinator, and for an application that has stopped polling.

    `session` runs from the last response, `heartbeat` from the last request, `poll` from the application's last poll.
    """

    __slots__ = (
        "attempts",
        "backoff",
        "heartbeat",
        "heartbeat_interval_ms",
        "in_flight",
        "last_poll_ms",
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
        self.attempts = 0  # failures since the last response
        self.last_sent_ms: int | None = None
        # Time of the application's last poll. Kafka's lastPollTime is the poll timer's clock, which heartbeats move,
        # too.
        self.last_poll_ms: int | None = None

    def polled(self, now_ms: int) -> None:
        """Restart the poll timer: the application has polled."""
        self.last_poll_ms = self.poll.start_ms = now_ms
        self.poll.deadline_ms = now_ms + self.max_poll_interval_ms

    def sent(self, now_ms: int) -> None:
        """Restart the heartbeat timer: a heartbeat was sent. The next one is due in an interval, with or without a
        response.
        """
        self.last_sent_ms = now_ms
        self.in_flight = True
        self.heartbeat.start_ms = now_ms
        self.heartbeat.deadline_ms = now_ms + self.heartbeat_interval_ms

    def received(self, now_ms: int) -> None:
        """Restart the session timer: the coordinator has responded, and the member is in its group."""
        self.in_flight = False
        self.attempts = 0
        self.session.start_ms = now_ms
        self.session.deadline_ms = now_ms + self.session_timeout_ms

    def failed(self, now_ms: int) -> None:
        """Schedule a retry of a failed heartbeat after a back-off, which grows with each failure."""
        self.in_flight = False
        self.heartbeat.reset(now_ms, self.backoff.after_ms(self.attempts))
        self.attempts += 1

    def reset_timeouts(self, now_ms: int) -> None:
        """Restart all three timers: the member has joined."""
        self.session.reset(now_ms, self.session_timeout_ms)
        self.poll.reset(now_ms, self.max_poll_interval_ms)
        self.heartbeat.reset(now_ms, self.heartbeat_interval_ms)

    def reset_session_timeout(self, now_ms: int) -> None:
        """Restart the session timer: a coordinator was just found."""
        self.session.reset(now_ms, self.session_timeout_ms)

    def time_to_next_ms(self, now_ms: int) -> int:
        """Return the milliseconds until the next heartbeat is due."""
        return self.heartbeat.remaining_ms(now_ms)
