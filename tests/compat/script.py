"""What the golden files tell of: topics, producers, groups and transactions, in virtual time and with a fixed seed, so
that every run writes the same bytes.
"""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from coordinatord.testing.conform.raw_client import RawClient
from coordinatord.testing.conform.values import assignment
from kafka_wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafka_wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_wire.api.consumer_group_heartbeat import TopicPartitions as Owned
from kafka_wire.api.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafka_wire.api.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafka_wire.api.delete_topics import DeleteTopicsRequest
from kafka_wire.api.end_txn import EndTxnRequest
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafka_wire.api.init_producer_id import InitProducerIdRequest
from kafka_wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafka_wire.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import TRANSACTIONAL, BatchBuilder
from tests.coordination.group.world import subscription
from tests.reference.in_process import START_MS, InProcess, run, running_in_process

SEED = 17
SETTINGS = {
    "log.flush": "always",  # so that there is a journal
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "2",
}
PLAIN = {**SETTINGS, "rebalance.ledger.enable": "false"}
"""Of the data directory: the ledger's records may get more fields without a new version of the directory."""
GROUP, TOPIC = 32, 2
REBALANCE_TIMEOUT_MS = 60_000


@contextmanager
def seeded() -> Iterator[None]:
    """Ids that are random otherwise are the same in each run."""
    chance = random.Random(SEED)
    with mock.patch("os.urandom", chance.randbytes):
        yield


def write_data(directory: Path) -> None:
    """Fill `directory` with `stopped`, a data directory after a clean stop, and `crashed`, the same one as a loss of
    power leaves it: with the journal, and without what the segments had not been flushed of.
    """
    stopped, crashed = directory / "stopped", directory / "crashed"

    async def main() -> None:
        async with running_in_process(stopped, PLAIN) as world:
            await play(world)
            shutil.copytree(stopped, crashed)

    with seeded():
        run(main())
    flushed = {
        tuple(line.split(" ")[:2]): int(line.split(" ")[2])
        for line in _lines(crashed / "recovery-point-offset-checkpoint")[2:]
    }
    for path in crashed.glob("*/*.log"):
        topic, _, partition = path.parent.name.rpartition("-")
        assert (topic, partition) not in flushed, "the script writes less than one journal"
        path.write_bytes(b"")
    (stopped / ".lock").unlink(missing_ok=True)
    (crashed / ".lock").unlink(missing_ok=True)


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


async def play(world: InProcess) -> None:
    """Everything that the golden files tell of."""
    client = await world.connect("admin")
    await client.ask(FindCoordinatorRequest("billing"), 3)  # the first one creates __consumer_offsets
    await _topics(client)
    await _produce(client)
    await _groups(world)
    await _transactions(client)
    deleted = await client.ask(DeleteTopicsRequest(topic_names=["gone"], timeout_ms=1000), 5)
    assert not deleted.responses[0].error_code
    await asyncio.sleep(5)  # removed files are gone, and the ledger is written
    client.close()


async def play_epochs(world: InProcess) -> None:
    """A consumer group: two join, the second one is static and waits for the first to give up; then it leaves."""
    client = await world.connect("apps")
    epochs = {"app-1": 0, "app-2": 0}
    owned: dict[str, list[Owned]] = {"app-1": [], "app-2": []}

    async def beat(member_id: str, epoch: int | None = None) -> None:
        request = ConsumerGroupHeartbeatRequest("epochs", member_id, epochs[member_id] if epoch is None else epoch)
        if member_id == "app-2":
            request.instance_id = "till"
        if request.member_epoch == 0:
            request.rebalance_timeout_ms, request.subscribed_topic_names = REBALANCE_TIMEOUT_MS, ["orders"]
        request.topic_partitions = owned[member_id]
        answer = await client.ask(request, 1)
        assert not answer.error_code, answer
        epochs[member_id] = answer.member_epoch
        if answer.assignment is not None:
            owned[member_id] = [Owned(each.topic_id, each.partitions) for each in answer.assignment.topic_partitions]
        await asyncio.sleep(1)

    for member_id in ("app-1", "app-1", "app-2", "app-2", "app-1", "app-1", "app-2", "app-2", "app-1"):
        await beat(member_id)
    await beat("app-2", -1)
    for _ in range(3):
        await beat("app-1")
    await asyncio.sleep(5)
    client.close()


async def _topics(client: RawClient) -> None:
    topics = [
        CreatableTopic("orders", 3, 1, [], [CreatableTopicConfig("retention.ms", "-1")]),
        CreatableTopic("prices", 1, 1, [], [CreatableTopicConfig("cleanup.policy", "compact")]),
        CreatableTopic("gone", 1, 1, [], []),
    ]
    created = await client.ask(CreateTopicsRequest(topics, timeout_ms=1000), 7)
    assert not any(each.error_code for each in created.topics)
    own = AlterConfigsResource(GROUP, "audit", [AlterableConfig("offsets.retention.minutes", 0, "-1")])
    altered = await client.ask(IncrementalAlterConfigsRequest([own]), 1)
    assert not altered.responses[0].error_code


def _batch(values: list[bytes], **fields: int) -> bytes:
    builder = BatchBuilder()
    for number, value in enumerate(values):
        builder.add(b"key-%d" % number, value, START_MS + number, [("header", b"h"), ("none", None)] if number else ())
    return bytes(builder.finish(**fields))


async def _send(client: RawClient, topic: str, partition: int, batch: bytes, txn_id: str | None = None) -> int:
    data = [TopicProduceData(topic, partition_data=[PartitionProduceData(partition, batch)])]
    version = 11 if txn_id == "first" else 12
    answer = await client.ask(ProduceRequest(txn_id, -1, 1000, data), version)
    found = answer.responses[0].partition_responses[0]
    assert not found.error_code, ErrorCode(found.error_code)
    return int(found.base_offset)


async def _produce(client: RawClient) -> None:
    assert await _send(client, "orders", 0, _batch([b"one", b"two", b"three"])) == 0
    assert await _send(client, "orders", 1, _batch([b"%d" % number for number in range(5)])) == 0
    assert await _send(client, "prices", 0, _batch([b"1.10", b"2.20"])) == 0
    assert await _send(client, "gone", 0, _batch([b"forgotten"])) == 0
    ids = await client.ask(InitProducerIdRequest(None, 60_000), 5)
    for sequence in (0, 2):
        numbered = _batch([b"a", b"b"], producer_id=ids.producer_id, producer_epoch=0, base_sequence=sequence)
        await _send(client, "orders", 0, numbered)
    partition = DeleteRecordsTopic("orders", [DeleteRecordsPartition(1, 2)])
    deleted = await client.ask(DeleteRecordsRequest([partition], 1000), 2)
    assert deleted.topics[0].partitions[0].low_watermark == 2


def _join(group: str, member_id: str, instance: str | None, session_ms: int) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol("range", subscription("orders"))]
    return JoinGroupRequest(
        group, session_ms, REBALANCE_TIMEOUT_MS, member_id, instance, "consumer", protocols, reason="the script says so"
    )


def _sync(joined: Any, group: str, instance: str | None, shares: dict[str, bytes]) -> SyncGroupRequest:
    assigned = [SyncGroupRequestAssignment(member_id, share) for member_id, share in shares.items()]
    return SyncGroupRequest(group, joined.generation_id, joined.member_id, instance, "consumer", "range", assigned)


async def _groups(world: InProcess) -> None:
    await _ghost(await world.connect("ghost-client"))
    await _billing(await world.connect("first-client"), await world.connect("second-client"))
    simple = await world.connect("simple-client")
    topics = [OffsetCommitRequestTopic("orders", partitions=[OffsetCommitRequestPartition(2, 99, -1, "")])]
    done = await simple.ask(OffsetCommitRequest("audit", topics=topics), 9)
    assert not done.topics[0].partitions[0].error_code
    simple.close()


async def _ghost(client: RawClient) -> None:
    """A group whose one member expires."""
    first = await client.ask(_join("ghost", "", None, 6_000), 9)
    assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
    joined = await client.ask(_join("ghost", first.member_id, None, 6_000), 9)
    await client.ask(_sync(joined, "ghost", None, {joined.member_id: assignment("orders", 0, 1, 2)}), 5)
    await asyncio.sleep(7)
    client.close()


async def _billing(one: RawClient, two: RawClient) -> None:
    """A static and a dynamic member; the dynamic one leaves, the static one stays."""
    group, instance, session_ms = "billing", "till-1", 45_000
    joined = await one.ask(_join(group, "", instance, session_ms), 9)
    await one.ask(_sync(joined, group, instance, {joined.member_id: assignment("orders", 0, 1, 2)}), 5)
    await asyncio.sleep(1)
    first = await two.ask(_join(group, "", None, session_ms), 9)
    two.send(_join(group, first.member_id, None, session_ms), 9)
    await asyncio.sleep(0.25)
    beat = await one.ask(HeartbeatRequest(group, joined.generation_id, joined.member_id, instance), 4)
    assert beat.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    joined = await one.ask(_join(group, joined.member_id, instance, session_ms), 9)
    answer = await two.receive()
    assert answer is not None
    shares = {joined.member_id: assignment("orders", 0, 1), answer.message.member_id: assignment("orders", 2)}
    await one.ask(_sync(joined, group, instance, shares), 5)
    await two.ask(_sync(answer.message, group, None, {}), 5)
    topics = [
        OffsetCommitRequestTopic(
            "orders",
            partitions=[
                OffsetCommitRequestPartition(0, 3, 0, "as committed"),
                OffsetCommitRequestPartition(1, 4, -1, ""),
            ],
        )
    ]
    done = await one.ask(OffsetCommitRequest(group, joined.generation_id, joined.member_id, instance, topics=topics), 9)
    assert not any(each.error_code for each in done.topics[0].partitions)
    await asyncio.sleep(1)
    leaving = MemberIdentity(answer.message.member_id, None, "the script says so")
    await two.ask(LeaveGroupRequest(group, members=[leaving]), 5)
    joined = await one.ask(_join(group, joined.member_id, instance, session_ms), 9)
    await one.ask(_sync(joined, group, instance, {joined.member_id: assignment("orders", 0, 1, 2)}), 5)
    one.close()
    two.close()


async def _begin(client: RawClient, txn_id: str) -> Any:
    await client.ask(FindCoordinatorRequest(txn_id, 1), 3)  # the first one creates __transaction_state
    ids = await client.ask(InitProducerIdRequest(txn_id, 600_000), 5)
    assert not ids.error_code
    return ids


async def _offsets(client: RawClient, txn_id: str, ids: Any, offset: int, version: int) -> None:
    partition = TxnOffsetCommitRequestPartition(0, offset, 0, txn_id)
    topics = [TxnOffsetCommitRequestTopic("orders", partitions=[partition])]
    request = TxnOffsetCommitRequest(txn_id, "audit", ids.producer_id, ids.producer_epoch, topics=topics)
    done = await client.ask(request, version)
    assert not done.topics[0].partitions[0].error_code


async def _transactions(client: RawClient) -> None:
    """Transactions of both protocols: one committed, one aborted, one open."""
    for txn_id, committed in (("first", True), ("second", False), ("third", None)):
        is_old = txn_id == "first"
        ids = await _begin(client, txn_id)
        if is_old:
            topics = [AddPartitionsToTxnTopic("orders", [2])]
            request = AddPartitionsToTxnRequest([], txn_id, ids.producer_id, ids.producer_epoch, topics)
            await client.ask(request, 3)
            await client.ask(AddOffsetsToTxnRequest(txn_id, ids.producer_id, ids.producer_epoch, "audit"), 3)
        fields = {"producer_id": ids.producer_id, "producer_epoch": ids.producer_epoch, "base_sequence": 0}
        batch = _batch([txn_id.encode()], attributes=TRANSACTIONAL, **fields)
        await _send(client, "orders", 2, batch, txn_id)
        await _offsets(client, txn_id, ids, 10 * len(txn_id), 3 if is_old else 5)
        if committed is not None:
            end = EndTxnRequest(txn_id, ids.producer_id, ids.producer_epoch, committed)
            done = await client.ask(end, 3 if is_old else 5)
            assert not done.error_code, ErrorCode(done.error_code)
            await asyncio.sleep(1)
