"""Every record type of `__consumer_offsets` (Kafka's `CoordinatorRecordType`) with the classes of its key and value.

`keys` holds only the types of classic groups, which the daemon replays; reading a Kafka broker's log needs all types.
"""

from __future__ import annotations

from typing import Any

from kafka_wire.records import consumer_group, offsets, share_group, streams_group, streams_target

#: record type (the int16 before a key) -> (class of the key, class of the value)
RECORD_TYPES: dict[int, tuple[type[Any], type[Any]]] = {
    0: (offsets.OffsetCommitKey, offsets.OffsetCommitValue),  # before Kafka 0.9.0.1; the layout of 1, and its v0
    1: (offsets.OffsetCommitKey, offsets.OffsetCommitValue),
    2: (offsets.GroupMetadataKey, offsets.GroupMetadataValue),
}


def _declare(*modules: Any) -> None:
    for module in modules:
        for name, cls in vars(module).items():
            if name.endswith("Key") and hasattr(cls, "__schema__"):
                record_type = cls.__schema__.api_key
                assert record_type not in RECORD_TYPES
                RECORD_TYPES[record_type] = (cls, getattr(module, name.removesuffix("Key") + "Value"))


_declare(consumer_group, share_group, streams_group, streams_target)
