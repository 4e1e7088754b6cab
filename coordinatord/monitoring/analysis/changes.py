"""Changes of a group while the log is followed: it gets stuck, its rebalances become a storm, its offsets are about to
expire; and the ends of these conditions. A status describes a state; a change is reported once.

    stuck       a partition's committed offset has not moved for `stuck_ms`, and records have been unread for as long.
                If the start of that time is unknown, or the group has no members, the partition's end must have moved
                since: there are writes and no reads. Ends when the offset moves, or nothing is left to read: as where
                no member subscribes to the topic any more. A standstill that began and ended between two samples is
                reported by the later one.
    storm       `storm_count` rebalances within `storm_ms`. Ends when fewer than half of that are left in the window, so
                that a group at the threshold is not reported again and again.
    expiring    a committed offset will expire within `expiring_ms`, by the retention. Ends when that is postponed: the
                offset was committed again, or the group has members again.

All of them end as "gone" when the offset itself is deleted or expires.

Times are those of the samples (`at_ms`) and those in the log; this module never reads a clock. The same samples in the
same order give the same changes, whether live or much later, after the follower was stopped. A condition that ended
before the first sample is not reported: a group without members that has long been quiet gives no change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

STUCK, STORM, EXPIRING = "stuck", "storm", "expiring"
BEGAN, RECOVERED, GONE = "began", "recovered", "gone"

REFRESH_MS = 24 * 3_600_000
"""Interval at which a track without changes is rewritten, so that the state's time to live does not remove it."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Thresholds of the reported changes."""

    stuck_ms: int = 5 * 60_000
    storm_count: int = 5
    storm_ms: int = 10 * 60_000
    expiring_ms: int = 24 * 3_600_000


class Seen(NamedTuple):
    """One partition of a group in one sample. None for unknown values."""

    topic: str
    partition: int
    committed_offset: int
    committed_ms: int
    end_offset: int | None
    expires_ms: int | None
    moved_ms: int | None = None
    """Time at which the group reached the committed offset."""
    unread_ms: int | None = None
    """Time since which records are unread, or the latest possible one."""
    stood_since_ms: int | None = None
    """Start of the last standstill that is over, with records unread."""
    stood_until_ms: int | None = None

    @property
    def lag(self) -> int | None:
        return None if self.end_offset is None else max(0, self.end_offset - self.committed_offset)


class Track(NamedTuple):
    """The state of a partition from sample to sample."""

    committed_offset: int
    moved_ms: int
    """Time of the first known commit of that offset."""
    end_offset: int | None
    """The partition's end when the offset was first seen; None if only a later commit can make it stuck."""
    stuck_ms: int | None
    """Time since which the partition is reported as stuck."""
    expiring_ms: int | None
    """Time since which the partition is reported as expiring."""
    touched_ms: int


@dataclass(frozen=True, slots=True)
class Change:
    """One row of the table `events`; the caller adds the group."""

    kind: str
    change: str
    since_ms: int
    at_ms: int
    text: str
    seen: Seen | None = None
    rebalances: int | None = None


def look(
    track: Track | None, seen: Seen, at_ms: int, thresholds: Thresholds, *, has_members: bool | None
) -> tuple[Track, list[Change]]:
    """Return the partition's track after a sample, and the changes since the previous sample. A `track` of None means
    that this is the first sample.
    """
    changes: list[Change] = []
    if track is None:
        is_over = has_members is False and at_ms - seen.committed_ms >= thresholds.stuck_ms
        end = None if is_over else seen.end_offset
        track = Track(seen.committed_offset, min(_moved_ms(seen), at_ms), end, None, None, at_ms)
    elif seen.committed_offset != track.committed_offset:
        if track.stuck_ms is not None:
            changes.append(_recovered(STUCK, track.stuck_ms, at_ms, seen, f"moved to {seen.committed_offset}"))
        else:
            changes += _came_and_went(track, seen, at_ms, thresholds)
        moved_ms = min(max(_moved_ms(seen), track.moved_ms), at_ms)
        track = Track(seen.committed_offset, moved_ms, seen.end_offset, None, track.expiring_ms, at_ms)
    elif track.end_offset is None and has_members and seen.end_offset is not None:
        track = track._replace(end_offset=seen.end_offset)  # the group has members again, which could read
    track, stuck = _stuck(track, seen, at_ms, thresholds, has_members)
    track, expiring = _expiring(track, seen, at_ms, thresholds)
    if at_ms - track.touched_ms >= REFRESH_MS:
        track = track._replace(touched_ms=at_ms)
    return track, changes + stuck + expiring


def _moved_ms(seen: Seen) -> int:
    return seen.committed_ms if seen.moved_ms is None else seen.moved_ms


def _came_and_went(track: Track, seen: Seen, at_ms: int, thresholds: Thresholds) -> list[Change]:
    """Return the changes of a standstill that began and ended between the previous sample and this one."""
    since_ms, until_ms = seen.stood_since_ms, seen.stood_until_ms
    if since_ms is None or until_ms is None or since_ms < track.moved_ms or until_ms - since_ms < thresholds.stuck_ms:
        return []
    seconds = (until_ms - since_ms) // 1000
    text = f"at one offset for {seconds} s with records unread, between two looks"
    over = f"after {seconds} s: moved to {seen.committed_offset}"
    return [
        Change(STUCK, BEGAN, since_ms, at_ms, text, seen),
        Change(STUCK, RECOVERED, since_ms, at_ms, over, seen),
    ]


def _stuck(
    track: Track, seen: Seen, at_ms: int, thresholds: Thresholds, has_members: bool | None
) -> tuple[Track, list[Change]]:
    if track.stuck_ms is not None:
        if seen.lag == 0:
            return track._replace(stuck_ms=None), [
                _recovered(STUCK, track.stuck_ms, at_ms, seen, "nothing is left to read")
            ]
        return track, []
    if seen.end_offset is None or not seen.lag or track.end_offset is None:
        return track, []
    grown = seen.end_offset - track.end_offset
    if grown <= 0 and (seen.unread_ms is None or not has_members):
        return track, []
    since_ms = track.moved_ms if seen.unread_ms is None else max(track.moved_ms, seen.unread_ms)
    quiet_ms = at_ms - since_ms
    if quiet_ms < thresholds.stuck_ms:
        return track, []
    text = (
        f"at offset {seen.committed_offset} for {quiet_ms // 1000} s, {seen.lag} unread, {max(0, grown)} of them since"
    )
    if has_members is False:
        text += "; it has no members"
    return track._replace(stuck_ms=since_ms), [Change(STUCK, BEGAN, since_ms, at_ms, text, seen)]


def _expiring(track: Track, seen: Seen, at_ms: int, thresholds: Thresholds) -> tuple[Track, list[Change]]:
    is_near = seen.expires_ms is not None and seen.expires_ms - at_ms <= thresholds.expiring_ms
    if track.expiring_ms is None and is_near:
        assert seen.expires_ms is not None
        since_ms = seen.expires_ms - thresholds.expiring_ms
        left_s = (seen.expires_ms - at_ms) // 1000
        text = f"offset {seen.committed_offset} " + (f"is forgotten in {left_s} s" if left_s > 0 else "is due to go")
        return track._replace(expiring_ms=since_ms), [Change(EXPIRING, BEGAN, since_ms, at_ms, text, seen)]
    if track.expiring_ms is not None and not is_near:
        why = "it is in use" if seen.expires_ms is None else "it was put off"
        return track._replace(expiring_ms=None), [_recovered(EXPIRING, track.expiring_ms, at_ms, seen, why)]
    return track, []


def _recovered(kind: str, since_ms: int, at_ms: int, seen: Seen, why: str) -> Change:
    return Change(kind, RECOVERED, since_ms, at_ms, f"after {(at_ms - since_ms) // 1000} s: {why}", seen)


def gone(track: Track, topic: str, partition: int, at_ms: int) -> list[Change]:
    """Return the changes that end because the offset no longer exists."""
    last = Seen(topic, partition, track.committed_offset, track.moved_ms, None, None)
    return [
        Change(kind, GONE, since_ms, at_ms, "its offset is gone: deleted, or expired", last)
        for kind, since_ms in ((STUCK, track.stuck_ms), (EXPIRING, track.expiring_ms))
        if since_ms is not None
    ]


def storm(
    since_ms: int | None, ended_ms: Sequence[int], at_ms: int, thresholds: Thresholds
) -> tuple[int | None, list[Change]]:
    """Return the start of the storm after a sample (None: there is no storm), and the changes. `ended_ms` are the times
    at which the last rebalances ended: at least `storm_count` of them, if there are that many.
    """
    recent = sorted(time_ms for time_ms in ended_ms if at_ms - thresholds.storm_ms < time_ms <= at_ms)
    count = len(recent)
    if since_ms is None and count >= thresholds.storm_count:
        text = f"{count} rebalances within {(at_ms - recent[0]) // 1000} s"
        return recent[0], [Change(STORM, BEGAN, recent[0], at_ms, text, rebalances=count)]
    if since_ms is not None and 2 * count < thresholds.storm_count:
        after_s, window_s = (at_ms - since_ms) // 1000, thresholds.storm_ms // 1000
        text = f"after {after_s} s: {count} rebalances within the last {window_s} s"
        return None, [Change(STORM, RECOVERED, since_ms, at_ms, text, rebalances=count)]
    return since_ms, []
