"""The share coordinator in the daemon: offered if share groups are, kept over restarts, pruned, for brokers alone."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coordinatord.base.config import Settings
from coordinatord.broker.topics.names import SHARE_TOPIC
from coordinatord.coordination.share.apis.state import MAX_STATE_BATCHES
from coordinatord.server.daemon.handlers import offered, serves_share_groups
from kafka_wire.api.api_versions import ApiVersionsRequest
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.metadata import MetadataRequest
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode
from tests.coordination.share.coordinator.test_apis import initializing, reading, summarizing, writing
from tests.reference.in_process import InProcess, run, running_in_process
from tests.server.access.cases import SUPER
from tests.server.access.ours import AUTHORIZER, authorized

NO_SHARE = {"group.coordinator.rebalance.protocols": "classic,consumer"}
SHARE = {"group.coordinator.rebalance.protocols": "classic,consumer,share"}
SHARE_APIS = {76, 77, 83, 84, 85, 86, 87, 90, 91, 92}


@pytest.mark.parametrize(
    ("changes", "served"),
    [
        ({}, True),
        ({"group_coordinator_rebalance_protocols": ("classic", "consumer")}, False),
        ({"group_coordinator_rebalance_protocols": ("share",), "workers": 2}, True),
        ({"group_coordinator_rebalance_protocols": ("share",), "storage": "postgresql://db/kafka"}, True),
    ],
)
def test_where_share_groups_are_served(changes: dict[str, Any], served: bool) -> None:
    assert serves_share_groups(replace(Settings(), **changes)) == served


@pytest.mark.parametrize("served", [False, True])
def test_the_apis_are_offered_if_share_groups_are_served(tmp_path: Path, served: bool) -> None:
    async def found() -> set[int]:
        async with running_in_process(tmp_path, {} if served else NO_SHARE) as ours:
            client = await ours.connect("raw")
            return {each.api_key for each in (await client.ask(ApiVersionsRequest(), 0)).api_keys}

    assert run(found()) & SHARE_APIS == (SHARE_APIS if served else set())


@pytest.mark.parametrize("protocols", ["classic", "classic,consumer", "classic,consumer,share"])
def test_a_node_without_handlers_offers_the_same(tmp_path: Path, protocols: str) -> None:
    """As a node that waits for the lead: it has no daemon whose handlers it could list."""
    changes = {"group.coordinator.rebalance.protocols": protocols}

    async def apis() -> set[int]:
        async with running_in_process(tmp_path, changes) as ours:
            client = await ours.connect("raw")
            return {each.api_key for each in (await client.ask(ApiVersionsRequest(), 0)).api_keys}

    settings = replace(Settings(), group_coordinator_rebalance_protocols=tuple(protocols.split(",")))
    assert run(apis()) == offered(ApiKey, settings)


async def create(client: Any) -> bytes:
    response = await client.ask(CreateTopicsRequest([CreatableTopic("orders", 2, -1)]), 7)
    topic_id: bytes = response.topics[0].topic_id
    return topic_id


async def initialized(ours: InProcess) -> tuple[Any, bytes]:
    """Create a topic and the state of its two partitions; return a client and the topic's id."""
    client = await ours.connect("raw")
    topic_id = await create(client)
    assert ours.daemon.share is not None
    ours.daemon.share.coordinator.partitions.ensure()
    await client.ask(initializing(topic_id, 0, 1, start=10), 0)
    return client, topic_id


def test_a_write_of_too_many_batches_is_an_error_of_its_partition(tmp_path: Path) -> None:
    """And changes nothing."""

    async def play() -> None:
        async with running_in_process(tmp_path, SHARE) as ours:
            client, topic_id = await initialized(ours)
            request = writing(topic_id, 0, (10, 19, 0, 1), complete=4)
            request.topics[0].partitions[0].state_batches *= MAX_STATE_BATCHES + 1
            response = await client.ask(request, 1)
            assert response.results[0].partitions[0].error_code == ErrorCode.INVALID_REQUEST
            state = await client.ask(reading(topic_id, 0), 0)
            assert state.results[0].partitions[0].state_batches == []

    run(play())


def test_the_state_is_there_after_a_restart(tmp_path: Path) -> None:
    async def first() -> bytes:
        async with running_in_process(tmp_path, SHARE) as ours:
            client, topic_id = await initialized(ours)
            await client.ask(writing(topic_id, 0, (10, 19, 0, 1), complete=4), 1)
            return topic_id

    async def again(topic_id: bytes) -> tuple[Any, Any]:
        async with running_in_process(tmp_path, SHARE) as ours:
            client = await ours.connect("raw")
            return await client.ask(reading(topic_id, 0), 0), await client.ask(summarizing(topic_id, 0, 1), 1)

    topic_id = run(first())
    state, summary = run(again(topic_id))
    [partition] = state.results[0].partitions
    assert [(each.first_offset, each.last_offset) for each in partition.state_batches] == [(10, 19)]
    assert [(each.start_offset, each.delivery_complete_count) for each in summary.results[0].partitions] == [
        (10, 4), (10, 0)
    ]  # fmt: skip


def test_redundant_records_are_pruned_from_time_to_time(tmp_path: Path) -> None:
    settings = {**SHARE, "share.coordinator.state.topic.num.partitions": "1"}

    async def starts() -> list[int]:
        async with running_in_process(tmp_path, settings) as ours:
            client = await ours.connect("raw")
            topic_id = await create(client)
            assert ours.daemon.share is not None
            ours.daemon.share.coordinator.partitions.ensure()
            log = ours.daemon.topics.catalogue.by_name[SHARE_TOPIC].partitions[0].log
            await client.ask(initializing(topic_id, 0, 1), 0)
            found = [log.log_start_offset]
            for _ in range(3):  # the five minutes of the defaults
                await client.ask(initializing(topic_id, 1), 0)
                await asyncio.sleep(301)
                found.append(log.log_start_offset)
            return found

    first, *later = run(starts())
    assert first == 0
    assert later == sorted(set(later)), "the cold partition's snapshot moved each time"


def test_only_brokers_may_use_the_state(tmp_path: Path) -> None:
    async def errors() -> list[int]:
        async with authorized(tmp_path, {**AUTHORIZER, **SHARE}) as (daemon, connect):
            client = await connect(SUPER)
            topic_id = await create(client)
            assert daemon.share is not None
            daemon.share.coordinator.partitions.ensure()
            found = []
            for user in (SUPER, "someone"):
                client = await connect(user)
                for request in (initializing(topic_id, 0), reading(topic_id, 0), writing(topic_id, 0)):
                    response = await client.ask(request, 0)
                    found.append(response.results[0].partitions[0].error_code)
            return found

    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert run(errors()) == [0, 0, 0, refused, refused, refused]


def test_the_topic_is_internal(tmp_path: Path) -> None:
    async def is_internal() -> bool:
        async with running_in_process(tmp_path, SHARE) as ours:
            assert ours.daemon.share is not None
            ours.daemon.share.coordinator.partitions.ensure()
            client = await ours.connect("raw")
            topics = (await client.ask(MetadataRequest(topics=None), 12)).topics
            return next(each.is_internal for each in topics if each.name == SHARE_TOPIC)

    assert run(is_internal())
