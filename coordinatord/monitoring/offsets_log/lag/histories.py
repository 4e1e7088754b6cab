"""The members and rebalances of a log's groups, in addition to the results of `fold.py`, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from coordinatord.monitoring.analysis.consumer_group import CONSUMER_KINDS, PARTITION_METADATA, SESSION_MS
from coordinatord.monitoring.analysis.generations import TopicPartition, generation_of
from coordinatord.monitoring.analysis.history import KEEP_COMMITS, History
from coordinatord.monitoring.analysis.status import Members
from coordinatord.monitoring.offsets_log.decode.row_types import GROUP_GENERATIONS, OFFSET_COMMITS
from coordinatord.monitoring.offsets_log.lag.by_key import by_key
from coordinatord.monitoring.offsets_log.lag.known import Known, Written

WITH_IDS = {"topic_partitions", "assigned_partitions", "partitions_pending_revocation"}
Batches = list[tuple[str, pa.RecordBatch]]


def no_names() -> Mapping[str, str]:
    """Return no names: for a log whose topic ids have no known names."""
    return {}


def no_sessions(_groups: Collection[str]) -> Mapping[str, int]:
    """Return no session timeouts: for a log without a cluster that could be asked for them."""
    return {}


@dataclass(slots=True)
class Histories:
    """The history of each group; `take` adds the log's record batches in their order."""

    session_ms: int = SESSION_MS
    """group.consumer.session.timeout.ms of the cluster, for groups whose own timeout is not known."""
    topic_names: Callable[[], Mapping[str, str]] = no_names
    """Requests topic names by id from the cluster."""
    sessions: Callable[[Collection[str]], Mapping[str, int]] = no_sessions
    """Requests consumer.session.timeout.ms of groups of the consumer protocol from the cluster: their records do not
    have it.
    """
    is_counting: bool = True
    """True while rebalances and commits are counted."""
    names: dict[str, str] = field(default_factory=dict)
    """Topic names by id."""
    of: dict[str, History] = field(default_factory=dict)
    commits: Counter[str] = field(default_factory=Counter)
    """Number of commits by group, of those while `is_counting`."""
    _nameless: set[str] = field(default_factory=set)

    def name_topics(self, chunks: Iterable[Batches]) -> None:
        """Request the names of topic ids that are new: groups of the consumer protocol log ids. An id that has no name
        then keeps its id for good, or else a member would seem to have other partitions than it has.
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

    def history(self, group: str) -> History:
        """Return the group's history, a new one if it has none."""
        found = self.of.get(group)
        if found is None:
            found = self.of[group] = History(self.names, self.session_ms)
        return found

    def members(self, group: str, known: Known | None) -> Members:
        """Return the known data of the group's members, from its last records and its history."""
        members = Members() if known is None else known.members
        history = self.of.get(group)
        if history is None or members.has_any is None:
            return members
        if members.has_any:
            return replace(members, topics=history.topics())
        return replace(members, how=history.went())

    def take(self, chunk: Batches, ended: Sequence[tuple[int, Written]]) -> None:
        """Add a chunk that a fold has taken, and the commits of ended transactions in it (`Fold.ended`)."""
        self.name_topics([chunk])
        written = _by_group((batch for kind, batch in chunk if kind == OFFSET_COMMITS), ended)
        lived: dict[str, list[tuple[int, str, Any]]] = {}
        for kind, batch in chunk:
            if kind == GROUP_GENERATIONS or kind in CONSUMER_KINDS:
                for row in batch.to_pylist():
                    lived.setdefault(row["group_id"], []).append((row["log_offset"], kind, row))
        self._set_sessions(group for group, rows in lived.items() if any(kind in CONSUMER_KINDS for _, kind, _ in rows))
        for group in written.keys() | lived.keys():
            history = self.history(group)
            history.is_counting = self.is_counting
            commits = written.get(group, [])
            if self.is_counting:
                self.commits[group] += sum(len(each.offsets) for each in commits)
            begin = 0
            for log_offset, kind, row in sorted(lived.get(group, ()), key=lambda each: each[0]):
                _note(history, commits, begin, log_offset)
                begin = log_offset
                if kind == GROUP_GENERATIONS:
                    history.generation(generation_of(row))
                else:
                    history.record(kind, row)
            _note(history, commits, begin, 1 << 62)

    def _set_sessions(self, groups: Iterable[str]) -> None:
        """Request the session timeouts of groups of the consumer protocol that are new."""
        new = [group for group in groups if self.history(group).group_type != "consumer"]
        for group, session_ms in (self.sessions(new) if new else {}).items():
            self.history(group).session_ms = session_ms

    def begin(self, groups: Iterable[str]) -> None:
        """Drop groups whose log was truncated or recreated."""
        for group in groups:
            self.of.pop(group, None)

    def forget(self, alive: set[str], now_ms: int) -> None:
        """Drop old partitions of the histories of `alive` groups, and all data of other groups."""
        for history in self.of.values():
            history.forget(now_ms)
        for name in self.of.keys() - alive:
            del self.of[name]
        for name in self.commits.keys() - alive:
            del self.commits[name]


class _Commits(NamedTuple):
    """Commits of one partition in a chunk, in the order of the log."""

    partition: TopicPartition
    offsets: npt.NDArray[np.int64]
    times_ms: npt.NDArray[np.int64]


def _note(history: History, commits: Sequence[_Commits], begin: int, end: int) -> None:
    """Add the commits between two offsets of the log to a history."""
    for each in commits:
        low, high = np.searchsorted(each.offsets, (begin, end)).tolist()
        if low < high:
            history.committed(each.partition, each.times_ms[max(low, high - KEEP_COMMITS) : high].tolist())


def _by_group(batches: Iterable[pa.RecordBatch], ended: Sequence[tuple[int, Written]]) -> dict[str, list[_Commits]]:
    """Return commits by group and partition; those of transactions when these have `ended`."""
    tables = [_COMMITS.empty_table()]
    for batch in batches:
        is_left_out = pc.or_(batch.column("tombstone"), batch.column("transactional"))
        times = pc.fill_null(pc.coalesce(batch.column("commit_timestamp_ms"), batch.column("timestamp_ms")), 0)
        columns = [*(batch.column(name) for name in _COMMITS.names[:-1]), times]
        tables.append(pa.table(columns, names=_COMMITS.names).filter(pc.invert(is_left_out)).cast(_COMMITS))
    late = [(*written.key, at, written.made_ms) for at, written in ended if written.offset is not None]
    if late:
        columns = [list(column) for column in zip(*late, strict=True)]
        tables.append(pa.table(columns, names=_COMMITS.names).cast(_COMMITS))
    table = pa.concat_tables(tables)
    offsets, times_ms = table["log_offset"].to_numpy(), table["time_ms"].to_numpy()
    found: dict[str, list[_Commits]] = {}
    for (group, topic, number), rows in by_key(table):
        found.setdefault(group, []).append(_Commits((topic, number), offsets[rows], times_ms[rows]))
    return found


NAMES = pa.dictionary(pa.int32(), pa.string())
_COMMITS = pa.schema(
    [("group_id", NAMES), ("topic", NAMES), ("partition", pa.int64()), ("log_offset", pa.int64()),
     ("time_ms", pa.int64())]
)  # fmt: skip
