"""Scans of a log and of partitions' ends: each reads the new records, and returns the rows of three tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from coordinatord.monitoring.analysis.commit_window import Trail
from coordinatord.monitoring.analysis.consumer_group import SESSION_MS
from coordinatord.monitoring.analysis.current_lag import Now, Partition, RecordTime, no_record_time, standing
from coordinatord.monitoring.analysis.generations import TopicPartition
from coordinatord.monitoring.analysis.groups import GroupNow, group_now
from coordinatord.monitoring.analysis.members import Event
from coordinatord.monitoring.analysis.offset_timeline import Point
from coordinatord.monitoring.analysis.severity import judged, under_way, urgency
from coordinatord.monitoring.analysis.status import Rules
from coordinatord.monitoring.offsets_log.decode.projection import Wanted
from coordinatord.monitoring.offsets_log.lag.fold import Fold
from coordinatord.monitoring.offsets_log.lag.histories import Histories, no_sessions
from coordinatord.monitoring.offsets_log.lag.known import Key
from coordinatord.monitoring.offsets_log.lag.parallel_fold import fold_all
from coordinatord.monitoring.offsets_log.source.end_offsets import (
    Ending,
    RecordTimes,
    from_broker,
    from_directories,
    is_place,
    points_of,
)
from coordinatord.monitoring.offsets_log.source.logs import Part, Tail, begins, name_of, reading_on, tail_of
from coordinatord.monitoring.offsets_log.source.options import PATIENCE_S, Options
from coordinatord.monitoring.offsets_log.source.tail import Position, check_kept
from coordinatord.monitoring.offsets_log.source.topic_names import names_from_broker, names_in_directories

LookUp = Callable[[int, Collection[TopicPartition]], list[Ending]]

KEEP_SAMPLES = 500
"""Maximum number of samples of a partition's end that are kept: the last ones."""


@dataclass(slots=True)
class Snapshot:
    """The rows at a given time. `members` is the number of members by group, without groups of unknown members."""

    at_ms: int
    records: int
    rows: list[Now]
    groups: list[GroupNow]
    """Groups, the most urgent first. The status of each is its verdict (analysis.severity)."""
    members: dict[str, int]
    undecoded: int
    """Number of pieces of the log that could not be decoded, in all that was read so far."""
    absent: list[str] = field(default_factory=list)
    """Partitions of a broker's log that could not be read, because they have no leader at present."""
    leaderless: list[str] = field(default_factory=list)
    """Partitions of topics whose ends are unknown, because they have no leader at present."""
    others: dict[str, str] = field(default_factory=dict)
    """Share and streams groups: the type of each. The lag of a streams group is in the rows, if it has committed."""


class Verdict(NamedTuple):
    """The result of a scan for one log. `members` is the number of members of each of its groups."""

    records: int
    rows: list[Now]
    members: dict[str, int]
    names: dict[str, str]
    """Topic names by id, as far as the log's records have them."""
    undecoded: int
    others: dict[str, str]
    """Groups of other types, share and streams, by id."""
    trouble: dict[str, list[Event]]
    """Crash loops and storms that are not over, by group."""


@dataclass(slots=True)
class Scene:
    """The data by which a log is judged at one time. `samples` are the ends that scans have found; `directory` has the
    records of partitions, if it is known; `look_up` requests ends. `endings` are those of the judged partitions.
    """

    wanted: Wanted
    samples: Mapping[TopicPartition, list[Point]]
    now_ms: int
    rules: Rules
    directory: str | None
    look_up: LookUp
    endings: Mapping[TopicPartition, Ending] = field(default_factory=dict)
    began_s: float = field(default_factory=time.monotonic)
    _record_time: RecordTime = no_record_time
    _partitions: dict[TopicPartition, Partition] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.directory is not None:
            self._record_time = RecordTimes([self.directory])

    def alone(self, fold: Fold) -> Verdict | Fold:
        """Return the verdict from the log alone; the fold if it has topics by ids that other sources can name."""
        if not fold.topic_ids() <= fold.names.keys():
            return fold
        trails = self.trails(fold, fold.names)
        return self.with_ends({(topic, number) for _, topic, number in trails}).verdict(fold, fold.names)

    def trails(self, fold: Fold, names: Mapping[str, str]) -> dict[Key, Trail]:
        """Return the trails of the groups' commits, and empty ones of the other partitions that their members have.
        `names` are topic names by id.
        """
        nothing = Trail(self.rules.window_ms)
        trails = dict(fold.trails)
        for group, known in fold.groups.items():
            if self.wanted.has_group(group):
                for topic, number in known.assigned(names):
                    trails.setdefault((group, topic, number), nothing)
        return trails

    def with_ends(self, places: Collection[TopicPartition]) -> Scene:
        """Return the scene with the present ends of these partitions. A log is read first: so no commit is later than
        the ends that it is compared with. The scene's time stays that at which reading began, because later commits
        may be unknown: with the time of the ends, each group of a log that takes long to read would look silent.
        """
        is_live = self.directory is None
        ends_ms = self.now_ms + (round((time.monotonic() - self.began_s) * 1000) if is_live else 0)
        found = {(each.topic, each.partition): each for each in self.look_up(ends_ms, places)} if places else {}
        samples = {
            where: _with(self.samples.get(where, ()), Point(each.end_offset, each.sampled_ms))
            for where, each in found.items()
        }
        return replace(self, endings=found, samples=samples, _partitions={})

    def verdict(self, fold: Fold, names: Mapping[str, str]) -> Verdict:
        """Return the verdict. `names` are topic names by id."""
        return self._verdict(fold, self.trails(fold, names))

    def _verdict(self, fold: Fold, trails: Mapping[Key, Trail]) -> Verdict:
        rows = []
        histories = fold.histories or Histories()
        of_groups = {group: histories.members(group, fold.groups.get(group)) for group, _, _ in trails}
        for (group, topic, number), trail in sorted(trails.items(), key=lambda each: each[0]):
            partition, members = self._partition(topic, number), of_groups[group]
            rows.append(
                standing(
                    group, trail, partition, self.now_ms,
                    members=members, rules=self.rules, record_time=self._record_time,
                )
            )  # fmt: skip
        members_of = {group: each.count for group, each in fold.groups.items() if each.exists}
        events = {group: under_way(each.events(), self.now_ms) for group, each in histories.of.items()}
        trouble = {group: found for group, found in events.items() if found}
        return Verdict(fold.records, rows, members_of, fold.names, fold.undecoded, dict(fold.others), trouble)

    def _partition(self, topic: str, number: int) -> Partition:
        """Return a partition with its ends, which are read once, however many groups read the partition."""
        known = self._partitions.get((topic, number))
        if known is None:
            known, ending = Partition(topic, number), self.endings.get((topic, number))
            if ending is not None:
                earlier = ending.points if self.directory is None else points_of(self.directory, ending)
                known = Partition.of(topic, number, ending.ends, [*earlier, *self.samples[topic, number]])
            self._partitions[topic, number] = known
        return known


def _with(points: Sequence[Point], point: Point) -> list[Point]:
    return [*points, *([] if points and points[-1] == point else [point])]


def _endings(
    ends: str | None,
    directory: str | None,
    broker: Mapping[str, Any],
    window_ms: int,
    now_ms: int,
    places: Collection[TopicPartition],
) -> list[Ending]:
    """Return the present ends of these partitions. With its first five arguments bound it is a LookUp."""
    if ends is None:
        return []
    if directory is not None:
        return from_directories([directory], now_ms, frozenset(topic for topic, _ in places), with_points=False)
    return from_broker(ends, now_ms, places, broker, window_ms)


def _names(directories: Sequence[str], bootstrap: str | None, broker: Mapping[str, Any]) -> dict[str, str]:
    """Return topic names by id, from directories and from a broker."""
    found = names_in_directories(directories)
    return found if bootstrap is None else found | names_from_broker(bootstrap, broker)


def _sessions(bootstrap: str, broker: Mapping[str, Any], groups: Collection[str]) -> dict[str, int]:
    """Return the session timeouts of groups of the consumer protocol."""
    from coordinatord.monitoring.offsets_log.source.tails import sessions_from_broker

    return sessions_from_broker(bootstrap, broker, groups)


@dataclass(slots=True)
class Looks:
    """Scans of the logs that `options` name. `ends` is a broker's log directory, a database or HOST:PORT; None if there
    is no source of ends. `broker` are kafka-python's settings for it.
    """

    options: Options
    ends: str | None
    broker: Mapping[str, Any] = field(repr=False)
    rules: Rules = field(default_factory=Rules)
    workers: int = 1
    """Number of processes that share the logs if there is much to read."""
    session_ms: int = SESSION_MS
    """group.consumer.session.timeout.ms, for groups for which no broker returns their own."""
    _folds: dict[str, Fold] = field(default_factory=dict)
    _position: Position = field(default_factory=dict)
    _samples: dict[TopicPartition, list[Point]] = field(default_factory=dict)
    _names: dict[str, str] | None = None
    _tail: Tail | None = None

    def look(self, now_ms: int, *, last: bool = False) -> Snapshot:
        """Read new records and return the rows. With `last`, there is no further scan: records are judged in the
        process that read them, and dropped. Raises SourceError.
        """
        look_up = partial(_endings, self.ends, self._directory, self.broker, self.rules.window_ms)
        scene = Scene(self.options.wanted, self._samples, now_ms, self.rules, self._directory, look_up)
        new = self._read(scene.alone if last else None)
        found: dict[str, Fold | Verdict] = {**self._folds, **new}
        folds = {name: each for name, each in found.items() if isinstance(each, Fold)}
        self._folds |= {} if last else folds
        names = self._topic_names(folds, {k: v for each in found.values() for k, v in each.names.items()})
        places = {(topic, number) for each in folds.values() for _, topic, number in scene.trails(each, names)}
        scene = scene.with_ends(places)
        self._samples |= {where: points[-KEEP_SAMPLES:] for where, points in scene.samples.items()}
        verdicts = [each if isinstance(each, Verdict) else scene.verdict(each, names) for each in found.values()]
        rows = [row for verdict in verdicts for row in verdict.rows]
        by_group: dict[str, list[Now]] = {}
        for row in rows:
            by_group.setdefault(row.group_id, []).append(row)
        trouble = {group: events for verdict in verdicts for group, events in verdict.trouble.items()}
        now = {group: group_now(each) for group, each in by_group.items()}
        told = {group: judged(group, now.get(group), trouble.get(group, ())) for group in now.keys() | trouble.keys()}
        groups = sorted(told.values(), key=urgency)
        known = {group: count for verdict in verdicts for group, count in verdict.members.items()}
        records, undecoded = (sum(getattr(each, name) for each in verdicts) for name in ("records", "undecoded"))
        absent = sorted(self._tail.absent) if self._tail is not None else []
        leaderless = self._leaderless({(row.topic, row.partition) for row in rows if row.end_offset is None})
        others = {group: kind for verdict in verdicts for group, kind in verdict.others.items()}
        return Snapshot(scene.now_ms, records, rows, groups, known, undecoded, absent, leaderless, others)

    def _leaderless(self, places: Collection[TopicPartition]) -> list[str]:
        """Return those of the partitions that exist, although no node could be asked for their ends."""
        if self.ends is None or self._directory is not None or not places:
            return []
        from coordinatord.monitoring.offsets_log.source.cluster import Cluster

        with Cluster(self.ends, self.broker, PATIENCE_S) as cluster:
            return [f"{topic}-{number}" for topic, number in sorted(cluster.existing(places))]

    def _read(self, judge: Callable[[Fold], Fold | Verdict] | None) -> dict[str, Fold | Verdict]:
        """Return each log with new records, by its name: its fold, or the result of `judge` from another process. With
        `judge`, there is no further scan.
        """
        if self._tail is None:
            self._tail = tail_of(self.options)
        tail = self._tail
        ends = tail.ends()
        start = check_kept(self._position, ends, fail=True, absent=tail.absent)
        start = start or begins(tail)
        by_log: dict[str, list[Part]] = {}
        for part in tail.plan(start, ends):
            by_log.setdefault(name_of(part), []).append(part)
        tasks = [
            (
                self._folds.get(name) or self._fold(),
                parts if judge is None else reading_on(parts),
                self.options.wanted,
            )
            for name, parts in by_log.items()
        ]
        found = dict(zip(by_log, fold_all(tasks, self.workers, judge), strict=True))
        self._position = {**start, **ends}
        return found

    def _fold(self) -> Fold:
        directories = [*self.options.paths, *([self._directory] if self._directory else [])]
        bootstrap = self.options.bootstrap or (self.ends if self._directory is None else None)
        names = partial(_names, directories, bootstrap, self.broker)
        sessions = no_sessions if bootstrap is None else partial(_sessions, bootstrap, self.broker)
        return Fold(self.rules.window_ms, Histories(self.session_ms, names, sessions))

    @property
    def _directory(self) -> str | None:
        return self.ends if self.ends is not None and is_place(self.ends) else None

    def _topic_names(self, folds: Mapping[str, Fold], told: dict[str, str]) -> dict[str, str]:
        """Return topic names by id, if groups of the consumer protocol need them: requested once, and again when a name
        is missing. `told` are the names in the logs.
        """
        wanted = {topic_id for fold in folds.values() for topic_id in fold.topic_ids()}
        found = told | (self._names or {})
        if wanted <= found.keys() or (self._names is not None and wanted <= self._names.keys()):
            return found
        if self._names is None or wanted - found.keys():
            directories = [*self.options.paths, *([self._directory] if self._directory else [])]
            bootstrap = self.options.bootstrap or (self.ends if self._directory is None else None)
            self._names = _names(directories, bootstrap, self.broker)
        return told | self._names
