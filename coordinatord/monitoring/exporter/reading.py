"""Batches of the offsets log, folded into the values of the series by the same code as in `coordinatord lag` and the
tables. Memory is bounded by groups, partitions and members, never by records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from types import MappingProxyType
from typing import Any

import numpy as np

from coordinatord.monitoring.analysis import severity
from coordinatord.monitoring.analysis.commit_window import Trail, rewinds
from coordinatord.monitoring.analysis.current_lag import Now, Partition, standing
from coordinatord.monitoring.analysis.ends import NO_TAIL, Ends, Tail
from coordinatord.monitoring.analysis.expiry import expiries
from coordinatord.monitoring.analysis.generations import TopicPartition
from coordinatord.monitoring.analysis.groups import group_now
from coordinatord.monitoring.analysis.history import History
from coordinatord.monitoring.analysis.offset_timeline import Point, curve
from coordinatord.monitoring.analysis.status import Members, Rules
from coordinatord.monitoring.dashboard.view import Deadline, Ending, GroupView, Limits, View, add_point
from coordinatord.monitoring.exporter.choice import Choice
from coordinatord.monitoring.offsets_log.decode.chunk import decode
from coordinatord.monitoring.offsets_log.decode.projection import Wanted
from coordinatord.monitoring.offsets_log.lag.fold import KINDS, Fold
from coordinatord.monitoring.offsets_log.lag.histories import Batches, Histories
from kafka_wire.records.batch import iterate_batches


@dataclass(slots=True)
class Reading:
    """The state of one cluster's log. It is used by one thread."""

    groups: Choice
    topics: Choice
    limits: Limits = field(default_factory=Limits)
    rules: Rules = field(default_factory=Rules)
    histories: Histories = field(default_factory=lambda: Histories(is_counting=False))
    """Histories, which count rebalances and commits once the whole log has been read."""
    records: int = 0
    offsets_retention_ms: int | None = None
    """The retention of unused offsets; None if the cluster does not tell it."""
    _folds: dict[int, Fold] = field(default_factory=dict)
    _points: dict[TopicPartition, list[Point]] = field(default_factory=dict)
    _bounds: dict[TopicPartition, Ends] = field(default_factory=dict)

    def take(self, log_partition: int, data: bytes, offset: int) -> int:
        """Fold batches of a partition of the log, from `offset` on. Returns the next offset."""
        after = offset
        for _, header in iterate_batches(data, partial=True):
            after = max(after, header.next_offset)
        if after == offset:
            return offset
        wanted = Wanted(
            kinds=KINDS,
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
        self.histories.name_topics(chunks)  # if this raises, none of the batches has been folded
        fold = self._folds.get(log_partition)
        if fold is None:
            fold = self._folds[log_partition] = Fold(self.rules.window_ms, self.histories)
        for chunk in chunks:
            self.records += sum(batch.num_rows for _, batch in chunk)
            fold.take(chunk)
        return after

    def begin(self, log_partition: int) -> None:
        """Drop the data of a partition of the log that was truncated or recreated."""
        fold = self._folds.pop(log_partition, None)
        if fold is not None:
            self.histories.begin({key[0] for key in fold.trails} | set(fold.groups))

    # Ends

    def unknown(self, places: Iterable[TopicPartition]) -> set[TopicPartition]:
        """Return those of the partitions of which no end is known yet."""
        return set(places) - self._points.keys()

    def places(self) -> list[TopicPartition]:
        """Return the partitions whose ends are needed: those that groups have read or are assigned, up to the limit.
        Partitions with a known end come first.
        """
        wanted = {(topic, number) for _, topic, number in self._places()}
        known = sorted(wanted & self._bounds.keys())
        return [*known, *sorted(wanted - self._bounds.keys())][: self.limits.partitions]

    def _places(self) -> Iterator[tuple[str, str, int]]:
        for fold in self._folds.values():
            yield from fold.trails
            for group, known in fold.groups.items():
                for topic, number in known.assigned(self.histories.names):
                    if topic in self.topics:
                        yield group, topic, number

    def ended(
        self,
        bounds: Mapping[TopicPartition, tuple[int, int]],
        at_ms: int,
        tails: Mapping[TopicPartition, Tail] | None = None,
        retention: Mapping[str, int] | None = None,
        earlier: Mapping[TopicPartition, Sequence[Point]] | None = None,
    ) -> None:
        """Store the first and end offsets of partitions at `at_ms`, and as far as they are known their tails, the
        retention.ms of topics, and earlier ends of partitions that are new here. Partitions that are not in `bounds`
        do not exist, or have no leader.
        """
        tails, retention, earlier = tails or {}, retention or {}, earlier or {}
        for place, (_start, end) in bounds.items():
            points = self._points.setdefault(place, [])
            if not points:
                points += curve(earlier.get(place, ()))
            add_point(points, Point(end, at_ms))
        self._bounds = {
            place: Ends(start, end, at_ms, tails.get(place, NO_TAIL), retention.get(place[0]))
            for place, (start, end) in bounds.items()
        }
        for place in self._points.keys() - bounds.keys():
            del self._points[place]

    # The view

    def view(self, now_ms: int) -> View:
        """Return a view of all groups in their present state."""
        self._forget(now_ms)
        room, left_out = self.limits.partitions, 0
        groups: dict[str, GroupView] = {}
        for fold in self._folds.values():
            trails = dict(fold.trails)
            nothing = Trail(self.rules.window_ms)
            for group, known in fold.groups.items():
                for topic, number in known.assigned(self.histories.names):
                    if topic in self.topics:
                        trails.setdefault((group, topic, number), nothing)
            keys = sorted(trails)
            for group, places in groupby(keys, key=lambda key: key[0]):
                rows = []
                mine: dict[TopicPartition, Trail] = {}
                members = self.histories.members(group, fold.groups.get(group))
                for key in places:
                    if room > 0:
                        room -= 1
                        mine[key[1:]] = trails[key]
                        rows.append(self._standing(key, trails[key], members, now_ms))
                    else:
                        left_out += 1
                groups[group] = self._group(group, rows, fold, now_ms, mine, members)
            for group, known in fold.groups.items():
                if group not in groups and (known.classic is not None or known.count):
                    groups[group] = self._group(group, [], fold, now_ms)
        endings = [
            Ending(*place, ends.log_start_offset, ends.end_offset) for place, ends in sorted(self._bounds.items())
        ]
        return View(now_ms, groups, endings, self.groups.left_out, left_out)

    def _standing(self, key: tuple[str, str, int], trail: Trail, members: Members, now_ms: int) -> Now:
        group, topic, number = key
        found = self._bounds.get((topic, number))
        if found is None:
            partition = Partition(topic, number)
        else:
            partition = Partition.of(topic, number, found, self._points[topic, number])
        return standing(group, trail, partition, now_ms, members=members, rules=self.rules)

    def _group(
        self,
        group: str,
        rows: Sequence[Now],
        fold: Fold,
        now_ms: int,
        trails: Mapping[TopicPartition, Trail] = MappingProxyType({}),
        members: Members | None = None,
    ) -> GroupView:
        history, known = self.histories.history(group), fold.groups.get(group)
        waiting, deadlines = _waiting(history)
        return GroupView(
            group_id=group,
            group_type=history.group_type,
            now=group_now(rows) if rows else None,
            rows=rows,
            members=None if known is None else known.count,
            commits=self.histories.commits[group],
            causes=dict(history.counts),
            trouble=severity.under_way(history.events(), now_ms),
            events=history.events(),
            rebalances=tuple(history.rebalances),
            lives=[replace(life) for life in history.lives()],
            waiting=waiting,
            deadlines=deadlines,
            owners=history.owners(),
            rewinds=rewinds(trails),
            expiries=expiries(history.group_type, members or Members(), trails, self.offsets_retention_ms),
        )

    def _forget(self, now_ms: int) -> None:
        """Drop members, groups and transactions that are over and no longer shown, so that they do not accumulate."""
        alive: set[str] = set()
        for fold in self._folds.values():
            fold.forget()
            alive |= {key[0] for key in fold.trails} | fold.groups.keys()
        self.groups.keep(alive)
        self.histories.forget(alive, now_ms)


def _waiting(history: History) -> tuple[dict[str, Any] | None, list[Deadline]]:
    """Return an epoch that some members have not reached, with their deadlines. The log has no classic rebalances in
    progress.
    """
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
