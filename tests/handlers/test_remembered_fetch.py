"""The answer to the last fetch of a group's offsets is kept, and given only while it is what would be answered now."""

from __future__ import annotations

import random
from typing import Any

import pytest
from structlog.testing import capture_logs

from coordinatord.coordinator.apis.offsets import MAX_REMEMBERED_BYTES
from coordinatord.group.events import EndTransaction, TxnCommit, Unload
from kafka_wire.api.delete_groups import DeleteGroupsRequest
from kafka_wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_wire.api.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from kafka_wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kafka_wire.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.handlers.world import World
from tests.shell import request_frame


def commit(world: World, topic: str, partition: int, offset: int, metadata: str = "") -> None:
    partitions = [OffsetCommitRequestPartition(partition, offset, 3, metadata)]
    world.ask(OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic(topic, partitions=partitions)]), 8)


def question(*topics: tuple[str, list[int]], stable: bool = False) -> OffsetFetchRequest:
    asked = [OffsetFetchRequestTopics(name, partition_indexes=partitions) for name, partitions in topics]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=asked)], require_stable=stable)


QUESTIONS = [
    (question(("orders", [0, 1, 3])), 8),
    (question(("orders", [0, 1, 3])), 9),
    (question(("orders", [0, 1, 3]), stable=True), 8),
    (question(("orders", [1]), ("clicks", [0, 1]), ("none", [7])), 9),
    (question(), 8),
]


def forget(world: World) -> None:
    for actor in world.coordinator.actors.values():
        actor.last_fetch = None


def delete_offset(world: World, rng: random.Random) -> None:
    topics = [OffsetDeleteRequestTopic("orders", [OffsetDeleteRequestPartition(rng.randrange(4))])]
    world.ask(OffsetDeleteRequest("g", topics), 0)


def delete_topic(world: World, rng: random.Random) -> None:
    topic_id, size = world.topics.table["orders"]
    world.coordinator.topic_deleted("orders", topic_id)
    world.topics.table["orders"] = (bytes([topic_id[0] + 1] * 16), size)  # and it is made again


def begin_transaction(world: World, rng: random.Random) -> None:
    actor = world.coordinator.actors.get("g")
    if actor is not None:
        partitions = [TxnOffsetCommitRequestPartition(rng.randrange(4), rng.randrange(1000))]
        topics = [TxnOffsetCommitRequestTopic("orders", partitions)]
        actor.tell(TxnCommit(TxnOffsetCommitRequest("tx", "g", 7, 0, topics=topics)))


def end_transaction(world: World, rng: random.Random) -> None:
    actor = world.coordinator.actors.get("g")
    if actor is not None and actor.group.pending is not None:
        actor.tell(EndTransaction(7, rng.random() < 0.5))


def commit_some(world: World, rng: random.Random) -> None:
    topic = rng.choice(["orders", "clicks"])
    commit(world, topic, rng.randrange(2), rng.randrange(1000), rng.choice(["", "", "where we are"]))


def delete_group(world: World, rng: random.Random) -> None:
    world.ask(DeleteGroupsRequest(["g"]), 2)


CHANGES = [commit_some, commit_some, commit_some, delete_offset, delete_topic, begin_transaction, end_transaction]


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_it_is_what_would_be_answered_without_it(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    world, rng = World(), random.Random(seed)
    world.router.max_connections = 10_000
    monkeypatch.setattr(world, "append_transactional", lambda *_: 0)
    world.coordinator.append_transactional = world.append_transactional
    hits = 0
    for _ in range(60):
        rng.choice([*CHANGES, delete_group] if rng.random() < 0.3 else CHANGES)(world, rng)
        for _ in range(3):
            asked, version = rng.choice(QUESTIONS)
            actor = world.coordinator.actors.get("g")
            before = None if actor is None else actor.last_fetch
            remembered = [world.ask(asked, version), world.ask(asked, version)]
            hits += actor is not None and before is not None and actor.last_fetch is before
            forget(world)
            fresh = world.ask(asked, version)
            assert remembered == [fresh, fresh]
    assert hits, "no answer was given a second time"


@pytest.mark.interpreted
def test_the_same_question_is_answered_from_memory_until_something_is_committed() -> None:
    world = World()
    commit(world, "orders", 0, 5)
    asked = question(("orders", [0]))
    world.ask(asked, 8)
    actor = world.coordinator.actors["g"]
    first = actor.last_fetch
    assert first is not None
    ordinary = world.offsets._fetch
    world.offsets._fetch = lambda *_: None  # type: ignore[method-assign]
    assert offset(world.ask(asked, 8)) == 5, "without being decoded"
    world.offsets._fetch = ordinary  # type: ignore[method-assign]
    assert actor.last_fetch is first
    commit(world, "orders", 0, 6)
    assert offset(world.ask(asked, 8)) == 6
    assert actor.last_fetch is not first


def test_the_bytes_of_one_version_are_not_taken_for_another() -> None:
    world = World()
    commit(world, "orders", 0, 5)
    actor = world.coordinator.actors["g"]
    world.ask(question(("orders", [0])), 8)
    assert actor.last_fetch is not None
    kept_version, kept_request = actor.last_fetch[1], actor.last_fetch[2]
    world.ask(question(("orders", [0])), 9)
    assert (actor.last_fetch[1], actor.last_fetch[2]) != (kept_version, kept_request)


def test_no_group_remembers_much() -> None:
    world = World()
    for partition in range(4):
        commit(world, "orders", partition, 5, "x" * 400)
    asked = question(("orders", [0, 1, 2, 3]))
    assert len(world.ask(asked, 8).groups[0].topics[0].partitions) == 4
    assert world.coordinator.actors["g"].last_fetch is None, f"1,600 bytes are more than {MAX_REMEMBERED_BYTES}"


def offset(response: Any) -> int:
    found: int = response.groups[0].topics[0].partitions[0].committed_offset
    return found


def test_a_group_that_is_not_served_any_more_gives_no_answer_from_memory() -> None:
    world = World()
    commit(world, "orders", 0, 5)
    asked = question(("orders", [0]))
    assert offset(world.ask(asked, 8)) == 5
    world.coordinator.actors["g"].tell(Unload())
    assert offset(world.ask(asked, 8)) == -1


def test_a_question_that_is_cut_off_is_refused_as_any() -> None:
    world = World()
    commit(world, "orders", 0, 5)
    asked = question(("orders", [0]))
    world.ask(asked, 8)
    frame = request_frame(asked, 8, 1)[4:]
    for size in range(10, len(frame)):
        wire = world.wire()
        with capture_logs() as lines:
            wire.connection.data_received(size.to_bytes(4, "big") + frame[:size])
        assert wire.connection.closed
        wire.connection.connection_lost(None)
        (line,) = lines
        assert "IndexError" not in line["reason"]
    strange = frame[:17] + b"\xff" + frame[18:]
    wire = world.wire()
    with capture_logs() as lines:
        wire.connection.data_received(len(strange).to_bytes(4, "big") + strange)
    assert [line["event"] for line in lines] == ["connection closed"]
    assert wire.connection.closed, "a group's name is UTF-8"
