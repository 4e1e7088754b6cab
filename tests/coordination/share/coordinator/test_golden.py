"""What a share consumer of Apache Kafka 4.4 left in `__share_group_state`: its records in bytes, and its states."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from coordinatord.coordination.share.coordinator.replay import replay
from coordinatord.coordination.share.coordinator.state import ShareCoordinatorSettings, SharePartitionState
from kafka_wire.records.batch import KeyValues, iterate_batches, records
from kafka_wire.records.share_state import (
    ShareSnapshotValue,
    ShareStateKey,
    ShareUpdateValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from tests.coordination.share.coordinator.world import World
from tests.reference.capture_share_state import GOLDEN, UPDATES_PER_SNAPSHOT

STORY: dict[str, Any] = json.loads((GOLDEN / "story.json").read_text())
STATES: list[dict[str, Any]] = STORY["states"]


def golden() -> list[tuple[bytes, bytes]]:
    [segment] = Path(GOLDEN).glob("*.log")
    data = segment.read_bytes()
    found = []
    for position, header in iterate_batches(data):
        for record in records(data, position, header):
            assert record.key is not None
            assert record.value is not None
            found.append((bytes(record.key), bytes(record.value)))
    return found


@pytest.fixture(scope="module")
def states() -> dict[ShareStateKey, SharePartitionState]:
    """What we make of Kafka's records."""
    found: dict[ShareStateKey, SharePartitionState] = {}
    for key_bytes, value_bytes in golden():
        key = decode_key(key_bytes)
        value = decode_value(key.record_type, value_bytes)
        where = key._replace(record_type=0)
        if where not in found:
            settings = ShareCoordinatorSettings(UPDATES_PER_SNAPSHOT)
            found[where] = SharePartitionState(*key[1:], settings)
        replay(found[where], value)
    return found


def test_the_bytes_are_ours() -> None:
    kinds = set()
    for key_bytes, value_bytes in golden():
        key = decode_key(key_bytes)
        value = decode_value(key.record_type, value_bytes)
        assert encode_key(key) == key_bytes
        assert encode_value(value) == value_bytes
        kinds.add(type(value))
    assert kinds == {ShareSnapshotValue, ShareUpdateValue}


@pytest.mark.parametrize("told", STATES)
def test_the_states_are_those_of_kafka(told: dict[str, Any], states: dict[ShareStateKey, SharePartitionState]) -> None:
    topic_id = bytes.fromhex(STORY["topic_id"])
    state = states[ShareStateKey(0, STORY["group"], topic_id, told["partition"])]
    assert told["errors"] == [0, 0]
    assert {
        "state_epoch": state.state_epoch,
        "leader_epoch": state.leader_epoch,
        "start_offset": state.start_offset,
        "delivery_complete_count": state.delivery_complete_count,
        "batches": [list(each) for each in state.batches],
    }.items() <= told.items()


def test_the_coordinator_loads_kafkas_records() -> None:
    world = World(share_coordinator_state_topic_num_partitions=1)
    world.share.partitions.ensure()
    for key, value in golden():
        world.share.log.append(0, KeyValues([(key, value)]), world.time_ms)
    world.settle()
    world.restart()
    loaded = {each.stored.partition: each.stored for each in world.share.actors.values()}
    assert loaded.keys() == {each["partition"] for each in STATES}
    for told in STATES:
        assert [list(each) for each in loaded[told["partition"]].batches] == told["batches"]
