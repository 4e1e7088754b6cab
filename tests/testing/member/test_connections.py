"""The client and brokers that come and go: it goes on with those it knows, and begins again when nobody is left."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack

import pytest

from coordinatord.testing.member.client import Client
from coordinatord.testing.member.state import MemberSettings
from kafka_wire.errors import ErrorCode
from tests.testing.member.client_stories import until
from tests.testing.member.test_wire import ALL, FIND, METADATA, Broker

JOIN = 11


class Brokers:
    """Some brokers that agree on what the cluster is. `asked[node]`: the API keys of its requests."""

    def __init__(self) -> None:
        self.ports: dict[int, int] = {}
        self.announced: dict[int, int] = {}  # node id -> port, as Metadata has it
        self.coordinator = 0
        self.errors: dict[int, int] = {}  # node id -> the error of its Metadata responses
        self.asked: dict[int, list[int]] = {}
        self.connections: dict[int, list[asyncio.BaseTransport]] = {}
        self.servers: dict[int, asyncio.Server] = {}

    async def start(self, node: int) -> None:
        asked = self.asked[node] = []
        opened = self.connections[node] = []
        brokers = self

        class Node(Broker):
            def __init__(self) -> None:
                super().__init__(ALL, {}, [])

            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                super().connection_made(transport)
                opened.append(transport)

            def answer(self, key: int, version: int, correlation_id: int) -> None:
                asked.append(key)
                super().answer(key, version, correlation_id)

            def coordinator(self) -> tuple[int, int]:
                return brokers.coordinator, brokers.ports[brokers.coordinator]

            def cluster(self) -> dict[int, int]:
                return brokers.announced

            def metadata_error(self) -> int:
                return brokers.errors.get(node, 0)

        server = await asyncio.get_running_loop().create_server(Node, "127.0.0.1", 0)
        self.servers[node] = server
        self.ports[node] = server.sockets[0].getsockname()[1]

    def kill(self, node: int) -> None:
        self.servers[node].close()
        for transport in self.connections[node]:
            if isinstance(transport, asyncio.Transport):
                transport.abort()

    def client(self, *bootstrap: int, **settings: str | int) -> Client:
        made = MemberSettings("g", fetches=False, retry_backoff_ms=10, **settings)  # type: ignore[arg-type]
        client = Client(",".join(f"127.0.0.1:{self.ports[each]}" for each in bootstrap), made)
        client.subscribe(["t"])
        return client


async def _stop(client: Client, polling: asyncio.Task[object], brokers: Brokers) -> None:
    polling.cancel()
    await asyncio.gather(polling, return_exceptions=True)
    client.abort()
    for node in brokers.servers:
        brokers.kill(node)


async def _polls(client: Client) -> None:
    while True:
        await client.poll(30)


async def test_with_the_bootstrap_broker_gone_another_known_one_is_asked() -> None:
    brokers = Brokers()
    await brokers.start(0)
    await brokers.start(1)
    brokers.announced = {0: brokers.ports[0], 1: brokers.ports[1]}
    client = brokers.client(0)
    async with AsyncExitStack() as stack:
        polling = asyncio.ensure_future(_polls(client))
        stack.push_async_callback(_stop, client, polling, brokers)
        await until(lambda: JOIN in brokers.asked[0], "a join at the first coordinator")
        brokers.coordinator, brokers.announced = 1, {1: brokers.ports[1]}
        brokers.kill(0)
        await until(lambda: {FIND, JOIN} <= set(brokers.asked[1]), "a join at the second coordinator")


async def test_with_all_known_brokers_gone_it_begins_again_with_the_bootstrap() -> None:
    """KIP-899: the cluster has moved, and only the bootstrap address knows where to."""
    brokers = Brokers()
    for node in (0, 1, 2):
        await brokers.start(node)
    brokers.announced, brokers.coordinator = {1: brokers.ports[1]}, 1
    client = brokers.client(0)
    async with AsyncExitStack() as stack:
        polling = asyncio.ensure_future(_polls(client))
        stack.push_async_callback(_stop, client, polling, brokers)
        await until(lambda: JOIN in brokers.asked[1], "a join at the first cluster")
        found = brokers.asked[0].count(METADATA)
        brokers.announced, brokers.coordinator = {2: brokers.ports[2]}, 2
        brokers.kill(1)
        await until(lambda: JOIN in brokers.asked[2], "a join at the second cluster")
        assert brokers.asked[0].count(METADATA) > found


async def test_a_broker_may_tell_it_to_begin_again() -> None:
    """KIP-1102."""
    brokers = Brokers()
    await brokers.start(0)
    await brokers.start(1)
    brokers.announced, brokers.coordinator = {1: brokers.ports[1]}, 1
    client = brokers.client(0, metadata_max_age_ms=50)
    async with AsyncExitStack() as stack:
        polling = asyncio.ensure_future(_polls(client))
        stack.push_async_callback(_stop, client, polling, brokers)
        await until(lambda: brokers.asked[1].count(METADATA) >= 2, "metadata of the cluster")
        assert brokers.asked[0].count(METADATA) == 1
        brokers.errors[1] = ErrorCode.REBOOTSTRAP_REQUIRED
        await until(lambda: brokers.asked[0].count(METADATA) > 1, "metadata of the bootstrap server")


async def test_without_that_strategy_it_does_not() -> None:
    brokers = Brokers()
    await brokers.start(0)
    await brokers.start(1)
    brokers.announced, brokers.coordinator = {1: brokers.ports[1]}, 1
    client = brokers.client(0, metadata_recovery_strategy="none")
    async with AsyncExitStack() as stack:
        polling = asyncio.ensure_future(_polls(client))
        stack.push_async_callback(_stop, client, polling, brokers)
        await until(lambda: JOIN in brokers.asked[1], "a join")
        known = len(brokers.connections[0])
        brokers.kill(1)
        await asyncio.sleep(0.5)
        assert len(brokers.connections[0]) == known


async def test_of_two_bootstrap_servers_one_is_enough() -> None:
    brokers = Brokers()
    await brokers.start(0)
    await brokers.start(1)
    brokers.announced = {1: brokers.ports[1]}
    brokers.coordinator = 1
    brokers.kill(0)
    for _ in range(3):  # whichever is first
        client = brokers.client(0, 1)
        polling = asyncio.ensure_future(_polls(client))
        joins = brokers.asked[1].count(JOIN)
        await until(lambda joins=joins: brokers.asked[1].count(JOIN) > joins, "a join")  # type: ignore[misc]
        polling.cancel()
        await asyncio.gather(polling, return_exceptions=True)
        client.abort()
    brokers.kill(1)


async def test_the_bootstrap_connection_is_closed_once_the_nodes_are_known() -> None:
    """And the coordinator's connection is another one than that for data: `Integer.MAX_VALUE - node.id` in Kafka's."""
    brokers = Brokers()
    await brokers.start(0)
    brokers.announced = {0: brokers.ports[0]}
    client = brokers.client(0, metadata_max_age_ms=50)
    async with AsyncExitStack() as stack:
        polling = asyncio.ensure_future(_polls(client))
        stack.push_async_callback(_stop, client, polling, brokers)
        await until(lambda: brokers.asked[0].count(METADATA) >= 3 and JOIN in brokers.asked[0], "metadata, and a join")
        opened = brokers.connections[0]
        await until(lambda: [each.is_closing() for each in opened].count(False) == 2, "two connections")
        assert len(opened) == 3


async def test_warnings_go_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    client = Client("127.0.0.1:9", MemberSettings("g"))
    client.member.heartbeats = True  # as if it had joined and its application had stalled
    client.member.coordinator = 1
    client.member.heartbeat.session.reset(client.now_ms(), 10**6)
    client.member.heartbeat.poll.reset(client.now_ms(), 1)
    client.rejoin()  # a call, after which it looks at its timers
    with caplog.at_level(logging.WARNING, "coordinatord.testing.member"):
        await until(lambda: bool(caplog.messages), "a warning")
    assert caplog.messages[0].startswith("consumer poll timeout has expired. This means")
    client.abort()
