"""Random programs for a share coordinator, and our answers in the form of java/ShareCoordinatorCheck.java."""

from __future__ import annotations

import json
import lzma
import random
from pathlib import Path
from typing import Any

from coordinatord.broker.log.checkpoint import uuid_text
from coordinatord.coordination.share.coordinator import events
from coordinatord.coordination.share.coordinator.state import ShareCoordinatorSettings, SharePartitionState
from coordinatord.coordination.share.coordinator.step import cold, step
from coordinatord.coordination.share.persister import PartitionState, PartitionSummary, StateBatch
from kafka_wire.errors import ErrorCode
from kafka_wire.records.share_state import (
    SNAPSHOT_TYPE,
    UPDATE_TYPE,
    ShareStateKey,
    ShareUpdateValue,
    encode_key,
    encode_value,
)
from tests.coordination.share.coordinator.model import random_event

TOPIC = bytes(range(16))
PARTITIONS = 3
START_MS = 1_750_000_000_000
STEPS = 60

RECORDED = Path(__file__).with_name("kafka_answers.json.xz")
"""Programs and the answers of Kafka's own class: written by `python -m tests.reference.java_programs`."""

RECORDED_SEEDS = range(40)


def program(seed: int) -> dict[str, Any]:
    chance = random.Random(seed)
    now_ms = START_MS
    steps: list[list[Any]] = []
    for number in range(STEPS):
        now_ms += chance.choice((0, 1, 400, 2_000))
        kind = chance.random()
        if number >= PARTITIONS and kind < 0.06:
            steps.append([now_ms, True, "snapshots"])
        elif number >= PARTITIONS and kind < 0.07:
            steps.append([now_ms, False, "topic_deleted"])
        else:
            event = random_event(chance) if number >= PARTITIONS else events.Initialize(1, -1, True)
            partition = chance.choice((*range(PARTITIONS), *range(-1, PARTITIONS + 1)))
            steps.append([now_ms, event.topic_exists, *_written(event, number if number < PARTITIONS else partition)])
    updates = chance.choice((0, 1, 4, 500))
    return {"topic": uuid_text(TOPIC), "partitions": PARTITIONS, "updates": updates, "cold": 3_000, "steps": steps}


def _written(event: Any, partition: int) -> list[Any]:
    match event:
        case events.Initialize():
            return ["initialize", partition, event.state_epoch, event.start_offset]
        case events.Read():
            return ["read", partition, event.leader_epoch]
        case events.Write():
            changes = [event.state_epoch, event.leader_epoch, event.start_offset, event.delivery_complete_count]
            return ["write", partition, *changes, [list(each) for each in event.batches]]
        case events.Delete():
            return ["delete", partition]
    return ["summary", partition]


class Shard:
    """All share partitions of one partition of the log, as the shell keeps them."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self.settings = ShareCoordinatorSettings(asked["updates"])
        self.cold_ms = asked["cold"]
        self.states: dict[int, SharePartitionState] = {}
        self.snapshots: dict[int, int] = {}
        self.tombstone = 0
        self.next_offset = 0

    def answer(self, order: list[str], now_ms: int, exists: bool, do: str, *arguments: Any) -> list[Any]:
        """[reply, records, last redundant offset]. `order` has the keys of Kafka's records: a job for several
        partitions takes them in the order of its hash table.
        """
        logged: list[list[str | None]] = []
        if do in ("snapshots", "topic_deleted"):
            states = sorted(self.states.values(), key=lambda each: [*order, _key(each)].index(_key(each)))
            if do == "snapshots":
                for state in cold(states, now_ms, self.cold_ms):
                    self._tell(state, events.Snapshot(), now_ms, logged)
            else:
                for state in states:
                    self._tell(state, events.TopicDeleted(), now_ms, logged)
            return [[], logged, self._redundant()]
        partition, *rest = arguments
        event = _event(do, rest, exists and 0 <= partition < PARTITIONS)
        state = self.states.get(partition) or SharePartitionState("g", TOPIC, partition, self.settings)
        reply = self._tell(state, event, now_ms, logged)
        told = [int(reply.error), reply.message]
        if reply.error is ErrorCode.NONE and isinstance(reply, PartitionState):
            told += [reply.state_epoch, reply.start_offset, [list(each) for each in reply.state_batches]]
        if reply.error is ErrorCode.NONE and isinstance(reply, PartitionSummary):
            told += reply[4:]
        return [told, logged, self._redundant()]

    def _tell(self, state: SharePartitionState, event: Any, now_ms: int, logged: list[Any]) -> Any:
        result = step(state, event, now_ms)
        partition = state.partition
        if result.record is not None or result.tombstone:
            is_update = isinstance(result.record, ShareUpdateValue)
            key = _key(state, UPDATE_TYPE if is_update else SNAPSHOT_TYPE)
            logged.append([key, None if result.record is None else encode_value(result.record).hex()])
            if not is_update:
                self.snapshots[partition] = self.next_offset
            self.next_offset += 1
        if state.exists:
            self.states[partition] = state
        elif result.tombstone:
            del self.states[partition]
            self.tombstone = self.snapshots.pop(partition)
        return result.reply

    def _redundant(self) -> int | None:
        return min(self.snapshots.values(), default=self.tombstone) or None


def _key(state: SharePartitionState, record_type: int = SNAPSHOT_TYPE) -> str:
    return encode_key(ShareStateKey(record_type, state.group_id, state.topic_id, state.partition)).hex()


def _event(do: str, rest: list[Any], exists: bool) -> Any:
    match do:
        case "initialize":
            return events.Initialize(*rest, exists)
        case "read":
            return events.Read(*rest, exists)
        case "write":
            *numbers, batches = rest
            return events.Write(*numbers, [StateBatch(*each) for each in batches], exists)
        case "delete":
            return events.Delete(exists)
    return events.ReadSummary(exists)


def ours(asked: dict[str, Any], theirs: list[Any]) -> list[Any]:
    """Our answers to a program that Kafka has answered with `theirs`."""
    shard = Shard(asked)
    return [
        shard.answer([key for key, _ in logged], *each)
        for each, (_, logged, _) in zip(asked["steps"], theirs, strict=True)
    ]


def recorded() -> list[tuple[dict[str, Any], list[Any]]]:
    found: list[tuple[dict[str, Any], list[Any]]] = json.loads(lzma.decompress(RECORDED.read_bytes()))
    return found
