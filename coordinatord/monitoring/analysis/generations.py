"""A classic group's generations in a plain Kafka log, and its commits: plain values, made from rows.

A GroupMetadata record is written at the end of a rebalance; its timestamp is that time. Its current_state_timestamp is
the time at which the last member had rejoined, because the group was CompletingRebalance at the write. The log does not
contain the beginning of the rebalance.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

TopicPartition = tuple[str, int]

HEARTBEAT_MS = 3_000
"""heartbeat.interval.ms of most clients: the time until a member receives the request to rejoin."""
CONSUMER_HEARTBEAT_MS = 5_000
"""Default of group.consumer.heartbeat.interval.ms."""
COMMIT_MS = 5_000
"""auto.commit.interval.ms of most clients."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member of one generation. Timeouts in milliseconds; `topics` and `owned` are those of its subscription."""

    member_id: str
    instance: str | None
    client_id: str
    host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    topics: frozenset[str]
    owned: frozenset[TopicPartition]
    assigned: frozenset[TopicPartition]
    tells_generation: bool = False
    """True if the subscription contains the member's generation, so that it differs at every join."""
    seen_ms: int | None = None
    """The last sign of life besides commits: groups of the consumer protocol (KIP-848) log it."""
    heartbeat_ms: int = HEARTBEAT_MS
    """The time between two heartbeats. A session begins with the last
    heartbeat, and a commit may follow that heartbeat.
    """

    @property
    def client(self) -> tuple[str, str]:
        """Client id and host, which stay unchanged when a process restarts on its machine."""
        return self.client_id, self.host


@dataclass(frozen=True, slots=True)
class Generation:
    """A logged generation. `joined_ms` is None if the record's version lacks it."""

    number: int
    at_ms: int
    joined_ms: int | None
    protocol: str | None
    leader: str | None
    members: Mapping[str, Member]

    @property
    def statics(self) -> dict[str, str]:
        """Member ids by instance id."""
        return {each.instance: each.member_id for each in self.members.values() if each.instance is not None}

    def owners(self) -> dict[TopicPartition, str]:
        """Return the owner of each partition: a member id, or the instance id if there is one, which is stable."""
        return {
            partition: member.instance or member.member_id
            for member in self.members.values()
            for partition in member.assigned
        }


class Commits:
    """The commit times of each partition: milliseconds in ascending order."""

    def __init__(self, times: Mapping[TopicPartition, Sequence[int]]) -> None:
        self.times = times

    def last(self, partitions: Iterable[TopicPartition], until_ms: int) -> int | None:
        """Return the time of the last commit of any of the partitions up to a time."""
        found = [self._last(partition, until_ms) for partition in partitions]
        return max((each for each in found if each is not None), default=None)

    def _last(self, partition: TopicPartition, until_ms: int) -> int | None:
        times = self.times.get(partition, ())
        index = bisect_right(times, until_ms)
        return int(times[index - 1]) if index else None

    def gap(self, partition: TopicPartition, around_ms: int) -> int | None:
        """Return the milliseconds between the commits before and after a time; None if either is missing."""
        times = self.times.get(partition, ())
        index = bisect_right(times, around_ms)
        return int(times[index] - times[index - 1]) if 0 < index < len(times) else None

    def widest_gap(self, partition: TopicPartition, from_ms: int, to_ms: int) -> int | None:
        """Return the longest gap between two commits that overlaps a period; None if there are fewer than two."""
        times = self.times.get(partition, ())
        first, last = max(0, bisect_right(times, from_ms) - 1), bisect_right(times, to_ms) + 1
        return max((int(b - a) for a, b in pairwise(times[first:last])), default=None)

    def usual_gap(self, partition: TopicPartition, until_ms: int) -> int | None:
        """Return the median of the last nine gaps before a time."""
        times = self.times.get(partition, ())
        index = bisect_right(times, until_ms)
        recent = times[max(0, index - 10) : index]
        gaps = sorted(int(b - a) for a, b in pairwise(recent))
        return gaps[len(gaps) // 2] if gaps else None


NO_COMMITS = Commits({})


def generation_of(row: Mapping[str, Any]) -> Generation | None:
    """Return the generation in a row of group_generations; None for a tombstone."""
    if row["tombstone"]:
        return None
    members = (_member(each) for each in row["members"])
    return Generation(
        int(row["generation"]),
        int(row["timestamp_ms"] or row["current_state_timestamp_ms"] or 0),
        row["current_state_timestamp_ms"],
        row["protocol"],
        row["leader"],
        {member.member_id: member for member in members},
    )


def _member(row: Mapping[str, Any]) -> Member:
    subscription, assignment = row["subscription"], row["assignment"]
    session_ms = row["session_timeout_ms"]
    rebalance_ms = row["rebalance_timeout_ms"]
    return Member(
        row["member_id"],
        row["group_instance_id"],
        row["client_id"],
        row["client_host"],
        session_ms,
        session_ms if rebalance_ms is None else rebalance_ms,
        frozenset(() if subscription is None else subscription["topics"]),
        _partitions(None if subscription is None else subscription["owned_partitions"]),
        _partitions(None if assignment is None else assignment["assigned_partitions"]),
        subscription is not None and subscription["generation_id"] >= 0,
    )


def _partitions(rows: Sequence[Mapping[str, Any]] | None) -> frozenset[TopicPartition]:
    # Arrow passes a list as a numpy array, which has no truth value.
    return frozenset() if rows is None else frozenset((row["topic"], int(p)) for row in rows for p in row["partitions"])
