"""The members that stand in for recorded clients: what they say is what was recorded, and what follows from it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_wire.api.offset_fetch import OffsetFetchRequest
from kafka_wire.errors import ErrorCode, UnknownApiError
from kafka_wire.headers import read_request_header
from kafka_wire.registry import codec
from kafka_wire.schema import ZERO_UUID
from tests.bench import frames
from tests.bench.day import filling, leading, templates
from tests.bench.day.play import MEMBERS_OF_A_GROUP, PARTITIONS, Group, Play, Window
from tests.bench.day.world import Topic
from tests.bench.generator import WrongAnswer
from tests.bench.rows.day import FEW, MEMBERS, live, per_hour_s, require_complete
from tests.bench.servers import Ours, Server
from tests.clients import recorded

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


# What it costs


def window(**found: float) -> Window:
    asked = Counter({templates.HEARTBEAT: 200, templates.COMMIT: 120})
    whole: dict[str, Any] = {
        "wall_s": 10.0,
        "clients_s": 10.0,
        "cpu_s": 0.5,
        "own_cpu_s": 0.1,
        "asked": asked,
        "records": 1_200,
        "produced": 300,
        "latencies_s": [],
        "late_s": 0.0,
    }
    return Window(**{**whole, **found})


def test_the_figure_is_cpu_per_member_and_hour() -> None:
    assert per_hour_s(window(), 60) == pytest.approx(0.5 / 10 * 3600 / 60)
    assert per_hour_s(window(clients_s=20.0), 60) == pytest.approx(0.5 / 20 * 3600 / 60)


@pytest.mark.parametrize(
    ("lacks", "what"),
    [
        ({"asked": Counter({templates.HEARTBEAT: 170, templates.COMMIT: 120})}, "170 heartbeats"),
        ({"asked": Counter({templates.HEARTBEAT: 200, templates.COMMIT: 100})}, "100 commits"),
        ({"produced": 200, "records": 800}, "200 records produced"),
        ({"records": 1_000}, "1000 records read"),
    ],
)
def test_a_day_that_is_not_whole_has_no_figure(lacks: Mapping[str, Any], what: str) -> None:
    require_complete(window(), 60)
    with pytest.raises(WrongAnswer, match=what):
        require_complete(window(**lacks), 60)


@pytest.mark.full
def test_a_whole_round_is_measured(server: Server) -> None:
    found = asyncio.run(asyncio.wait_for(live(server, 2 * SMALL, SMALL, 1.0, PACE, "round"), 100))
    assert found.steady.asked[templates.FETCH] > 0
    assert found.alone.asked[templates.FETCH] > 0
    assert found.deployment.asked[templates.LEAVE] == 2 * SMALL
    assert per_hour_s(found.steady, 2 * SMALL) > 0


def test_members_make_whole_groups() -> None:
    assert MEMBERS % SMALL == FEW % SMALL == 0


# What a leader decides


def test_ranges() -> None:
    assert leading.ranges(["b", "a", "c"], 8) == {"a": [0, 1, 2], "b": [3, 4, 5], "c": [6, 7]}


def test_cooperative_members_keep_their_share() -> None:
    assert leading.cooperative({"a": [], "b": []}, 4) == {"a": [0, 1], "b": [2, 3]}
    # c's share is not free yet: a and b give it up first
    first = leading.cooperative({"a": [0, 1, 2], "b": [3, 4, 5], "c": []}, 6)
    assert first == {"a": [0, 1], "b": [3, 4], "c": []}
    assert leading.cooperative(first, 6) == {"a": [0, 1], "b": [3, 4], "c": [2, 5]}
    gone = leading.cooperative({"a": [0, 1], "b": [3, 4]}, 7)
    assert sorted(each for has in gone.values() for each in has) == list(range(7))
    assert {len(each) for each in gone.values()} == {3, 4}


def test_what_is_assigned_is_read_as_it_was_written() -> None:
    assert leading.assigned(leading.assignment(3, "topic", [4, 2])) == [2, 4]
    assert leading.assigned(leading.assignment(0, "topic", [])) == []
    assert leading.assigned(b"") == []


# Scripts


@pytest.mark.parametrize("family", FAMILIES)
def test_a_script_is_a_whole_life(family: str) -> None:
    script = templates.script(family)
    assert script.start[0].api_key == templates.API_VERSIONS
    assert not script.join.message.member_id
    assert script.join_with_id.message.member_id
    assert script.lead.message.assignments
    assert not script.follow.message.assignments
    assert templates.OFFSET_FETCH in {each.api_key for each in script.assigned}
    assert len(script.steady) == 3
    for steady in script.steady:
        times = [each.at_ms for each in steady]
        assert times == sorted(times)
        assert templates.FETCH not in {each.api_key for each in steady}
        assert steady[-1].at_ms - steady[0].at_ms < script.steady_ms


def test_recordings_are_where_they_are_read(tmp_path: Path) -> None:
    assert recorded.families(tmp_path) == []
    assert len(FAMILIES) == 4


# What is their own


def member_of(family: str, **own: Any) -> Any:
    """As much of a member as requests are filled in from."""
    topic = Topic("own", b"\1" * 16, 7, PARTITIONS)
    script = templates.script(family)
    known = {"next": {4: 10, 5: 11}, "committed": {4: 10, 5: 5}, "owned": [4, 5], "member_id": "me", "generation": 9}
    session = filling.Session(script.has_sessions)
    return SimpleNamespace(script=script, topic=topic, group=SimpleNamespace(name="g"), session=session, **known | own)


@pytest.mark.parametrize(("family", "committed"), [("java", [4, 5]), ("librdkafka", [5]), ("franz-go", [5])])
def test_some_commit_what_they_have_and_some_what_has_moved(family: str, committed: list[int]) -> None:
    member = member_of(family)
    request = filling.filled(member, member.script.commit)
    assert (request.group_id, request.member_id, request.generation_id_or_member_epoch) == ("g", "me", 9)
    (topic,) = request.topics
    assert [each.partition_index for each in topic.partitions] == committed
    assert [each.committed_offset for each in topic.partitions] == [member.next[each] for each in committed]
    assert (topic.name, topic.topic_id) == (("", b"\1" * 16) if family == "franz-go" else ("own", ZERO_UUID))
    assert topic.partitions[0].committed_metadata == ("me" if family == "franz-go" else "")
    assert topic.partitions[0].committed_leader_epoch == 7


def test_partitions_are_in_the_order_in_which_the_client_named_its() -> None:
    assert filling.in_order([3, 0], [4, 5]) == [5, 4]
    assert filling.in_order([0, 3], [4, 5]) == [4, 5]
    assert filling.in_order([0], [4, 5]) == [4, 5]


def test_a_session_says_only_what_is_new() -> None:
    member = member_of("java")

    def asked(answered: int) -> tuple[int, int, list[tuple[int, int]], list[int]]:
        request = filling.filled(member, member.script.fetch)
        member.session.asked(request)
        member.session.answered(answered)
        named = [(each.partition, each.fetch_offset) for topic in request.topics for each in topic.partitions]
        gone = [partition for topic in request.forgotten_topics_data for partition in topic.partitions]
        return request.session_id, request.session_epoch, named, gone

    assert asked(77) == (0, 0, [(4, 10), (5, 11)], [])
    assert asked(77) == (77, 1, [], [])
    member.next[5] = 12
    assert asked(77) == (77, 2, [(5, 12)], [])
    member.owned = [5]
    assert asked(0) == (77, 3, [], [4])
    assert asked(78) == (0, 0, [(5, 12)], []), "the server had no room for it any more"


def test_a_client_without_sessions_says_all_each_time() -> None:
    member = member_of("librdkafka")
    for _ in range(2):
        request = filling.filled(member, member.script.fetch)
        member.session.asked(request)
        assert (request.session_id, request.session_epoch) == (0, -1)
        assert [each.partition for each in request.topics[0].partitions] == [4, 5]
