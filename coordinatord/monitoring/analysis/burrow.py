"""Burrow's status of a partition, by Burrow's rules (github.com/linkedin/Burrow 1.3.7 to 1.9.5,
core/internal/evaluator/caching.go), for users whose alerts are built on them. `status.py` has coordinatord's own rules.

A window holds the last commits of one group for one partition, oldest first, each with the lag at its time. The first
rule that applies decides:

1. all records are read now: OK
2. the time since the last commit exceeds the length of the window: STOP; but not if a recent end offset of the
   partition was not beyond the last commit
3. an offset was less than the one before, and no later one has reached the one before: REWIND
4. some commit of the window had no lag: OK
5. all offsets are equal: STALL
6. the lag never fell: WARN
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

OK, WARN, ERROR, STOP, STALL, REWIND = "OK", "WARN", "ERR", "STOP", "STALL", "REWIND"

WINDOW = 10
"""Number of commits that Burrow keeps per partition by default (storage.intervals)."""

RECENT_MS = 100_000
"""Age in milliseconds up to which Burrow keeps end offsets by default: ten, one every ten seconds
(cluster.offset-refresh).
"""


class Commit(NamedTuple):
    """A commit with the lag at its time; `lag` is None if the partition's end offset at that time is unknown."""

    offset: int
    time_ms: int
    lag: int | None


def partition_status(commits: Sequence[Commit], end_offsets: Sequence[int], current_lag: int, now_s: int) -> str:
    """Return the status of a non-empty window. `end_offsets` are the
    partition's recent ones; Burrow's clock has seconds.
    """
    if current_lag <= 0:
        return OK
    if is_stopped(commits, now_s) and not has_caught_up_recently(commits, end_offsets):
        return STOP
    if is_rewound(commits):
        return REWIND
    if not has_always_lagged(commits):
        return OK
    if is_stalled(commits):
        return STALL
    return WARN if never_gains(commits) else OK


def group_status(statuses: Iterable[str]) -> str:
    """Return the worst status of a group's partitions; every status worse than WARN is ERR."""
    found = set(statuses)
    if found & {STOP, STALL, REWIND}:
        return ERROR
    return WARN if WARN in found else OK


def has_always_lagged(commits: Sequence[Commit]) -> bool:
    """Return whether every commit of the window had a lag."""
    return all(commit.lag != 0 for commit in commits)


def is_rewound(commits: Sequence[Commit]) -> bool:
    """Return whether a commit has a lower offset than the one before, and no commit since the first such one has
    reached that.
    """
    for number, (before, after) in enumerate(pairwise(commits), 1):
        if after.offset < before.offset:
            return all(commit.offset < before.offset for commit in commits[number:])
    return False


def is_stopped(commits: Sequence[Commit], now_s: int) -> bool:
    """Return whether the time since the last commit exceeds the length of the window."""
    first_ms, last_ms = commits[0].time_ms, commits[-1].time_ms
    return now_s * 1000 - last_ms > last_ms - first_ms


def is_stalled(commits: Sequence[Commit]) -> bool:
    """Return whether all commits have the same offset."""
    return all(commit.offset == commits[0].offset for commit in commits)


def never_gains(commits: Sequence[Commit]) -> bool:
    """Return whether the lag never falls, as far as it is known."""
    lags = [commit.lag for commit in commits if commit.lag is not None]
    return all(after >= before for before, after in pairwise(lags))


def has_caught_up_recently(commits: Sequence[Commit], end_offsets: Sequence[int]) -> bool:
    """Return whether a recent end offset of the partition is not beyond the last commit."""
    return any(end <= commits[-1].offset for end in end_offsets)
