"""Fold of the records of one log into the input of the rules of lag and status.

A group has one log, a partition of `__consumer_offsets`, so that logs can be folded independently of each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinatord.monitoring.analysis import consumer_group
from coordinatord.monitoring.analysis.burrow import Commit
from coordinatord.monitoring.analysis.commit_window import Trail
from coordinatord.monitoring.offsets_log.decode.row_types import (
    GROUP_GENERATIONS,
    OFFSET_COMMITS,
    QUARANTINE,
    TRANSACTION_MARKERS,
)
from coordinatord.monitoring.offsets_log.lag.by_key import by_key
from coordinatord.monitoring.offsets_log.lag.commit_arrays import add_all
from coordinatord.monitoring.offsets_log.lag.histories import Histories
from coordinatord.monitoring.offsets_log.lag.known import Key, Known, Written

OTHER_GROUPS = {"share_group_metadata": "share", "streams_group_metadata": "streams"}
"""Kinds of records that show the existence of a group of another type, and that type."""

KINDS = frozenset(
    {
        OFFSET_COMMITS,
        GROUP_GENERATIONS,
        TRANSACTION_MARKERS,
        *consumer_group.CONSUMER_KINDS,
        *OTHER_GROUPS,
    }
)
"""The kinds of records that are folded, here or into histories."""

COMMIT_COLUMNS = (
    "group_id", "topic", "partition", "committed_offset", "commit_timestamp_ms", "timestamp_ms", "log_offset",
    "transactional", "producer_id", "tombstone",
)  # fmt: skip


class Fold:
    """The fold of one log. `take` adds its record batches, chunk by chunk in their order."""

    def __init__(self, window_ms: int, histories: Histories | None = None) -> None:
        """`histories`, which folds may share, receive the same record batches."""
        self.window_ms = window_ms
        self.histories = histories
        self.records = 0
        self.undecoded = 0
        """Number of pieces of the log that could not be decoded, if the quarantine is read."""
        self.trails: dict[Key, Trail] = {}
        self.groups: dict[str, Known] = {}
        self.names: dict[str, str] = {}
        """Topic names by id, as far as records have them."""
        self.others: dict[str, str] = {}
        """Groups of other types, share and streams, by id."""
        self._effective: dict[Key, int] = {}
        """Offset in the log of the last effective write."""
        self._open: dict[int, list[Written]] = {}
        """Writes of open transactions, by producer id."""
        self.ended: list[tuple[int, Written]] = []
        """Commits of ended transactions, with the marker's offset in the log, for the histories."""

    def topic_ids(self) -> set[str]:
        """Return the topic ids of the members' partitions: records of current assignments have no names."""
        return {each for known in self.groups.values() for owned in known.current.values() for each, _ in owned}

    def take(self, chunk: Sequence[tuple[str, pa.RecordBatch]]) -> None:
        """Fold record batches by kind, whose offsets may overlap."""
        self.undecoded += sum(batch.num_rows for kind, batch in chunk if kind == QUARANTINE)
        chunk = [each for each in chunk if each[0] != QUARANTINE]
        commits = [batch for kind, batch in chunk if kind == OFFSET_COMMITS]
        markers = [row for kind, batch in chunk if kind == TRANSACTION_MARKERS for row in batch.to_pylist()]
        self.records += sum(batch.num_rows for _, batch in chunk)
        if not markers and self._is_plain(commits):
            self._plain(commits.pop())
        written: Iterable[tuple[Written, int | None]] = (each for batch in commits for each in self._written(batch))
        if markers or len(commits) > 1:
            written = sorted(written, key=lambda each: each[0].log_offset)
        ends = iter(sorted(markers, key=lambda row: row["log_offset"]))
        end = next(ends, None)
        for each, producer_id in written:
            while end is not None and end["log_offset"] < each.log_offset:
                self._end(end)
                end = next(ends, None)
            if producer_id is None:
                self._write(each, each.made_ms)
            else:
                self._open.setdefault(producer_id, []).append(each)
        while end is not None:
            self._end(end)
            end = next(ends, None)
        for kind, batch in chunk:
            if kind == GROUP_GENERATIONS:
                for row in sorted(batch.to_pylist(), key=lambda row: row["log_offset"]):
                    self._generation(row)
            elif kind not in (OFFSET_COMMITS, TRANSACTION_MARKERS):
                for row in sorted(batch.to_pylist(), key=lambda row: row["log_offset"]):
                    self._of_consumers(kind, row)
        if self.histories is not None:
            self.histories.take(chunk, self.ended)
            self.ended.clear()

    def _is_plain(self, commits: Sequence[pa.RecordBatch]) -> bool:
        return len(commits) == 1 and not pc.any(commits[0].column("transactional")).as_py()

    def _plain(self, batch: pa.RecordBatch) -> None:
        """Fold commits without transactions, in their order: equivalent to `_write` of each, for millions of them."""
        made_ms = pc.coalesce(batch.column("commit_timestamp_ms"), batch.column("timestamp_ms"))
        times_ms = pc.fill_null(made_ms, 0).to_numpy()
        offsets = pc.fill_null(batch.column("committed_offset"), -1).to_numpy()
        log_offsets = batch.column("log_offset").to_numpy()
        for key, rows in by_key(pa.table(batch)):
            self._effective[key] = int(log_offsets[rows[-1]])
            gone = np.flatnonzero(offsets[rows] < 0)
            if len(gone):  # commits before a tombstone do not count
                rows = rows[gone[-1] + 1 :]
                self.trails.pop(key, None)
            if len(rows):
                trail = self.trails.setdefault(key, Trail(self.window_ms))
                add_all(trail, offsets[rows], times_ms[rows])
        self._name(batch)

    def _name(self, batch: pa.RecordBatch) -> None:
        ids = batch.column("topic_id")
        if ids.null_count < len(ids):
            pairs = set(zip(ids.to_pylist(), batch.column("topic").to_pylist(), strict=True))
            self.names |= {topic_id: topic for topic_id, topic in pairs if topic_id is not None}

    def _written(self, batch: pa.RecordBatch) -> Iterator[tuple[Written, int | None]]:
        """Yield each commit, with the producer id if the commit is part of a transaction."""
        columns = [batch.column(name).to_pylist() for name in COMMIT_COLUMNS]
        self._name(batch)
        for group, topic, partition, offset, commit_ms, record_ms, log_offset, inside, producer, gone in zip(
            *columns, strict=True
        ):
            made_ms = record_ms if commit_ms is None else commit_ms
            # No client accepts a negative offset.
            value = None if gone or offset is None or offset < 0 else offset
            yield Written((group, topic, partition), value, made_ms or 0, log_offset), producer if inside else None

    def _write(self, written: Written, effective_ms: int) -> None:
        """Apply a write. A transaction's commit has no effect if a later write took effect before its marker."""
        if written.log_offset <= self._effective.get(written.key, -1):
            return
        self._effective[written.key] = written.log_offset
        if written.offset is None:
            self.trails.pop(written.key, None)
            return
        trail = self.trails.get(written.key)
        if trail is None:
            trail = self.trails[written.key] = Trail(self.window_ms)
        trail.add(Commit(written.offset, effective_ms, None))

    def _end(self, marker: Mapping[str, Any]) -> None:
        for written in self._open.pop(marker["producer_id"], ()):
            if marker["marker"] == "COMMIT":
                self._write(written, max(written.made_ms, marker["timestamp_ms"] or 0))
                if self.histories is not None:
                    self.ended.append((marker["log_offset"], written))

    def _generation(self, row: Mapping[str, Any]) -> None:
        known = self.groups.setdefault(row["group_id"], Known())
        if row["tombstone"]:
            known.classic = known.classic_ms = None
            return
        since_ms = row["current_state_timestamp_ms"]
        known.classic_ms = row["timestamp_ms"] if since_ms is None else since_ms
        known.classic = {
            member["member_id"]: frozenset(
                (each["topic"], number)
                for each in (member["assignment"] or {}).get("assigned_partitions") or ()
                for number in each["partitions"] or ()
            )
            for member in row["members"]
        }

    def _of_consumers(self, kind: str, row: Mapping[str, Any]) -> None:
        if kind == consumer_group.PARTITION_METADATA:
            self.names |= {each["topic_id"]: each["topic_name"] for each in row.get("topics") or ()}
            return
        group, gone = row["group_id"], row["tombstone"]
        if kind in OTHER_GROUPS:
            if gone:
                self.others.pop(group, None)
            else:
                self.others[group] = OTHER_GROUPS[kind]
            return
        known = self.groups.setdefault(group, Known())
        if kind == consumer_group.METADATA:
            known.is_consumer_group = not gone
            return
        if kind not in (consumer_group.MEMBER, consumer_group.CURRENT):
            return
        member_id = row["member_id"]
        if kind == consumer_group.MEMBER:
            known.consumers[member_id] = not gone, row["timestamp_ms"]
        elif gone:
            known.current.pop(member_id, None)
        else:
            owned = row["assigned_partitions"] or ()
            known.current[member_id] = [(each["topic_id"], n) for each in owned for n in each["partitions"]]

    def forget(self) -> None:
        """Drop data that no rule needs any more: members and groups that are gone, writes of forgotten offsets. For
        callers that follow a log for weeks. No writes are dropped while a transaction is open, because it may still add
        writes.
        """
        if not self._open:
            self._effective = {key: at for key, at in self._effective.items() if key in self.trails}
        with_offsets = {key[0] for key in self.trails}
        for group, known in list(self.groups.items()):
            gone = {member_id: ms for member_id, (is_there, ms) in known.consumers.items() if not is_there}
            last = max(gone, key=lambda each: gone[each] or 0, default=None)
            for member_id in gone.keys() - {last}:  # the time of the last one is the start of the group's emptiness
                del known.consumers[member_id]
            if not known.exists and group not in with_offsets:
                del self.groups[group]
