"""Calls of the application: one at a time, as Kafka's consumer holds them apart with acquire and release.

Only `Wakeup` may come from somebody else while a call is under way; it is how Kafka's consumer is interrupted, too.
"""

from __future__ import annotations

from coordinatord.testing.member.state import Member


class ConcurrentModificationError(RuntimeError):
    """A call while another one is under way: Kafka's ConcurrentModificationException. The first call goes on."""


class ConsumerClosedError(RuntimeError):
    """A call after `Close`: Kafka's IllegalStateException."""


def call_under_way(member: Member) -> str:
    """The name of the call that has not returned yet; empty if there is none."""
    if member.in_poll:
        return "poll"
    if member.sync_commit is not None:
        return "commit"
    return "close" if member.closing is not None else ""


def acquire(member: Member, call: str) -> None:
    """Begin a call, or refuse it: the member is closed, or another call has not returned yet."""
    under_way = call_under_way(member)
    if under_way:
        raise ConcurrentModificationError(
            f"KafkaConsumer is not safe for multi-threaded access: {call} was called, "
            f"and {under_way} has not returned yet"
        )
    if member.closed:
        raise ConsumerClosedError("This consumer has already been closed.")
