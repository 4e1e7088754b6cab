"""The members that stand in for recorded clients: what they say is what was recorded, and what follows from it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from bench import frames
from bench.day import leading, templates
from bench.day.play import MEMBERS_OF_A_GROUP, PARTITIONS, Group, Play, Window
from bench.generator import WrongAnswer
from bench.rows.day import live, per_hour_s
from bench.servers import Ours, Server
from kafka_wire.api.offset_fetch import OffsetFetchRequest
from kafka_wire.errors import ErrorCode, UnknownApiError
from kafka_wire.headers import read_request_header
from kafka_wire.registry import codec
from tests.clients import recorded

pytestmark = pytest.mark.full

FAMILIES = recorded.families()
SMALL = MEMBERS_OF_A_GROUP * len(FAMILIES)
PACE = 8.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Ours.start(tmp_path_factory.mktemp("day"), {"log.flush": "never"})
    yield made
    made.stop()


# What they say

OWN = ("group_id", "member_id", "name", "topic", "topics", "key", "committed_metadata", "coordinator_keys")
"""Names and ids: each has its own."""
UNMOVED = (
    "session_timeout_ms",
    "rebalance_timeout_ms",
    "max_wait_ms",
    "min_bytes",
    "max_bytes",
    "partition_max_bytes",
    "isolation_level",
    "replica_id",
)
Shape = tuple[Any, ...]


def shape(value: Any, name: str) -> Any:
    """A field without what moves or is somebody's own."""
    if isinstance(value, bytes) and len(value) == 16:
        return "id" if any(value) else "no id"
    if isinstance(value, bytes | str) and (name in OWN or isinstance(value, bytes)):
        return bool(value)
    if isinstance(value, int) and not isinstance(value, bool) and name not in UNMOVED:
        return "number" if value >= 0 else value
    return value


def shapes(message: Any) -> Iterator[Shape]:
    """That of the message, and of each that is in it."""
    told: list[Any] = [type(message).__name__]
    for each in fields(message):
        value = getattr(message, each.name)
        if isinstance(value, list):
            for one in value:
                if is_dataclass(one):
                    yield from shapes(one)
                else:
                    yield type(message).__name__, each.name, shape(one, each.name)
        elif is_dataclass(value):
            yield from shapes(value)
        else:
            told.append(shape(value, each.name))
    yield tuple(told)


def said(requests: Iterable[bytes]) -> set[Shape]:
    """What is in these requests, by API and version."""
    found: set[Shape] = set()
    for data in requests:
        api_key, api_version = int.from_bytes(data[:2], "big"), int.from_bytes(data[2:4], "big")
        try:
            used = codec(api_key, api_version)
        except UnknownApiError:
            size = int.from_bytes(data[8:10], "big")
            found.add((api_key, api_version, data[10 + size :]))
            continue
        _, start = read_request_header(data, 0, len(data), used.flexible)
        message = used.decode_request(data, start, len(data))
        if api_key == templates.JOIN:
            for each in message.protocols:
                version, told = leading.subscription(each.metadata)
                each.name = f"{each.name} {version}"
                found |= {(api_key, api_version, *one) for one in shapes(told)}
        found |= {(api_key, api_version, *one) for one in shapes(message)}
    return found


def read_of(group: Group) -> int:
    return sum(offset for each in group.members for offset in each.next.values())


async def lived(server: Server) -> tuple[Play, Window]:
    """All families come, live for a while, and are deployed."""
    play = Play(server, SMALL)
    play.world.pace = PACE
    play.world.sent = []
    try:
        await play.start(over_s=1.0)
        window = await play.window(2.0)
        await play.during(play.deploy(over_s=1.0))
        await play.produce(0)
        # Bounded by the caller; there is nobody who would tell.
        while any(read_of(each) < play.produced + PARTITIONS for each in play.groups):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        await play.shrink(0)
    finally:
        await play.end()
    return play, window


@pytest.fixture(scope="module")
def played(server: Server) -> tuple[Play, Window]:
    return asyncio.run(asyncio.wait_for(lived(server), 100))


@pytest.mark.parametrize("family", FAMILIES)
def test_what_they_say_is_what_was_recorded(played: tuple[Play, Window], family: str) -> None:
    """The same versions and fields; only names, ids, generations, partitions and offsets are others."""
    play, _ = played
    assert play.world.sent is not None
    mine = said(data for name, data in play.world.sent if name == family)
    known = said(each.data for phase in recorded.PHASES for each in recorded.read(family, phase).requests)
    assert mine - known == set()
    assert {api_key for api_key, *_ in mine} >= {
        templates.FETCH,
        templates.METADATA,
        templates.COMMIT,
        templates.OFFSET_FETCH,
        templates.FIND,
        templates.JOIN,
        templates.HEARTBEAT,
        templates.LEAVE,
        templates.SYNC,
        templates.API_VERSIONS,
    }


def test_they_say_it_as_often(played: tuple[Play, Window]) -> None:
    """However slow the machine is: five heartbeats for three commits."""
    _, window = played
    assert 1.0 < window.asked[templates.HEARTBEAT] / window.asked[templates.COMMIT] < 2.5
    assert window.asked[templates.FETCH] > window.asked[templates.HEARTBEAT]
    assert window.records >= window.asked[templates.COMMIT]
    assert window.cpu_s > 0


def test_what_they_have_read_is_committed_when_they_are_gone(server: Server, played: tuple[Play, Window]) -> None:
    """All records that there are, by each group, the last members of which have been deployed."""
    play, _ = played
    (topic,) = play.world.topics.values()
    line = server.line()
    for family in FAMILIES:
        asked = OffsetFetchRequest(groups=[frames.OffsetFetchRequestGroup(f"{topic.name}-{family}", topics=None)])
        (group,) = line.ask(asked).groups
        (found,) = group.topics
        assert found.name == topic.name
        assert len(found.partitions) == PARTITIONS
        assert sum(each.committed_offset for each in found.partitions) == play.produced + PARTITIONS
    line.close()


def test_a_failure_of_one_member_is_the_failure_of_the_day(server: Server) -> None:
    async def disturbed() -> None:
        play = Play(server, SMALL, "disturbed")
        play.world.pace = PACE
        try:
            await play.start(over_s=0.5)
            for each in play.groups[0].members:
                each.member_id = "a stranger"
            await play.window(30.0)
        finally:
            await play.end()

    with pytest.raises(WrongAnswer, match=ErrorCode.UNKNOWN_MEMBER_ID.name):
        asyncio.run(asyncio.wait_for(disturbed(), 60))


def test_a_whole_round_is_measured(server: Server) -> None:
    found = asyncio.run(asyncio.wait_for(live(server, SMALL, 1.0, PACE, "round"), 100))
    assert found.steady.asked[templates.FETCH] > 0
    assert found.deployment.asked[templates.LEAVE] == SMALL
    assert per_hour_s(found.steady, SMALL) > 0
