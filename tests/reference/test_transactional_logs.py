"""Transactions on disk, Kafka's and ours: we go on where Kafka was stopped or killed, and its tools read what we write.

The same transactions are played on both: one committed, one aborted, one of another producer aborted in between,
offsets in each, and one that is left open. The answers about them are compared before and after the change of hands.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from coordinatord.testing.conform.raw_client import RawClient
from kafka_wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafka_wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.describe_transactions import DescribeTransactionsRequest
from kafka_wire.api.end_txn import EndTxnRequest
from kafka_wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.init_producer_id import InitProducerIdRequest
from kafka_wire.api.metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kafka_wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import TRANSACTIONAL, BatchBuilder
from tests.daemon import REPOSITORY, Daemon, running
from tests.reference.broker import running_broker

pytestmark = pytest.mark.reference

SETTINGS = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
WAIT = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
    }
)
"""A client asks again."""


@dataclass
class Producer:
    transactional_id: str
    id: int
    epoch: int
    sequence: int = 0


class Client:
    """A raw client that asks again while there is something to wait for."""

    def __init__(self, raw: RawClient) -> None:
        self.raw = raw

    async def ask(self, request: Any, version: int, error: Callable[[Any], int] = lambda it: it.error_code) -> Any:
        for _ in range(1_200):
            response = await self.raw.ask(request, version)
            if error(response) not in WAIT:
                return response
            await asyncio.sleep(0.05)
        raise AssertionError(f"still {ErrorCode(error(response)).name}: {request}")

    async def prepare(self) -> None:
        await self.raw.ask(CreateTopicsRequest([CreatableTopic("orders", 1, 1)], 10_000), 4)
        await self.ask(MetadataRequest([MetadataRequestTopic(name="orders")]), 9, lambda it: it.topics[0].error_code)
        await self.ask(FindCoordinatorRequest("group", 0), 3)
        await self.ask(FindCoordinatorRequest("tx", 1), 3)

    async def producer(self, transactional_id: str) -> Producer:
        given = await self.ask(InitProducerIdRequest(transactional_id, 600_000), 4)
        assert given.error_code == 0
        return Producer(transactional_id, given.producer_id, given.producer_epoch)

    async def write(self, producer: Producer, value: str) -> int:
        """The offset of the record."""
        own = producer.transactional_id, producer.id, producer.epoch
        topics = [AddPartitionsToTxnTopic("orders", [0])]
        added = await self.ask(
            AddPartitionsToTxnRequest([], *own, topics),
            3,
            lambda it: it.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
        )
        assert added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0
        builder = BatchBuilder()
        builder.add(None, value.encode(), int(time.time() * 1000))
        records = builder.finish(
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            base_sequence=producer.sequence,
            attributes=TRANSACTIONAL,
        )
        data = [TopicProduceData("orders", partition_data=[PartitionProduceData(0, bytes(records))])]
        response = await self.ask(
            ProduceRequest(producer.transactional_id, -1, 5_000, data),
            9,
            lambda it: it.responses[0].partition_responses[0].error_code,
        )
        [written] = response.responses[0].partition_responses
        assert written.error_code == 0
        producer.sequence += 1
        offset: int = written.base_offset
        return offset

    async def commit_offset(self, producer: Producer, offset: int) -> None:
        own = producer.transactional_id, producer.id, producer.epoch
        assert (await self.ask(AddOffsetsToTxnRequest(*own, "group"), 3)).error_code == 0
        request = TxnOffsetCommitRequest(producer.transactional_id, "group", producer.id, producer.epoch)
        request.topics = [
            TxnOffsetCommitRequestTopic("orders", partitions=[TxnOffsetCommitRequestPartition(0, offset)])
        ]
        response = await self.ask(request, 3, lambda it: it.topics[0].partitions[0].error_code)
        assert response.topics[0].partitions[0].error_code == 0

    async def end(self, producer: Producer, *, commit: bool) -> None:
        own = producer.transactional_id, producer.id, producer.epoch
        assert (await self.ask(EndTxnRequest(*own, commit), 3)).error_code == 0

    async def offset(self, group_id: str, topic: str, partition: int) -> int:
        """What a group has committed."""
        group = OffsetFetchRequestGroup(
            group_id, topics=[OffsetFetchRequestTopics(topic, partition_indexes=[partition])]
        )
        response = await self.ask(OffsetFetchRequest(groups=[group]), 8, _group_error)
        committed: int = response.groups[0].topics[0].partitions[0].committed_offset
        return committed

    async def seen(self, known: dict[int, str]) -> dict[str, Any]:
        """What anybody can find out; producer ids by the names in `known`."""
        partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)
        topics = [FetchTopic("orders", partitions=[partition])]
        request = FetchRequest(max_wait_ms=0, min_bytes=1, isolation_level=1, topics=topics)
        fetched = (await self.ask(request, 12)).responses[0].partitions[0]
        group = OffsetFetchRequestGroup("group", topics=[OffsetFetchRequestTopics("orders", partition_indexes=[0])])
        offsets = [
            (await self.ask(OffsetFetchRequest(groups=[group], require_stable=stable), 8, _group_error)).groups[0]
            for stable in (True, False)
        ]
        asked = DescribeTransactionsRequest(["tx", "other"])
        states = (await self.ask(asked, 0, lambda it: it.transaction_states[0].error_code)).transaction_states
        return {
            "end": fetched.high_watermark,
            "stable": fetched.last_stable_offset,
            "aborted": [(known[each.producer_id], each.first_offset) for each in fetched.aborted_transactions],
            "records": bytes(fetched.records),
            "offsets": [each.topics[0].partitions for each in offsets],
            "states": [(each.transactional_id, each.transaction_state, each.producer_epoch) for each in states],
        }


def _group_error(response: Any) -> int:
    group = response.groups[0]
    code: int = group.error_code
    return code


async def play(client: Client) -> tuple[Producer, Producer]:
    """The transactions; the first producer's last one is left open."""
    await client.prepare()
    tx, other = await client.producer("tx"), await client.producer("other")
    await client.write(tx, "committed")
    await client.commit_offset(tx, 3)
    await client.write(other, "of the other")
    await client.end(tx, commit=True)
    await client.write(tx, "aborted")
    await client.commit_offset(tx, 5)
    await client.end(tx, commit=False)
    await client.end(other, commit=False)
    await client.write(tx, "open")
    await client.commit_offset(tx, 7)
    return tx, other


async def settled(client: Client, known: dict[int, str]) -> dict[str, Any]:
    """What is seen when the markers of all that has ended are written."""
    for _ in range(1_200):
        seen = await client.seen(known)
        if seen["states"][1][1] == "CompleteAbort" and seen["stable"] == seen["end"] - 1:
            return seen
        await asyncio.sleep(0.05)
    raise AssertionError(f"it does not settle: {seen}")


async def go_on(daemon: Daemon, tx: Producer, other: Producer) -> tuple[dict[str, Any], dict[str, Any]]:
    """What our daemon says, first of all and after the open transaction has been committed."""
    client = Client(await RawClient.connect("127.0.0.1", daemon.port))
    known = {tx.id: "tx", other.id: "other"}
    before = await client.seen(known)
    await client.write(tx, "more of it")
    await client.end(tx, commit=True)
    after = await client.seen(known)
    again = await client.producer("tx")
    assert (again.id, again.epoch) == (tx.id, tx.epoch + 1)
    client.raw.close()
    return before, after


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_we_go_on_where_kafka_has_been(kafka_libs: Path, tmp_path: Path, kill: bool) -> None:
    async def on_kafka(port: int) -> tuple[Producer, Producer, dict[str, Any]]:
        client = Client(await RawClient.connect("127.0.0.1", port))
        tx, other = await play(client)
        seen = await settled(client, {tx.id: "tx", other.id: "other"})
        client.raw.close()
        return tx, other, seen

    with running_broker(kafka_libs, tmp_path / "kafka", SETTINGS) as broker:
        tx, other, seen = asyncio.run(on_kafka(broker.port))
        broker.stop(kill=kill)
    target = tmp_path / "ours" / "data"
    command = [sys.executable, "-m", "coordinatord", "import", str(broker.data_dir), "--data-dir", str(target)]
    subprocess.run(command, cwd=REPOSITORY, check=True)
    with running(tmp_path / "ours", SETTINGS) as daemon:
        before, after = asyncio.run(go_on(daemon, tx, other))
        assert before == seen
        assert before["states"][0][1] == "Ongoing"
        assert [partition.error_code for (partition,) in before["offsets"]] == [ErrorCode.UNSTABLE_OFFSET_COMMIT, 0]
        assert before["offsets"][1][0].committed_offset == 3
        assert after["stable"] == after["end"]
        assert after["offsets"][0][0].committed_offset == 7
        assert after["aborted"] == seen["aborted"]
        # Which of the two markers Kafka wrote first is chance; what it told of them is what we tell, in its order.
        assert sorted(seen["aborted"]) == [("other", 1), ("tx", 3)]


def test_kafkas_tools_read_what_we_write(kafka_tool: Callable[..., str], tmp_path: Path) -> None:
    async def on_ours(port: int) -> tuple[Producer, Producer]:
        client = Client(await RawClient.connect("127.0.0.1", port))
        found = await play(client)
        client.raw.close()
        return found

    with running(tmp_path, SETTINGS) as daemon:
        tx, other = asyncio.run(on_ours(daemon.port))
    first = "00000000000000000000.log"
    said = kafka_tool(
        "DumpLogSegments",
        "--files",
        str(daemon.data_dir / "__transaction_state-0" / first),
        "--transaction-log-decoder",
    )
    for status in ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"):
        assert f'"transactionStatus":"{status}"' in said, said
    assert '"transactionalId":"tx"' in said
    said = kafka_tool("DumpLogSegments", "--files", str(daemon.data_dir / "orders-0" / first), "--print-data-log")
    assert said.count("endTxnMarker: COMMIT") == 1, said
    assert said.count("endTxnMarker: ABORT") == 2, said
    said = kafka_tool(
        "DumpLogSegments", "--files", str(daemon.data_dir / "__consumer_offsets-0" / first), "--offsets-decoder"
    )
    assert "isTransactional: true" in said
    assert said.count("endTxnMarker") == 2, said
    (index,) = (daemon.data_dir / "orders-0").glob("*.txnindex")
    said = kafka_tool("DumpLogSegments", "--files", str(index))
    for producer in (tx, other):
        assert f"producerId: {producer.id} " in said, said
    (snapshot,) = (daemon.data_dir / "orders-0").glob("*.snapshot")
    said = kafka_tool("DumpLogSegments", "--files", str(snapshot))
    assert f"producerId: {tx.id} producerEpoch: {tx.epoch}" in said, said
    assert "currentTxnFirstOffset: OptionalLong[6]" in said, said
