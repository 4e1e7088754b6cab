"""OffsetFetch answers one group as it answers several, and in parts as in one go: a request for one group goes a
shorter way, one for very many partitions a longer one.

The second group is one that nobody has heard of, so a request that names it as well goes the long way. Before v8 a
request names one group; its answer is compared with v8's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coordinatord.coordination.group.events import TxnCommit
from coordinatord.coordination.service.apis import offsets
from coordinatord.coordination.service.groups import GroupActor
from coordinatord.testing.conform.raw_client import RawClient
from coordinatord.transport.net.batching import FEW
from coordinatord.transport.net.cooperative_tasks import run_through
from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.init_producer_id import InitProducerIdRequest
from kafka_wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_wire.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kafka_wire.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafka_wire.errors import ErrorCode
from tests.handlers.world import World
from tests.reference.in_process import run, running_in_process

PARTITIONS = 3
TRANSACTION = 1  # key type of FindCoordinator, which makes the topic of transactions
EPOCH_FROM, STABLE_FROM, SEVERAL_FROM, MEMBER_FROM, IDS_FROM = 5, 7, 8, 9, 10
VERSIONS = range(1, 10)
GROUPS = ("simple", "in-transaction", "consumer", "unheard-of")
TOPICS = (None, (), ("t",), ("u", "t", "nowhere"))
EPOCH = 2
"""Of the one member of a new consumer group."""

MEMBERS = ((None, -1), ("m", EPOCH), ("m", EPOCH - 1), ("stranger", EPOCH))


async def ask(client: RawClient, request: Any, version: int) -> Any:
    answer = await client.ask(request, version)
    assert answer is not None
    return answer


async def prepare(client: RawClient) -> dict[str, bytes]:
    """Offsets with and without metadata; one that a transaction has pending; a consumer group with a member. Returns
    the topics' ids.
    """
    made = await ask(client, CreateTopicsRequest([CreatableTopic(each, PARTITIONS, 1) for each in "tu"], 60_000), 7)
    joined = ConsumerGroupHeartbeatRequest("consumer", "m", 0, rebalance_timeout_ms=60_000, topic_partitions=[])
    joined.subscribed_topic_names = ["t"]
    assert (await ask(client, joined, 1)).member_epoch == EPOCH
    for group in GROUPS[:3]:
        own = ("m", EPOCH) if group == "consumer" else ("", -1)
        partitions = [OffsetCommitRequestPartition(0, 7, 3, "where é"), OffsetCommitRequestPartition(2, 9, -1, None)]
        topics = [OffsetCommitRequestTopic(each, partitions=partitions) for each in "tu"]
        committed = await ask(client, OffsetCommitRequest(group, own[1], own[0], topics=topics), 9)
        assert {p.error_code for t in committed.topics for p in t.partitions} == {ErrorCode.NONE}
    await ask(client, FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=["tx"]), 4)
    producer = await ask(client, InitProducerIdRequest("tx", 60_000), 4)
    pending = TxnOffsetCommitRequest("tx", "in-transaction", producer.producer_id, producer.producer_epoch)
    pending.topics = [TxnOffsetCommitRequestTopic("t", partitions=[TxnOffsetCommitRequestPartition(0, 8)])]
    assert (await ask(client, pending, 5)).topics[0].partitions[0].error_code == ErrorCode.NONE
    return {topic.name: topic.topic_id for topic in made.topics}


def by_ids(topics: tuple[str, ...] | None, known: dict[str, bytes]) -> list[OffsetFetchRequestTopics] | None:
    """The same topics by their ids."""
    indexes = list(range(PARTITIONS))
    ids = [known.get(name, b"?" * 16) for name in topics or ()]
    return None if topics is None else [OffsetFetchRequestTopics("", each, indexes) for each in ids]


def asked_for(group: str, topics: tuple[str, ...] | None, member: tuple[str | None, int]) -> OffsetFetchRequestGroup:
    indexes = list(range(PARTITIONS))
    wanted = None if topics is None else [OffsetFetchRequestTopics(each, partition_indexes=indexes) for each in topics]
    return OffsetFetchRequestGroup(group, *member, wanted)


def rows(topics: Any, version: int) -> list[Any]:
    """The rows of an answer, as far as `version` has them."""
    return [
        (t.name, p.partition_index, p.committed_offset, p.metadata, p.error_code)
        + ((p.committed_leader_epoch,) if version >= EPOCH_FROM else ())
        for t in topics
        for p in t.partitions
    ]


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_alone_is_answered_as_among_others_and_in_parts(
    group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def in_parts(client: RawClient, request: Any, version: int) -> Any:
        with monkeypatch.context() as fewer:
            fewer.setattr(offsets, "SLICE_ITEMS", 1)
            return await ask(client, request, version)

    async def main() -> set[int]:
        async with running_in_process(tmp_path, {}) as ours:
            client = await ours.connect("client")
            topic_ids = await prepare(client)
            seen = set()
            cases = [(v, t, s) for v in VERSIONS for t in TOPICS for s in (False, True)]
            for version, topics, stable in cases:
                if (version == 1 and topics is None) or (stable and version < STABLE_FROM):
                    continue
                for member in MEMBERS if version >= MEMBER_FROM else MEMBERS[:1]:
                    several = [asked_for(group, topics, member), OffsetFetchRequestGroup("nobody", topics=[])]
                    newer = max(version, SEVERAL_FROM)
                    long_way = await ask(client, OffsetFetchRequest(groups=several, require_stable=stable), newer)
                    expected = long_way.groups[0]
                    if version < SEVERAL_FROM:
                        old = topics and [OffsetFetchRequestTopic(each, list(range(PARTITIONS))) for each in topics]
                        request = OffsetFetchRequest(group, None if topics is None else list(old or ()))
                        request.require_stable = stable
                        alone = await ask(client, request, version)
                        assert alone.error_code == expected.error_code
                        assert rows(alone.topics, version) == rows(expected.topics, version)
                        assert await in_parts(client, request, version) == alone
                    else:
                        request = OffsetFetchRequest(groups=several[:1], require_stable=stable)
                        alone = await ask(client, request, version)
                        assert alone.groups == [expected]
                        assert await in_parts(client, request, version) == alone
                        others = [OffsetFetchRequestGroup(f"other-{number}", topics=[]) for number in range(FEW)]
                        many = OffsetFetchRequest(groups=[*several[:1], *others], require_stable=stable)
                        assert (await in_parts(client, many, version)).groups[0] == expected
                        ids = by_ids(topics, topic_ids)
                        by_id = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, *member, ids)])
                        by_id.require_stable = stable
                        assert await in_parts(client, by_id, IDS_FROM) == await ask(client, by_id, IDS_FROM)
                    seen |= {expected.error_code, *(p.error_code for t in expected.topics for p in t.partitions)}
            return seen

    assert (
        run(main())
        == {
            "simple": {ErrorCode.NONE},
            "in-transaction": {ErrorCode.NONE, ErrorCode.UNSTABLE_OFFSET_COMMIT},
            "consumer": {ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID},
            "unheard-of": {ErrorCode.NONE},
        }[group]
    )


@pytest.mark.parametrize("at_once", [offsets.SLICE_ITEMS, 1])
def test_offsets_of_a_transaction_are_told_when_its_marker_is_durable(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offsets, "SLICE_ITEMS", at_once)
    world = World()
    pending = TxnOffsetCommitRequest("tx", "g", 7, 0)
    pending.topics = [TxnOffsetCommitRequestTopic("orders", partitions=[TxnOffsetCommitRequestPartition(0, 8)])]
    indexes = [0, 1]  # more than one at once
    actor = world.coordinator.actor_for("g")
    assert isinstance(actor, GroupActor)
    actor.tell(TxnCommit(pending))
    world.gate.flushed_epoch = world.epoch
    marker = world.epoch + 1
    world.coordinator.end_transaction(actor.partition, 7, committed=True, epoch=marker)
    wires = [world.wire() for _ in range(2)]
    for wire, version in zip(wires, (7, 9), strict=True):
        asked = OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("orders", partition_indexes=indexes)])
        old = OffsetFetchRequest("g", [OffsetFetchRequestTopic("orders", indexes)])
        wire.send(old if version < SEVERAL_FROM else OffsetFetchRequest(groups=[asked]), version)
    world.turns.run()
    assert [wire.answers for wire in wires] == [[], []]
    world.gate.flush(marker)
    world.turns.run()
    topics = [wires[0].answers[0][1].topics, wires[1].answers[0][1].groups[0].topics]
    assert [each[0].partitions[0].committed_offset for each in topics] == [8, 8]


def test_an_offset_that_is_deleted_between_two_parts_is_none_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets, "SLICE_ITEMS", 1)
    world = World()
    partitions = [OffsetCommitRequestPartition(0, 5), OffsetCommitRequestPartition(1, 6)]
    topics = [OffsetCommitRequestTopic(name, partitions=partitions) for name in ("orders", "clicks")]
    world.wire().send(OffsetCommitRequest("g", -1, topics=topics), 8)
    group = world.coordinator.actors["g"].group
    assert {name: len(each) for name, each in group.offsets.items()} == {"orders": 2, "clicks": 2}
    steps = offsets._fetched_in_parts(group, OffsetFetchRequestGroup("g", topics=None), False)
    for _ in range(2):
        next(steps)
    del group.offsets["orders"][1], group.offsets["clicks"]
    found = [(topic.name, [each.partition_index for each in topic.partitions]) for topic in run_through(steps).topics]
    assert found == [("orders", [0])]
