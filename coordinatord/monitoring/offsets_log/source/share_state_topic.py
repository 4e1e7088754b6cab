"""Reader of `__share_group_state`, in which a cluster stores the state of share partitions (KIP-932), from the place of
its offsets log: directories, a database, or a broker. A cluster without share groups has no such topic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from coordinatord.monitoring.analysis.share_state import Replayed, ShareState, progress, stored_batches
from coordinatord.monitoring.offsets_log.source.options import Options
from coordinatord.monitoring.offsets_log.source.segments import SourceError
from coordinatord.monitoring.offsets_log.source.topic_records import records_of
from kafka_wire.errors import DecodeError
from kafka_wire.records.share_state import (
    ShareSnapshotValue,
    ShareUpdateValue,
    UnknownShareRecordError,
    decode_key,
    decode_value,
)

SHARE_STATE_TOPIC = "__share_group_state"


class SharePartition(NamedTuple):
    """A group and a topic partition that it reads."""

    group_id: str
    topic_id: bytes
    partition: int


Value = ShareSnapshotValue | ShareUpdateValue | None
"""The value of a record; None is a tombstone."""


def state_records(
    options: Options, starts: dict[int, int], is_wanted: Callable[[str], bool], *, exists: bool = False
) -> Iterator[tuple[SharePartition, Value, int]]:
    """Return the records of the wanted groups with their times in ms, in the order of each partition of the topic.
    Records of types that Kafka 4.4 does not write are skipped. `starts` are the offsets to begin at, by partition; they
    are moved behind each record. `exists` states that the cluster has share groups. Raises SourceError.
    """
    options = replace(options, partitions=None)  # a share partition has its place by its own hash, not by its group's
    for at, offset, time_ms, key, value in records_of(options, SHARE_STATE_TOPIC, starts, exists=exists):
        starts[at] = offset + 1
        try:
            record_type, group_id, topic_id, partition = decode_key(key or b"")
            place = SharePartition(group_id, topic_id, partition)
            if is_wanted(place.group_id):
                yield place, None if value is None else decode_value(record_type, value), time_ms
        except UnknownShareRecordError:
            continue
        except DecodeError as error:
            raise SourceError(f"offset {offset} of {SHARE_STATE_TOPIC}-{at} cannot be decoded: {error}") from None


@dataclass(slots=True)
class ShareStates:
    """The states of the share partitions of wanted groups, as the topic grows."""

    options: Options
    is_wanted: Callable[[str], bool]
    redelivered: Counter[str] = field(default_factory=Counter)
    """Deliveries of records that had been delivered before, by group, as stored since the first reading."""
    archived: Counter[str] = field(default_factory=Counter)
    """Records that were archived since the first reading, by group."""
    _starts: dict[int, int] = field(default_factory=dict)
    _replayed: dict[SharePartition, Replayed] = field(default_factory=dict)
    _is_counting: bool = False

    def read(self, *, exists: bool = True) -> dict[SharePartition, Replayed]:
        """Read what is new; return all share partitions that exist. `exists` states that the cluster has share groups.
        Raises SourceError.
        """
        for place, value, time_ms in state_records(
            self.options, self._starts, self.is_wanted, exists=exists
        ):  # fmt: skip
            replayed = self._replayed.setdefault(place, Replayed())
            if self._is_counting and value is not None:
                before = replayed.state()
                found = progress(() if before is None else before.batches, stored_batches(value))
                self.redelivered[place.group_id] += found.redelivered
                self.archived[place.group_id] += found.archived
            replayed.add(value, time_ms)
            if value is None:
                del self._replayed[place]
        self._is_counting = True
        return dict(sorted(self._replayed.items()))


def share_states(options: Options) -> dict[SharePartition, ShareState]:
    """Return the present states of the selected groups' share partitions. Raises SourceError."""
    read = ShareStates(options, options.wanted.has_group).read()
    states = {place: each.state() for place, each in read.items()}
    return {place: state for place, state in states.items() if state is not None}
