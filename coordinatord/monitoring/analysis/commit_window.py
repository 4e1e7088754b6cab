"""A summary of one group's commits for one partition, updated commit by
commit, in bounded memory: the input of the rules.

Windows are durations, never numbers of commits: a group that commits once a second and one that commits once
a minute get the same verdict. A trail drops commits, but keeps all data that the rules use: the time since
which the offset is unchanged, the offsets from which it went back, the last standstill, the long silences,
and the offset at the beginning of the window.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from coordinatord.monitoring.analysis import burrow
from coordinatord.monitoring.analysis.burrow import Commit
from coordinatord.monitoring.analysis.generations import TopicPartition

MARKS = 128
"""Number of parts of a window, of each of which the first commit is a mark."""
FALLS = 16
"""Maximum number of kept steps back after which the group has not returned to the offset; of more, the last ones."""
SILENCES = 10
STANDS = 20
"""A group without a new offset for window / STANDS stands still."""


class Rewinds(NamedTuple):
    """The commits of an earlier offset than the one before. The last one went from offset `before` to `offset` at
    `time_ms`; None where only the numbers are known.
    """

    steps: int
    records: int
    """Sum of the steps back: an estimate of records that were read twice."""
    before: int | None = None
    offset: int | None = None
    time_ms: int | None = None


class Trail:
    """The summary of commits that were passed to `add`, in the order of the log.
    `window_ms` is the longest window that a rule uses.
    """

    __slots__ = (
        "count_here",
        "falls",
        "last",
        "marks",
        "moved_ms",
        "recent",
        "rewinds",
        "silences",
        "stood",
        "window_ms",
    )

    def __init__(self, window_ms: int, commits: Iterable[Commit] = ()) -> None:
        self.window_ms = window_ms
        self.last: Commit | None = None
        self.moved_ms = 0
        """Time of the first commit of the current offset since the last other offset."""
        self.count_here = 0
        """Number of commits of the current offset since then."""
        self.falls: list[tuple[int, int]] = []
        """(offset, time) of each step back from an offset that the group has not reached
        again. The first entry has the highest offset.
        """
        self.rewinds: Rewinds | None = None
        """None if the offset never went back."""
        self.stood: tuple[int, int, int] | None = None
        """(offset, since, until) of the last completed standstill."""
        self.silences: deque[tuple[int, int]] = deque(maxlen=SILENCES)
        """(begin, end) of gaps between commits of more than a third of the window."""
        self.marks: deque[Commit] = deque(maxlen=2 * MARKS)
        """The first commit of each part of the window, and the last mark before. If the clock goes to and fro, a part
        has several, of which the last ones are kept.
        """
        self.recent: deque[Commit] = deque(maxlen=burrow.WINDOW)
        """Burrow's window."""
        for commit in commits:
            self.add(commit)

    def add(self, commit: Commit) -> None:
        """Add the next commit of the log."""
        offset, time_ms, _ = commit
        last = self.last
        if last is None:
            self.moved_ms, self.count_here = time_ms, 1
        else:
            if 3 * (time_ms - last.time_ms) > self.window_ms:
                self.silences.append((last.time_ms, time_ms))
            if offset == last.offset:
                self.count_here += 1
            else:
                self._move(last.offset, offset, time_ms)
        if last is None or self.slot(time_ms) != self.slot(last.time_ms):
            self.marks.append(commit)
        self.drop_marks(time_ms - self.window_ms)
        self.last = commit
        self.recent.append(commit)

    def _move(self, before: int, offset: int, time_ms: int) -> None:
        if STANDS * (time_ms - self.moved_ms) >= self.window_ms:
            self.stood = (before, self.moved_ms, time_ms)
        self.moved_ms, self.count_here = time_ms, 1
        if offset < before:
            self.falls.append((before, time_ms))
            del self.falls[:-FALLS]
            steps, records = (0, 0) if self.rewinds is None else self.rewinds[:2]
            self.rewinds = Rewinds(steps + 1, records + before - offset, before, offset, time_ms)
        while self.falls and self.falls[-1][0] <= offset:
            self.falls.pop()

    def slot(self, time_ms: int) -> int:
        """Return the number of a time's part of a window, counted from the epoch."""
        return time_ms * MARKS // self.window_ms

    def drop_marks(self, since_ms: int) -> None:
        """Drop all marks up to then but the last one, which is the position at that time."""
        while len(self.marks) > 1 and self.marks[1].time_ms <= since_ms:
            self.marks.popleft()

    def window(self, since_ms: int) -> Sequence[Commit]:
        """Return the marks since then, the last one before, which is the position at that time, and the last commit."""
        marks = list(self.marks)
        if self.last is not None and marks[-1] != self.last:
            marks.append(self.last)
        first = next((n for n, each in enumerate(marks) if each.time_ms >= since_ms), len(marks))
        return marks[max(0, first - 1) :]

    def fallen_from(self, since_ms: int) -> int | None:
        """Return the highest offset from which the group has gone back since then
        without having returned; None if there is none.
        """
        return next((offset for offset, time_ms in self.falls if time_ms >= since_ms), None)

    @property
    def rhythm_ms(self) -> int:
        """The usual length of silences in milliseconds, if silences fill most of the time; 0 for a group that commits
        continuously, even with some pauses.
        """
        if len(self.silences) < 2:
            return 0
        lengths = sorted(end - begin for begin, end in self.silences)
        if 2 * sum(lengths) < self.silences[-1][1] - self.silences[0][0]:
            return 0
        return lengths[int(0.9 * (len(lengths) - 1))]


def rewinds(trails: Mapping[TopicPartition, Trail]) -> dict[TopicPartition, Rewinds]:
    """Return the commits that went back, of the partitions that have any."""
    return {place: trail.rewinds for place, trail in trails.items() if trail.rewinds is not None}
