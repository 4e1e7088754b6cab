"""The topics of coordinators: they do not exist before the first request for a coordinator or of a group, and a client
may create them before, as on Kafka.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinatord.testing.conform.raw_client import RawClient
from kafka_wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.describe_topic_partitions import DescribeTopicPartitionsRequest
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.init_producer_id import InitProducerIdRequest
from kafka_wire.api.metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.errors import ErrorCode
from tests.reference.in_process import run, running_in_process

TRANSACTION = 1


async def topics(client: RawClient) -> dict[str, int]:
    """The topics that the broker lists, with their numbers of partitions; twice, by the two APIs that list them."""
    metadata = await client.ask(MetadataRequest(topics=None), 12)
    described = await client.ask(DescribeTopicPartitionsRequest([], 2_000), 0)
    listed = {topic.name: len(topic.partitions) for topic in metadata.topics}
    assert {topic.name: len(topic.partitions) for topic in described.topics} == listed
    return listed


async def commit(client: RawClient, group: str) -> int:
    partition = OffsetCommitRequestPartition(0, 7)
    response = await client.ask(
        OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic("orders", partitions=[partition])]), 2
    )
    return int(response.topics[0].partitions[0].error_code)


def test_the_first_search_for_a_group_creates_the_offsets_topic_and_is_answered(tmp_path: Path) -> None:
    async def ask(directory: Path, *, searches: bool) -> list[object]:
        async with running_in_process(directory, {"offsets.topic.num.partitions": "5"}) as ours:
            client = await ours.connect("raw")
            seen: list[object] = [await topics(client)]
            named = MetadataRequest([MetadataRequestTopic(name="__consumer_offsets")], True)
            seen.append((await client.ask(named, 12)).topics[0].error_code)
            if searches:
                seen.append((await client.ask(FindCoordinatorRequest("g"), 3)).error_code)
            seen.append(await topics(client))
            client.close()
            return seen

    fresh = [{}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    created = {"__consumer_offsets": 5}
    assert run(ask(tmp_path, searches=False)) == [*fresh, {}]
    assert run(ask(tmp_path, searches=True)) == [*fresh, ErrorCode.NONE, created]
    assert run(ask(tmp_path, searches=False)) == [created, ErrorCode.NONE, created]  # after a restart


def test_a_request_of_a_group_creates_the_offsets_topic(tmp_path: Path) -> None:
    async def ask() -> tuple[int, dict[str, int]]:
        async with running_in_process(tmp_path, {"offsets.topic.num.partitions": "5"}) as ours:
            client = await ours.connect("raw")
            await client.ask(CreateTopicsRequest([CreatableTopic("orders", 1, 1)]), 7)
            error, listed = await commit(client, "g"), await topics(client)
            client.close()
            return error, listed

    assert run(ask()) == (ErrorCode.NONE, {"orders": 1, "__consumer_offsets": 5})


def test_groups_use_the_offsets_topic_that_a_client_created(tmp_path: Path) -> None:
    async def ask(directory: Path) -> tuple[list[int], dict[str, int]]:
        async with running_in_process(directory, {"offsets.topic.num.partitions": "5"}) as ours:
            client = await ours.connect("raw")
            new = [CreatableTopic("orders", 1, 1), CreatableTopic("__consumer_offsets", 2, 1)]
            created = await client.ask(CreateTopicsRequest(new), 7)
            errors = [each.error_code for each in created.topics]
            errors += [await commit(client, group) for group in ("a", "b", "c")]
            states = ours.daemon.coordinator.partitions.counts()
            client.close()
            return errors, {state: int(count) for state, count in states.items()}

    assert run(ask(tmp_path)) == ([ErrorCode.NONE] * 5, {"loading": 0, "active": 2, "failed": 0})


def test_a_transaction_with_the_offsets_of_a_group_that_nobody_looked_for(tmp_path: Path) -> None:
    """A producer looks for the group's coordinator only after AddOffsetsToTxn."""

    async def ask() -> int:
        async with running_in_process(tmp_path, {}) as ours:
            client = await ours.connect("raw")
            await client.ask(FindCoordinatorRequest("t", TRANSACTION), 3)
            made = await client.ask(InitProducerIdRequest("t", 60_000), 4)
            request = AddOffsetsToTxnRequest("t", made.producer_id, made.producer_epoch, "g")
            response = await client.ask(request, 3)
            client.close()
            return int(response.error_code)

    assert run(ask()) == ErrorCode.NONE


@pytest.mark.parametrize("key_type", [0, TRANSACTION])
def test_a_topic_that_cannot_be_created_leaves_no_coordinator(
    key_type: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    async def ask() -> list[int]:
        async with running_in_process(tmp_path, {}) as ours:
            client = await ours.connect("raw")
            with monkeypatch.context() as patched:
                patched.setattr(ours.daemon.topics.catalogue, "create", full)
                refused = await client.ask(FindCoordinatorRequest("x", key_type), 3)
            found = await client.ask(FindCoordinatorRequest("x", key_type), 3)
            client.close()
            return [refused.error_code, found.error_code]

    assert run(ask()) == [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NONE]


def test_a_producer_that_asks_for_no_coordinator_uses_a_topic_that_a_client_created(tmp_path: Path) -> None:
    async def ask() -> list[int]:
        async with running_in_process(tmp_path, {}) as ours:
            client = await ours.connect("raw")
            before = await client.ask(InitProducerIdRequest("t", 60_000), 4)
            await client.ask(CreateTopicsRequest([CreatableTopic("__transaction_state", 3, 1)]), 7)
            after = await client.ask(InitProducerIdRequest("t", 60_000), 4)
            client.close()
            return [before.error_code, after.error_code]

    assert run(ask()) == [ErrorCode.NOT_COORDINATOR, ErrorCode.NONE]
