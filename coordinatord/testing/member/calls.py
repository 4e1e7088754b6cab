"""Exclusive calls of the application: one at a time, as Kafka's consumer enforces with acquire and release.

Only `Wakeup` may come from elsewhere during a call; it interrupts Kafka's consumer in the same way.
"""

from __future__ import annotations

from coordinatord.testing.member.state import Member


class ConcurrentModificationError(RuntimeError):
    """A call during another one: Kafka's ConcurrentModificationException. The first call continues."""


class ConsumerClosedError(RuntimeError):
    """A call after `Close`: Kafka's IllegalStateException."""


def call_under_way(member: Member) -> str:
    """Return the name of the call that has not returned yet; empty if there is none."""
    if member.in_poll:
        return "poll"
    if member.sync_commit is not None:
        return "commit"
    return "close" if member.closing is not None else ""


def acquire(member: Member, call: str) -> None:
    """Begin a call. Raises ConcurrentModificationError if another call has not returned yet, ConsumerClosedError if the
    member is closed.
    """
    under_way = call_under_way(member)
    if under_way:
        raise ConcurrentModificationError(
            f"KafkaConsumer is not safe for multi-threaded access: {call} was called, "
            f"and {under_way} has not returned yet"
        )
    if member.closed:
        raise ConsumerClosedError("This consumer has already been closed.")
