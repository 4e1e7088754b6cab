"""Wait until a broker has applied a change for which its controller has sent a response.

Kafka's controller responds to a change of metadata when the change is in its log; the broker, which serves all other
requests, applies it a moment later (KIP-631), on a busy machine a long one. The next response in a story must not
depend on that.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from coordinatord.testing.conform.raw_client import Answer, BadAnswer, RawClient
from kafka_wire.api.create_partitions import CreatePartitionsRequest
from kafka_wire.api.create_topics import CreateTopicsRequest
from kafka_wire.api.delete_topics import DeleteTopicsRequest
from kafka_wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafka_wire.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from kafka_wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafka_wire.api.metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.errors import ErrorCode

LOOK_S = 0.1
"""Time in seconds between two checks."""
TOPICS_TIMEOUT_S = 40
CHANGE_TIMEOUT_S = 10
"""Time in seconds within which a broker returns a new setting or new partitions. If a broker never does, the story
continues, and its next response shows the difference.
"""
LATEST = -1
"""Timestamp of ListOffsets for a partition's end offset."""
SET = 0
"""Operation of an AlterableConfig that sets a value."""
_NOT_YET = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)

Connect = Callable[[str], Awaitable[RawClient]]


async def wait_until_settled(connect: Connect, answer: Answer) -> None:
    """Wait until the broker at the other end of `connect` has applied the changes that `answer` confirms."""
    if getattr(answer.request, "validate_only", False):
        return
    if isinstance(answer.request, CreateTopicsRequest | DeleteTopicsRequest):
        await _topics(connect, answer)
    elif isinstance(answer.request, CreatePartitionsRequest):
        await _changed(connect, lambda client: _has_partitions(client, answer))
    elif isinstance(answer.request, IncrementalAlterConfigsRequest):
        await _changed(connect, lambda client: _has_settings(client, answer))


async def _topics(connect: Connect, answer: Answer) -> None:
    results = getattr(answer.message, "topics", None) or getattr(answer.message, "responses", [])
    names = [topic.name for topic in results if topic.name and topic.error_code == ErrorCode.NONE]
    made = isinstance(answer.request, CreateTopicsRequest)
    expected = ErrorCode.NONE if made else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    request = MetadataRequest([MetadataRequestTopic(name=name) for name in names], False)
    client = await connect("settling")
    with contextlib.closing(client):
        async with asyncio.timeout(TOPICS_TIMEOUT_S):
            topics = (await client.ask(request, 4)).topics
            while any(topic.error_code != expected for topic in topics):
                await asyncio.sleep(LOOK_S)
                topics = (await client.ask(request, 4)).topics
            if made:
                found = {topic.name: [each.partition_index for each in topic.partitions] for topic in topics}
                with contextlib.suppress(BadAnswer, ConnectionError):
                    await _led(client, found)


async def _led(client: RawClient, partitions: Mapping[str, Iterable[int]]) -> None:
    """Wait until each partition has its log, which is a moment after Kafka's metadata contain it. Does not wait for a
    broker that does not return offsets.
    """
    topics = [
        ListOffsetsTopic(name, [ListOffsetsPartition(index, -1, LATEST) for index in indexes])
        for name, indexes in partitions.items()
    ]
    while True:
        found = await client.ask(ListOffsetsRequest(-1, topics=topics), 1)
        if not any(each.error_code in _NOT_YET for topic in found.topics for each in topic.partitions):
            return
        await asyncio.sleep(LOOK_S)


async def _changed(connect: Connect, is_so: Callable[[RawClient], Awaitable[bool]]) -> None:
    client = await connect("settling")
    with contextlib.suppress(BadAnswer, ConnectionError, TimeoutError), contextlib.closing(client):
        async with asyncio.timeout(CHANGE_TIMEOUT_S):
            while True:
                if await is_so(client):
                    return
                await asyncio.sleep(LOOK_S)


async def _has_partitions(client: RawClient, answer: Answer) -> bool:
    done = {result.name for result in answer.message.results if result.error_code == ErrorCode.NONE}
    counts = {topic.name: topic.count for topic in answer.request.topics if topic.name in done}
    request = MetadataRequest([MetadataRequestTopic(name=name) for name in counts], False)
    topics = (await client.ask(request, 4)).topics
    if {topic.name: len(topic.partitions) for topic in topics} != counts:
        return False
    await _led(client, {name: range(count) for name, count in counts.items()})
    return True


async def _has_settings(client: RawClient, answer: Answer) -> bool:
    done = {
        (result.resource_type, result.resource_name)
        for result in answer.message.responses
        if result.error_code == ErrorCode.NONE
    }
    wanted = {
        (resource.resource_type, resource.resource_name, config.name, config.value)
        for resource in answer.request.resources
        for config in resource.configs
        if config.config_operation == SET and (resource.resource_type, resource.resource_name) in done
    }
    request = DescribeConfigsRequest([DescribeConfigsResource(*resource) for resource in sorted(done)])
    found = await client.ask(request, 1)
    refused = {(each.resource_type, each.resource_name) for each in found.results if each.error_code}
    told: set[tuple[Any, ...]] = {
        (each.resource_type, each.resource_name, config.name, config.value)
        for each in found.results
        for config in each.configs
    }
    return all(each in told for each in wanted if each[:2] not in refused)
