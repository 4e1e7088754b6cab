"""Reader of `__share_group_state`, in which a cluster stores the state of share partitions (KIP-932), from the place of
its offsets log: directories, a database, or a broker. A cluster without share groups has no such topic.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from coordinatord.monitoring.analysis.share_state import Replayed, ShareState
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


def state_records(options: Options) -> Iterator[tuple[SharePartition, Value]]:
    """Return the records of the selected groups, in the order of each partition of the topic. Records of types that
    Kafka 4.4 does not write are skipped. Raises SourceError.
    """
    options = replace(options, partitions=None)  # a share partition has its place by its own hash, not by its group's
    for at, offset, key, value in records_of(options, SHARE_STATE_TOPIC, {}):
        try:
            record_type, group_id, topic_id, partition = decode_key(key or b"")
            place = SharePartition(group_id, topic_id, partition)
            if options.wanted.has_group(place.group_id):
                yield place, None if value is None else decode_value(record_type, value)
        except UnknownShareRecordError:
            continue
        except DecodeError as error:
            raise SourceError(f"offset {offset} of {SHARE_STATE_TOPIC}-{at} cannot be decoded: {error}") from None


def share_states(options: Options) -> dict[SharePartition, ShareState]:
    """Return the present states of the selected groups' share partitions. Raises SourceError."""
    replayed: dict[SharePartition, Replayed] = {}
    for place, value in state_records(options):
        replayed.setdefault(place, Replayed()).add(value)
    states = {place: each.state() for place, each in sorted(replayed.items())}
    return {place: state for place, state in states.items() if state is not None}
