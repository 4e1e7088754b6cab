"""The client against our daemon, over sockets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coordinatord.testing.member.client import Client, MemberError
from coordinatord.testing.member.state import MemberSettings
from kafka_wire.errors import ErrorCode
from tests.daemon import Daemon, running
from tests.testing.member.client_stories import STORIES, prepare

SETTINGS = {
    "group.initial.rebalance.delay.ms": "100",
    "offsets.topic.num.partitions": "4",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "100",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(tmp_path_factory.mktemp("daemon"), SETTINGS) as daemon:
        yield daemon


@pytest.mark.parametrize(
    "story", [pytest.param(name, marks=[pytest.mark.full] if "dead" in name else []) for name in STORIES]
)
async def test_story(broker: Daemon, story: str) -> None:
    await STORIES[story](broker.bootstrap, story)


async def test_one_that_is_fenced_is_told(broker: Daemon) -> None:
    prepare(broker.bootstrap, "fenced", 0)
    settings = MemberSettings("fenced", "i", heartbeat_interval_ms=50, session_timeout_ms=6_000)
    async with Client(broker.bootstrap, settings) as old, Client(broker.bootstrap, settings) as new:
        old.subscribe(["fenced"])
        while not old.assignment:
            await old.poll(0.1)
        new.subscribe(["fenced"])
        while not new.assignment:
            await new.poll(0.1)
        with pytest.raises(MemberError) as caught:
            await old.poll(10)
        assert caught.value.error is ErrorCode.FENCED_INSTANCE_ID
        await new.poll(0)


async def test_nobody_listens() -> None:
    async with Client("127.0.0.1:9", MemberSettings("g")) as client:
        client.subscribe(["t"])
        assert await client.poll(0.3) == {}
        assert len(client.member.partitions) == 0


async def test_an_address_without_a_port() -> None:
    with pytest.raises(ValueError, match="host:port"):
        Client("localhost", MemberSettings("g"))
