"""Everything that a daemon tells of its data directory, as plain data: what clients can ask for, and all records."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from coordinatord.testing.conform.raw_client import RawClient
from kafka_wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafka_wire.api.describe_groups import DescribeGroupsRequest
from kafka_wire.api.describe_producers import DescribeProducersRequest, TopicRequest
from kafka_wire.api.describe_transactions import DescribeTransactionsRequest
from kafka_wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.api.init_producer_id import InitProducerIdRequest
from kafka_wire.api.list_groups import ListGroupsRequest
from kafka_wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafka_wire.api.list_transactions import ListTransactionsRequest
from kafka_wire.api.metadata import MetadataRequest
from kafka_wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import iterate_batches, records
from tests.compat.script import GROUP, PLAIN, TOPIC
from tests.protocol.as_json import as_json
from tests.reference.in_process import run, running_in_process

EARLIEST, LATEST = -2, -1
LATER_S = 60
"""The directory is opened this long after the script began."""
OWN = {1, 8}
"""Sources of settings that were set for the topic or the group itself."""


def contents(directory: Path) -> dict[str, Any]:
    """Open a data directory, with recovery if it needs one, and return all of its content. It is changed by that."""

    async def main() -> dict[str, Any]:
        await asyncio.sleep(LATER_S)
        async with running_in_process(directory, PLAIN) as world:
            client = await world.connect("reader")
            found = await _everything(client)
            client.close()
            return found

    return run(main())


async def _everything(client: RawClient) -> dict[str, Any]:
    metadata = await client.ask(MetadataRequest(None, False), 12)
    for topic in metadata.topics:
        for partition in topic.partitions:
            partition.leader_epoch = 0  # a start after a crash begins one
    names = sorted(topic.name for topic in metadata.topics)
    sizes = {topic.name: len(topic.partitions) for topic in metadata.topics}
    groups = await client.ask(ListGroupsRequest(), 5)
    group_ids = sorted(each.group_id for each in groups.groups)
    listed = await client.ask(ListTransactionsRequest(), 2)
    for _ in range(1_000):  # while the transactions are loaded
        if listed.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            break
        await asyncio.sleep(0.001)
        listed = await client.ask(ListTransactionsRequest(), 2)
    txn_ids = sorted(each.transactional_id for each in listed.transaction_states)
    described = await client.ask(DescribeGroupsRequest(group_ids), 6)
    transactions = await client.ask(DescribeTransactionsRequest(txn_ids), 0)
    asked = [TopicRequest(name, list(range(sizes[name]))) for name in names]
    producers = await client.ask(DescribeProducersRequest(asked), 0)
    return {
        "cluster_id": metadata.cluster_id,
        "topics": {each.name: as_json(each, 12) for each in sorted(metadata.topics, key=lambda each: each.name)},
        "configs": {name: await _own_configs(client, TOPIC, name) for name in names},
        "group_configs": {name: await _own_configs(client, GROUP, name) for name in group_ids},
        "groups": {each.group_id: as_json(each, 6) for each in described.groups},
        "offsets": {name: await _offsets(client, name, stable=False) for name in group_ids},
        "stable_offsets": {name: await _offsets(client, name, stable=True) for name in group_ids},
        "transactions": {each.transactional_id: as_json(each, 0) for each in transactions.transaction_states},
        "producers": {each.name: as_json(each, 0)["partitions"] for each in producers.topics},
        "partitions": {
            f"{name}-{partition}": await _partition(client, name, partition)
            for name in names
            for partition in range(sizes[name])
        },
        "next_producer_id": (await client.ask(InitProducerIdRequest(None, 1000), 5)).producer_id,
    }


async def _own_configs(client: RawClient, kind: int, name: str) -> dict[str, str]:
    answer = await client.ask(DescribeConfigsRequest([DescribeConfigsResource(kind, name, None)]), 4)
    return {each.name: each.value for each in answer.results[0].configs if each.config_source in OWN}


async def _offsets(client: RawClient, group: str, *, stable: bool) -> Any:
    asked = OffsetFetchRequestGroup(group, topics=None)
    answer = await client.ask(OffsetFetchRequest(groups=[asked], require_stable=stable), 9)
    return as_json(answer, 9)["groups"][0]["topics"]


async def _partition(client: RawClient, topic: str, partition: int) -> dict[str, Any]:
    """Its offsets, its aborted transactions, and each batch with its records."""
    ends = [(await _offset(client, topic, partition, at)) for at in (EARLIEST, LATEST)]
    asked = FetchPartition(partition, fetch_offset=ends[0], partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0, max_bytes=1 << 20, isolation_level=0, topics=[FetchTopic(topic, partitions=[asked])]
    )
    found = (await client.ask(request, 12)).responses[0].partitions[0]
    assert not found.error_code
    request.isolation_level = 1
    committed = (await client.ask(request, 12)).responses[0].partitions[0]
    return {
        "start": ends[0],
        "end": ends[1],
        "last_stable_offset": found.last_stable_offset,
        "aborted": [as_json(each, 12) for each in committed.aborted_transactions or ()],
        "batches": _batches(bytes(found.records or b"")),
    }


async def _offset(client: RawClient, topic: str, partition: int, at: int) -> int:
    asked = ListOffsetsTopic(topic, [ListOffsetsPartition(partition, timestamp=at)])
    answer = await client.ask(ListOffsetsRequest(-1, topics=[asked]), 7)
    return int(answer.topics[0].partitions[0].offset)


def _batches(data: bytes) -> list[dict[str, Any]]:
    return [
        {
            **{name: value for name, value in header._asdict().items() if name != "crc"},
            "records": [
                {
                    "offset": record.offset,
                    "timestamp": record.timestamp,
                    "key": _text(record.key),
                    "value": _text(record.value),
                    "headers": [[name, _text(value)] for name, value in record.headers],
                }
                for record in records(data, position, header)
            ],
        }
        for position, header in iterate_batches(data)
    ]


def _text(value: bytes | None) -> str | None:
    """ASCII as it is, other bytes as escapes."""
    return None if value is None else value.decode("latin-1").encode("unicode_escape").decode()
