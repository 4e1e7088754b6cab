"""Looks at a log and at where partitions end: each reads what is new, and has the rows of three tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from coordinatord.pipeline.analysis.curve import Point
from coordinatord.pipeline.analysis.generations import TopicPartition
from coordinatord.pipeline.analysis.groups import GroupNow, group_now, urgency
from coordinatord.pipeline.analysis.lag import Ends
from coordinatord.pipeline.analysis.now import Now, Partition, standing
from coordinatord.pipeline.analysis.status import Rules
from coordinatord.pipeline.analysis.trail import Trail
from coordinatord.pipeline.lag.fold import Fold, Known
from coordinatord.pipeline.lag.share import fold_all
from coordinatord.pipeline.source.end_offsets import Ending, from_broker, from_directories, is_place, record_time
from coordinatord.pipeline.source.logs import Part, Tail, begins, name_of, tail_of
from coordinatord.pipeline.source.options import Options
from coordinatord.pipeline.source.tail import Position, check_kept
from coordinatord.pipeline.source.topic_names import names_from_broker, names_in_directories

KEEP_SAMPLES = 500
"""The last looks at a partition's end that are kept."""


@dataclass(slots=True)
class Look:
    """The rows at a moment. `members` has how many each group has; it lacks those of which nothing is known."""

    at_ms: int
    records: int
    rows: list[Now]
    groups: list[GroupNow]
    """The most urgent first."""
    members: dict[str, int]


@dataclass(slots=True)
class Looks:
    """`ends` is a broker's log directory, a database or HOST:PORT; None if there is none to ask. `broker` are
    kafka-python's settings for it.
    """

    options: Options
    ends: str | None
    broker: Mapping[str, Any] = field(repr=False)
    rules: Rules = field(default_factory=Rules)
    workers: int = 1
    """Processes that share the logs if there is much to read."""
    _folds: dict[str, Fold] = field(default_factory=dict)
    _position: Position = field(default_factory=dict)
    _samples: dict[TopicPartition, list[Point]] = field(default_factory=dict)
    _names: dict[str, str] | None = None
    _tail: Tail | None = None

    def look(self, now_ms: int) -> Look:
        """Read what is new. Raises SourceError."""
        partitions = {(each.topic, each.partition): self._partition(each) for each in self._endings(now_ms)}
        self._read()
        rows = list(self._rows(partitions, now_ms))
        by_group: dict[str, list[Now]] = {}
        for row in rows:
            by_group.setdefault(row.group_id, []).append(row)
        groups = sorted((group_now(each) for each in by_group.values()), key=urgency)
        known = {group: each.count for fold in self._folds.values() for group, each in fold.groups.items()}
        return Look(now_ms, sum(fold.records for fold in self._folds.values()), rows, groups, known)

    def _read(self) -> None:
        if self._tail is None:
            self._tail = tail_of(self.options)
        tail = self._tail
        ends = tail.ends()
        start = check_kept(self._position, ends, fail=True)
        start = start or begins(tail)
        by_log: dict[str, list[Part]] = {}
        for part in tail.plan(start, ends):
            by_log.setdefault(name_of(part), []).append(part)
        tasks = [
            (self._folds.get(name) or Fold(self.rules.window_ms), parts, self.options.wanted)
            for name, parts in by_log.items()
        ]
        self._folds.update(zip(by_log, fold_all(tasks, self.workers), strict=True))
        self._position = {**start, **ends}

    @property
    def _directory(self) -> str | None:
        return self.ends if self.ends is not None and is_place(self.ends) else None

    def _endings(self, now_ms: int) -> list[Ending]:
        if self.ends is None:
            return []
        if self._directory is not None:
            return from_directories([self._directory], now_ms)
        return from_broker(self.ends, now_ms, None, self.broker)

    def _partition(self, ending: Ending) -> Partition:
        samples = self._samples.setdefault((ending.topic, ending.partition), [])
        sample = Point(ending.end_offset, ending.sampled_ms)
        samples += [] if samples and samples[-1] == sample else [sample]
        del samples[:-KEEP_SAMPLES]
        ends = Ends(ending.log_start_offset, ending.end_offset, ending.sampled_ms)
        return Partition.of(ending.topic, ending.partition, ends, [*ending.points, *samples])

    def _rows(self, partitions: dict[TopicPartition, Partition], now_ms: int) -> Iterator[Now]:
        nothing = Trail(self.rules.window_ms)
        names = self._topic_names()
        for fold in self._folds.values():
            trails = dict(fold.trails)
            for group, known in fold.groups.items():
                if self.options.wanted.has_group(group):
                    for topic, number in known.assigned(names):
                        trails.setdefault((group, topic, number), nothing)
            for (group, topic, number), trail in sorted(trails.items(), key=lambda each: each[0]):
                partition = partitions.get((topic, number)) or Partition(topic, number)
                members = fold.groups.get(group, Known()).members
                yield standing(
                    group, trail, partition, now_ms, members=members, rules=self.rules, record_time=self._record_time
                )

    def _record_time(self, topic: str, partition: int, offset: int) -> int | None:
        return None if self._directory is None else record_time(self._directory, topic, partition, offset)

    def _topic_names(self) -> dict[str, str]:
        """Topic names by id, if groups of the consumer protocol need them: asked for once, and when one is missing."""
        wanted = {
            topic_id
            for fold in self._folds.values()
            for known in fold.groups.values()
            for owned in known.current.values()
            for topic_id, _ in owned
        }
        told = {name: value for fold in self._folds.values() for name, value in fold.names.items()}
        found = told | (self._names or {})
        if wanted <= found.keys() or (self._names is not None and wanted <= self._names.keys()):
            return found
        if self._names is None or wanted - found.keys():
            self._names = names_in_directories([*self.options.paths, *([self._directory] if self._directory else [])])
            bootstrap = self.options.bootstrap or (self.ends if self._directory is None else None)
            if bootstrap is not None:
                self._names |= names_from_broker(bootstrap, self.broker)
        return told | self._names
