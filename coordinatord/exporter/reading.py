"""What was read of the offsets log, folded into what the series need: by the same code as `coordinatord lag` and the
tables. Memory is bounded by groups, partitions and members, never by records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from coordinatord.exporter.choice import Choice
from coordinatord.pipeline.analysis import urgent
from coordinatord.pipeline.analysis.consumer_group import CONSUMER_KINDS, PARTITION_METADATA
from coordinatord.pipeline.analysis.curve import Point
from coordinatord.pipeline.analysis.generations import TopicPartition, generation_of
from coordinatord.pipeline.analysis.groups import group_now
from coordinatord.pipeline.analysis.history import KEEP_COMMITS, History
from coordinatord.pipeline.analysis.lag import Ends
from coordinatord.pipeline.analysis.now import Now, Partition, standing
from coordinatord.pipeline.analysis.status import Rules
from coordinatord.pipeline.analysis.trail import Trail
from coordinatord.pipeline.decode.chunk import decode
from coordinatord.pipeline.decode.kinds import GROUP_GENERATIONS, OFFSET_COMMITS
from coordinatord.pipeline.decode.wanted import Wanted
from coordinatord.pipeline.lag.fold import KINDS, Fold, Known, Written
from coordinatord.watching.view import Deadline, Ending, GroupView, Limits, View, add_point
from kafka_wire.records.batch import iterate_batches

WITH_IDS = {"topic_partitions", "assigned_partitions", "partitions_pending_revocation"}
Batches = list[tuple[str, pa.RecordBatch]]


@dataclass(slots=True)
class Reading:
    """The state of one cluster's log. One thread uses it."""

    groups: Choice
    topics: Choice
    limits: Limits = field(default_factory=Limits)
    rules: Rules = field(default_factory=Rules)
    session_ms: int = 45_000
    records: int = 0
    is_counting: bool = False
    """Whether rebalances and commits are counted: not those of before the start."""
    names: dict[str, str] = field(default_factory=dict)
    """Topic names by id."""
    topic_names: Callable[[], Mapping[str, str]] = dict
    """Asks the cluster for them."""
    _nameless: set[str] = field(default_factory=set)
    _folds: dict[int, Fold] = field(default_factory=dict)
    _histories: dict[str, History] = field(default_factory=dict)
    _commits: Counter[str] = field(default_factory=Counter)
    _points: dict[TopicPartition, list[Point]] = field(default_factory=dict)
    _bounds: dict[TopicPartition, tuple[int, int, int]] = field(default_factory=dict)

    def take(self, log_partition: int, data: bytes, offset: int) -> int:
        """Fold batches of a partition of the log, from `offset` on; returns the next offset."""
        after = offset
        for _, header in iterate_batches(data, partial=True):
            after = max(after, header.next_offset)
        if after == offset:
            return offset
        wanted = Wanted(
            kinds=KINDS | set(CONSUMER_KINDS),
            groups=(self.groups,),
            topics=(self.topics,),
            log_partition=log_partition,
            first_offset=offset,
        )
        chunks: list[Batches] = []
        at, buffer = 0, np.frombuffer(bytearray(data), np.uint8)
        while at < len(buffer):
            decoded = decode(buffer, at, len(buffer), 0, wanted)
            chunks.append([(kind, batch) for kind, batches in decoded.tables.items() for batch in batches])
            if decoded.at == at:
                break
            at = decoded.at
        self._name_topics(chunks)  # may fail, and then nothing of this has been taken
        fold = self._folds.get(log_partition)
        if fold is None:
            fold = self._folds[log_partition] = Fold(self.rules.window_ms)
            fold.ended = []
        for chunk in chunks:
            self.records += sum(batch.num_rows for _, batch in chunk)
            fold.take([each for each in chunk if each[0] in KINDS])
            self._remember(chunk, fold)
        return after

    def _name_topics(self, chunks: Iterable[Batches]) -> None:
        """Groups of the consumer protocol log topic ids. A name is asked for when an id comes for the first time: what
        has none then is shown as its id from there on, or a member would seem to have other partitions than it should.
        """
        found: set[str] = set()
        for kind, batch in (each for chunk in chunks for each in chunk if each[0] in CONSUMER_KINDS):
            if kind == PARTITION_METADATA:
                for row in batch.to_pylist():
                    self.names.update({each["topic_id"]: each["topic_name"] for each in row.get("topics") or ()})
            for column in WITH_IDS & set(batch.schema.names):
                found |= {each["topic_id"] for topics in batch.column(column).to_pylist() for each in topics or ()}
        unknown = found - self.names.keys() - self._nameless
        if unknown:
            told = self.topic_names()
            self.names.update({topic_id: name for topic_id, name in told.items() if topic_id not in self._nameless})
            self._nameless |= unknown - self.names.keys()

    def begin(self, log_partition: int) -> None:
        """The partition of the log was cut or made anew: forget what it said."""
        fold = self._folds.pop(log_partition, None)
        if fold is not None:
            for group in {key[0] for key in fold.trails} | set(fold.groups):
                self._histories.pop(group, None)

    # Histories: in the order of the log

    def _remember(self, chunk: Batches, fold: Fold) -> None:
        assert fold.ended is not None
        written = _by_group((batch for kind, batch in chunk if kind == OFFSET_COMMITS), fold.ended)
        fold.ended.clear()
        lived: dict[str, list[tuple[int, str, Any]]] = {}
        for kind, batch in chunk:
            if kind == GROUP_GENERATIONS or kind in CONSUMER_KINDS:
                for row in batch.to_pylist():
                    lived.setdefault(row["group_id"], []).append((row["log_offset"], kind, row))
        for group in written.keys() | lived.keys():
            history = self._histories.get(group)
            if history is None:
                history = self._histories[group] = History(self.names, self.session_ms)
            history.is_counting = self.is_counting
            commits = written.get(group, [])
            if self.is_counting:
                self._commits[group] += sum(len(each.offsets) for each in commits)
            begin = 0
            for log_offset, kind, row in sorted(lived.get(group, ()), key=lambda each: each[0]):
                _note(history, commits, begin, log_offset)
                begin = log_offset
                if kind == GROUP_GENERATIONS:
                    history.generation(generation_of(row))
                else:
                    history.record(kind, row)
            _note(history, commits, begin, 1 << 62)

    # Ends

    def places(self) -> list[TopicPartition]:
        """The partitions whose ends are wanted: those that groups have read or are assigned; as many as there is room
        for, those that were wanted before first.
        """
        wanted = {(topic, number) for _, topic, number in self._places()}
        known = sorted(wanted & self._bounds.keys())
        return [*known, *sorted(wanted - self._bounds.keys())][: self.limits.partitions]

    def _places(self) -> Iterator[tuple[str, str, int]]:
        for fold in self._folds.values():
            yield from fold.trails
            for group, known in fold.groups.items():
                for topic, number in known.assigned(self.names):
                    if topic in self.topics:
                        yield group, topic, number

    def ended(self, bounds: Mapping[TopicPartition, tuple[int, int]], at_ms: int) -> None:
        """Where partitions began and ended at that time. Others do not exist, or have no leader."""
        for place, (_start, end) in bounds.items():
            add_point(self._points.setdefault(place, []), Point(end, at_ms))
        self._bounds = {place: (start, end, at_ms) for place, (start, end) in bounds.items()}
        for place in self._points.keys() - bounds.keys():
            del self._points[place]

    # The view

    def view(self, now_ms: int) -> View:
        """All groups as they are known now."""
        self._forget(now_ms)
        room, left_out = self.limits.partitions, 0
        groups: dict[str, GroupView] = {}
        for fold in self._folds.values():
            trails = dict(fold.trails)
            nothing = Trail(self.rules.window_ms)
            for group, known in fold.groups.items():
                for topic, number in known.assigned(self.names):
                    if topic in self.topics:
                        trails.setdefault((group, topic, number), nothing)
            keys = sorted(trails)
            for group, places in groupby(keys, key=lambda key: key[0]):
                rows = []
                for key in places:
                    if room > 0:
                        room -= 1
                        rows.append(self._standing(key, trails[key], fold, now_ms))
                    else:
                        left_out += 1
                groups[group] = self._group(group, rows, fold, now_ms)
            for group, known in fold.groups.items():
                if group not in groups and (known.classic is not None or known.count):
                    groups[group] = self._group(group, [], fold, now_ms)
        endings = [Ending(*place, start, end) for place, (start, end, _) in sorted(self._bounds.items())]
        return View(now_ms, groups, endings, self.groups.left_out, left_out)

    def _standing(self, key: tuple[str, str, int], trail: Trail, fold: Fold, now_ms: int) -> Now:
        group, topic, number = key
        found = self._bounds.get((topic, number))
        if found is None:
            partition = Partition(topic, number)
        else:
            start, end, at_ms = found
            partition = Partition.of(topic, number, Ends(start, end, at_ms), self._points[topic, number])
        members = fold.groups.get(group, Known()).members
        return standing(group, trail, partition, now_ms, members=members, rules=self.rules)

    def _group(self, group: str, rows: Sequence[Now], fold: Fold, now_ms: int) -> GroupView:
        history, known = self._histories.get(group), fold.groups.get(group)
        if history is None:
            history = self._histories[group] = History(self.names, self.session_ms)
        waiting, deadlines = _waiting(history)
        return GroupView(
            group_id=group,
            group_type=history.group_type,
            now=group_now(rows) if rows else None,
            rows=rows,
            members=None if known is None else known.count,
            commits=self._commits[group],
            causes=dict(history.counts),
            trouble=urgent.under_way(history.events(), now_ms),
            rebalances=tuple(history.rebalances),
            lives=[replace(life) for life in history.lives()],
            waiting=waiting,
            deadlines=deadlines,
        )

    def _forget(self, now_ms: int) -> None:
        """What is over and can be told of no more: members, groups and transactions must not pile up."""
        alive: set[str] = set()
        for fold in self._folds.values():
            fold.forget()
            alive |= {key[0] for key in fold.trails} | fold.groups.keys()
        self.groups.keep(alive)
        for history in self._histories.values():
            history.forget(now_ms)
        for name in self._histories.keys() - alive:
            del self._histories[name]
        for name in self._commits.keys() - alive:
            del self._commits[name]


def _waiting(history: History) -> tuple[dict[str, Any] | None, list[Deadline]]:
    """An epoch that some members have not reached; classic rebalances are not in the log while they last."""
    epoch = history.epoch
    if epoch is None or epoch.ended_ms is not None:
        return None, []
    late = {each.instance or each.client_id or each.member_id: each for each in history.unreached()}
    deadlines = [
        Deadline("gives up its partitions, or is removed", who, each.unrevoked_ms + each.rebalance_timeout_ms,
                 each.rebalance_timeout_ms)
        for who, each in late.items() if each.unrevoked_ms is not None
    ]  # fmt: skip
    return {"began_ms": epoch.began_ms, "waits_for": list(late)}, deadlines


class _Commits(NamedTuple):
    """Commits of one partition in a chunk, in the order of the log."""

    partition: TopicPartition
    offsets: npt.NDArray[np.int64]
    times_ms: npt.NDArray[np.int64]


def _note(history: History, commits: Sequence[_Commits], begin: int, end: int) -> None:
    """The commits between two offsets of the log."""
    for each in commits:
        low, high = np.searchsorted(each.offsets, (begin, end)).tolist()
        if low < high:
            history.committed(each.partition, each.times_ms[max(low, high - KEEP_COMMITS) : high].tolist())


def _by_group(batches: Iterable[pa.RecordBatch], ended: Sequence[tuple[int, Written]]) -> dict[str, list[_Commits]]:
    """Commits by group and partition; those of transactions when these have `ended`."""
    columns = ("group_id", "topic", "partition", "log_offset", "time_ms")
    rows = [_COMMITS.empty_table()]
    for batch in batches:
        plain = batch.filter(pc.invert(pc.or_(batch.column("tombstone"), batch.column("transactional"))))
        times = pc.fill_null(pc.coalesce(plain.column("commit_timestamp_ms"), plain.column("timestamp_ms")), 0)
        rows.append(pa.table([*(plain.column(name) for name in columns[:-1]), times], names=columns).cast(_COMMITS))
    late = [(*written.key, at, written.made_ms) for at, written in ended if written.offset is not None]
    if late:
        rows.append(pa.table([list(column) for column in zip(*late, strict=True)], schema=_COMMITS))
    table = pa.concat_tables(rows).sort_by([(name, "ascending") for name in columns[:-1]])
    if not table.num_rows:
        return {}
    codes = [pc.rank(table[name], tiebreaker="dense").to_numpy() for name in columns[:2]]
    numbers, offsets, times_ms = (table[name].to_numpy() for name in columns[2:])
    changes = (np.diff(codes[0]) != 0) | (np.diff(codes[1]) != 0) | (np.diff(numbers) != 0)
    starts = [0, *(np.flatnonzero(changes) + 1).tolist(), table.num_rows]
    places = table.select(columns[:3]).take(starts[:-1]).to_pylist()
    found: dict[str, list[_Commits]] = {}
    for place, begin, end in zip(places, starts, starts[1:], strict=False):
        partition = (place["topic"], place["partition"])
        found.setdefault(place["group_id"], []).append(_Commits(partition, offsets[begin:end], times_ms[begin:end]))
    return found


_COMMITS = pa.schema(
    [("group_id", pa.string()), ("topic", pa.string()), ("partition", pa.int64()), ("log_offset", pa.int64()),
     ("time_ms", pa.int64())]
)  # fmt: skip
