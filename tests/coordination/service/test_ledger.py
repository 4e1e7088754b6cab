"""The rebalance ledger: what a record says of rebalances of every kind, and how much is kept of them."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition

from coordinatord.base.config import Settings
from coordinatord.base.config.address import parse_listeners
from coordinatord.base.observe.logger import captured
from coordinatord.broker.topics.names import LEDGER_TOPIC
from coordinatord.cli import cli
from coordinatord.cli.groups import history_lines, look_up, story
from coordinatord.coordination.group.events import Join, Leave
from coordinatord.coordination.group.result import NO_REASON, Dropped, Joined, Trigger
from coordinatord.coordination.group.states import Cause, Why
from coordinatord.coordination.service import ledger as ledger_module
from coordinatord.coordination.service.groups import GroupActor
from coordinatord.server.daemon.daemon import Daemon as Server
from coordinatord.testing.conform.raw_client import RawClient
from kafka_wire.api.describe_groups import DescribedGroup
from kafka_wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.coordination.group.world import World, subscription
from tests.daemon import Daemon, running

MEMBER_ID_REQUIRED = 79
NO_RECORD = "No rebalance of this group is recorded; records are kept for seven days."
NO_LEDGER = (
    "The cluster has no topic __rebalances. A plain Kafka records no causes of rebalances: `coordinatord exporter` and "
    "`pipeline run` infer them from its offsets log. A coordinatord makes the topic with its first rebalance, unless "
    "rebalance.ledger.enable or rebalance.ledger.topic.enable is false."
)


def last(world: World) -> dict[str, Any]:
    return world.rebalances[-1]


def test_the_first_rebalance_waits_for_more_members() -> None:
    world = World(now_ms=50_000)
    world.stable(2)
    [record] = world.rebalances
    assert record["outcome"] == "completed"
    assert record["trigger"] == {
        "kind": "new member",
        "text": "new member c0-1; client reason: not provided",
        "member_id": "c0-1",
    }
    assert (record["generation_before"], record["generation_after"]) == (0, 1)
    assert (record["began_ms"], record["joined_ms"], record["ended_ms"]) == (50_000, 56_000, 56_000)
    assert record["initial"] is True
    assert (record["members_before"], record["members_after"], record["added"], record["removed"]) == (0, 2, 2, 0)
    assert [(each["member_id"], each["after_ms"], each["is_new"]) for each in record["rejoined"]] == [
        ("c0-1", 0, True),
        ("c1-2", 0, True),
    ]
    assert (record["protocol_type"], record["protocol"], record["leader"]) == ("consumer", "range", "c0-1")
    assert "slowest" not in record, "nobody was late: the delay is the coordinator's"


def test_it_says_who_was_late_and_why_it_all_began() -> None:
    world = World(initial_rebalance_delay_ms=0)
    leader, follower = world.stable(1)[0], None
    follower, _ = world.enter(client_id="late", reason="rolling restart")
    world.advance(700)
    world.join(leader)
    world.advance(40)
    world.sync(leader, {})
    record = last(world)
    assert record["trigger"]["kind"] == "new member"
    assert record["trigger"]["reason"] == "rolling restart"
    assert [(each["member_id"], each["after_ms"]) for each in record["rejoined"]] == [(follower, 0), (leader, 700)]
    assert record["rejoined"][0]["reason"] == "rolling restart"
    assert record["slowest"] == {"phase": "join", "member_id": leader, "after_ms": 700}


def test_of_those_that_came_last_the_first_is_the_slowest() -> None:
    world = World(initial_rebalance_delay_ms=0)
    leader, follower = _two_members(world)
    world.enter(client_id="early")
    world.advance(300)
    world.join(follower)
    world.join(leader)
    world.sync(leader, {})
    assert [each["after_ms"] for each in last(world)["rejoined"]] == [0, 300, 300]
    assert last(world)["slowest"] == {"phase": "join", "member_id": follower, "after_ms": 300}


def test_newcomers_that_come_and_go_leave_nothing() -> None:
    """Else they would fill the memory while the group waits for somebody else."""
    newcomer = Joined("n", None, "app", NO_REASON, is_new=True)
    trigger = Trigger(Why.NEW_MEMBER, "new member n", "n")
    rebalance = ledger_module.Rebalance("g", 0, 1_000, trigger, 1, is_initial=False)
    rebalance.note([newcomer], 1_000)
    assert list(rebalance.newcomers) == ["n"]
    rebalance.note([Dropped("n", None, Cause.LEFT)], 1_010)
    assert not rebalance.newcomers


def test_a_leader_that_takes_long_to_assign() -> None:
    world = World(initial_rebalance_delay_ms=0)
    leader, _ = world.enter()
    world.advance(900)
    world.sync(leader, {})
    assert last(world)["slowest"] == {"phase": "sync", "member_id": leader, "after_ms": 900}


def test_a_member_that_never_comes_makes_all_wait() -> None:
    world = World(initial_rebalance_delay_ms=0)
    leader, absent = _two_members(world)
    world.join(leader, protocols={"range": subscription("u")})
    world.advance(10_000)
    world.sync(leader, {})
    record = last(world)
    assert record["trigger"]["kind"] == "member changed its metadata"
    [dropped] = record["dropped"]
    assert dropped["member_id"] == absent
    # Its session, of ten seconds, ends before the rebalance timeout, of a minute.
    assert (dropped["cause"], dropped["after_ms"]) == ("session expired", 10_000)
    assert (record["members_before"], record["members_after"], record["removed"]) == (2, 1, 1)


def test_a_rebalance_timeout_names_who_did_not_rejoin() -> None:
    world = World(initial_rebalance_delay_ms=0)
    leader, absent = _two_members(world, session_timeout_ms=30_000, rebalance_timeout_ms=5_000)
    world.join(leader, rebalance_timeout_ms=5_000, session_timeout_ms=30_000, reason="subscription")
    world.advance(5_000)
    world.sync(leader, {})
    record = last(world)
    assert record["trigger"]["kind"] == "leader rejoined"
    assert [(each["member_id"], each["cause"]) for each in record["dropped"]] == [
        (absent, "did not rejoin within the rebalance timeout")
    ]
    assert record["slowest"] == {"phase": "join", "member_id": absent, "after_ms": 5_000}
    text = "\n".join(story(record))
    assert f"{absent} did not rejoin within the rebalance timeout" in text
    assert f"slowest: {absent} was waited for and did not come, 5.0 s" in text


def test_a_session_that_ends_and_a_group_that_is_left() -> None:
    world = World(initial_rebalance_delay_ms=0)
    leader, gone = _two_members(world)
    world.advance(9_000)
    world.heartbeat(leader)
    world.advance(1_500)
    assert world.ledger.open(world.group) == {
        "group": "g",
        "trigger": {"kind": "session expired", "text": f"session of member {gone} expired", "member_id": gone},
        "began_ms": 1_010_000,
        "joined_ms": None,
        "initial": False,
        "waits_for": [leader],
    }
    world.leave(identities=(MemberIdentity(leader, None, "done"),))
    record = last(world)
    assert record["outcome"] == "empty"
    assert record["trigger"]["kind"] == "session expired"
    assert [each["cause"] for each in record["dropped"]] == ["session expired", "left"]
    assert record["joined_ms"] is None
    assert "no members were left" in "\n".join(story(record))


def test_a_rebalance_that_another_one_supersedes() -> None:
    world = World(initial_rebalance_delay_ms=0)
    leader, _ = world.enter()
    world.advance(10)
    newcomer, _ = world.enter(client_id="b")
    world.advance(20)
    world.join(leader)
    world.sync(leader, {})
    first, second = world.rebalances
    assert (first["outcome"], first["generation_before"], first["generation_after"]) == ("superseded", 0, 1)
    assert (second["outcome"], second["generation_before"], second["generation_after"]) == ("completed", 1, 2)
    assert second["trigger"]["member_id"] == newcomer
    assert (second["members_before"], second["added"]) == (1, 1)


def test_a_static_member_that_restarts_as_it_was_is_no_rebalance() -> None:
    world = World(initial_rebalance_delay_ms=0)
    world.stable(1, group_instance_id="i")
    count = len(world.rebalances)
    world.join(group_instance_id="i")
    assert len(world.rebalances) == count
    assert world.ledger.open(world.group) is None
    world.join(group_instance_id="i", protocols={"sticky": b"", "range": subscription("t")})
    world.sync(next(iter(world.group.members)), {})
    record = last(world)
    assert record["trigger"]["kind"] == "member changed its metadata"
    assert [each["instance"] for each in record["rejoined"]] == ["i"]
    assert (record["added"], record["removed"], record["members_after"]) == (1, 1, 1)


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "MEMORY_BYTES", 2_000)
    monkeypatch.setattr(ledger_module, "MAX_ENTRIES", 3)
    world = World(initial_rebalance_delay_ms=0)
    leader = world.stable(1)[0]
    for _ in range(20):
        world.join(leader)
        world.sync(leader, {})
    assert len(world.rebalances) == 21
    recent = world.ledger.recent()
    assert 0 < len(recent) < 10
    assert recent[0]["generation_after"] == 21, "the newest first"
    assert world.ledger.recent("another") == []
    newcomers = [world.enter(client_id=f"n{number}")[0] for number in range(5)]
    world.join(leader)
    world.sync(leader, {})
    record = last(world)
    assert [each["member_id"] for each in record["rejoined"]] == newcomers[:3]
    assert record["omitted"] == 3
    assert record["members_after"] == 6


def test_members_that_are_not_named_any_more_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "MAX_ENTRIES", 3)
    world = World()
    leader, *others = world.stable(8)
    world.leave(*others)
    world.join(leader)
    world.sync(leader, {})
    record = last(world)
    assert (record["members_before"], record["removed"], record["members_after"]) == (8, 7, 1)
    assert (len(record["dropped"]), record["omitted"]) == (3, 4)


def test_there_is_one_log_line() -> None:
    world = World(initial_rebalance_delay_ms=0)
    with captured() as lines:
        world.tell_of_rebalance = ledger_module.lines()
        world.ledger = world.new_ledger()
        leader, absent = _two_members(world)
        world.advance(60_000)
    assert len(lines) == len(world.rebalances) > 2
    expired = lines[-1]
    assert expired["event"] == "rebalance"
    assert (expired["group"], expired["outcome"], expired["trigger"]) == ("g", "empty", "session expired")
    assert expired["member"] in (leader, absent)


def test_a_group_without_records_and_one_that_is_gone() -> None:
    dead = DescribedGroup(group_id="g", group_state="Dead")
    assert list(history_lines("g", dead, [])) == ["Group g does not exist now.", NO_RECORD]
    assert list(history_lines("g", dead, None)) == ["Group g does not exist now.", NO_LEDGER]


async def rebalance(port: int, reasons: list[str]) -> None:
    """A group of one member that rejoins for each reason, as a client does it."""
    client = await RawClient.connect("127.0.0.1", port, "app")
    protocols = [JoinGroupRequestProtocol("range", subscription("t"))]

    async def join(member_id: str, reason: str) -> Any:
        request = JoinGroupRequest("orders", 10_000, 10_000, member_id, None, "consumer", protocols, reason)
        return await client.ask(request, 9)

    first = await join("", reasons[0])
    assert first.error_code == MEMBER_ID_REQUIRED
    for reason in reasons:
        joined = await join(first.member_id, reason)
        assignments = [SyncGroupRequestAssignment(first.member_id, b"")]
        sync = SyncGroupRequest("orders", joined.generation_id, first.member_id, None, "consumer", "range", assignments)
        assert (await client.ask(sync, 5)).error_code == 0
    client.close()


@pytest.fixture
def daemon(tmp_path: Path) -> Any:
    with running(tmp_path, {"group.initial.rebalance.delay.ms": "0"}) as it:
        yield it


def test_groups_why_tells_it_in_plain_words(daemon: Daemon) -> None:
    """Over the wire, also after a restart; and any consumer can read the topic."""
    asyncio.run(rebalance(daemon.port, ["deploy 1", "deploy 2"]))
    for _ in range(100):
        if len(look_up(daemon.bootstrap, "orders", 5)[1] or ()) == 2:  # None before the topic is there
            break
        time.sleep(0.1)
    daemon.kill()
    daemon.start()
    state, records = look_up(daemon.bootstrap, "orders", 5)
    assert records is not None
    assert state.group_state in ("Stable", "Empty", "PreparingRebalance")
    assert [record["trigger"].get("reason") for record in records[:2]] == ["deploy 1", "deploy 2"]
    assert [record["generation_after"] for record in records[:2]] == [1, 2]

    run = CliRunner().invoke(cli, ["groups", "why", "orders", "--bootstrap", daemon.bootstrap, "--last", "2"])
    assert run.exit_code == 0, run.output
    assert "deploy 2" in run.output
    lines = CliRunner().invoke(cli, ["groups", "why", "orders", "--bootstrap", daemon.bootstrap, "--json"]).output
    assert [json.loads(line) for line in lines.splitlines()][:2] == records[:2]

    consumer = KafkaConsumer(bootstrap_servers=daemon.bootstrap, auto_offset_reset="earliest")
    try:
        assert "__rebalances" not in consumer.topics()
        admin = KafkaAdminClient(bootstrap_servers=daemon.bootstrap)
        [described] = admin.describe_topics(["__rebalances"])
        admin.close()
        partitions = [each["partition_index"] for each in described["partitions"]]
        consumer.assign([TopicPartition("__rebalances", partition) for partition in partitions])
        consumer.seek_to_beginning()
        found: list[Any] = []
        for _ in range(50):
            polled = consumer.poll(200)
            found += [record for each in polled.values() for record in each]
            if len(found) >= 2:
                break
    finally:
        consumer.close()
    assert {record.key for record in found} == {b"orders"}
    assert [json.loads(record.value)["generation_after"] for record in found[:2]] == [1, 2]


def test_a_stop_loses_no_record(daemon: Daemon) -> None:
    """Not even one that waits for others, nor that of a rebalance which the stop cut off."""
    asyncio.run(rebalance(daemon.port, ["deploy 1"]))
    daemon.stop()
    daemon.start()
    _state, records = look_up(daemon.bootstrap, "orders", 5)
    assert records is not None
    assert records[0]["trigger"]["reason"] == "deploy 1"


async def end_together(data_dir: Path, records: int) -> list[int]:
    """How many records there are after each turn of the loop in which there are more."""
    settings = dataclasses.replace(
        Settings(),
        log_dirs=str(data_dir),
        listeners=parse_listeners("127.0.0.1:0"),
        offsets_topic_num_partitions=3,
        group_initial_rebalance_delay_ms=0,
    )
    server = Server(settings, asyncio.get_running_loop())
    await server.start()
    while server.coordinator.is_loading:  # noqa: ASYNC110  # nobody tells of it
        await asyncio.sleep(0.001)
    request = JoinGroupRequest(protocol_type="consumer", protocols=[JoinGroupRequestProtocol("range", b"")])
    request.session_timeout_ms = request.rebalance_timeout_ms = 10_000
    for number in range(records // 2):
        actor = server.coordinator.actor_for(f"group-{number}")
        assert isinstance(actor, GroupActor)
        # Nobody waits for an answer: it is the step's, and not sent.
        joined = actor.tell(Join(request, object(), "app", "/127.0.0.1", require_known_member_id=False))
        # Two records: this ends the rebalance that waits for a sync, and the one that it makes itself.
        actor.tell(Leave(LeaveGroupRequest(), [MemberIdentity(joined.member_id)]))
    written = [0]
    while written[-1] < records:
        await asyncio.sleep(0)
        total = sum(log.end_offset for (topic, _), log in server.data.logs.items() if topic == LEDGER_TOPIC)
        if total > written[-1]:
            written.append(total)
    server.request_stop("done")
    assert await server.stop() == 0
    return written


def test_many_that_end_together_do_not_keep_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinatord.base.budget.SLICE_S", 0.0)
    written = asyncio.run(asyncio.wait_for(end_together(tmp_path / "data", 40), 90))
    assert written == list(range(41)), "one a turn, if there is time for no more"


def test_groups_why_says_what_is_wrong(daemon: Daemon) -> None:
    unknown = CliRunner().invoke(cli, ["groups", "why", "nobody", "--bootstrap", daemon.bootstrap])
    assert (unknown.exit_code, unknown.output) == (
        1,
        f"coordinatord: Group nobody does not exist now.\ncoordinatord: {NO_LEDGER}\n",
    )
    daemon.stop()
    refused = CliRunner().invoke(cli, ["groups", "why", "orders", "--bootstrap", daemon.bootstrap])
    assert refused.exit_code == 2
    assert refused.output == f"coordinatord: no broker answers at {daemon.bootstrap}: connection refused.\n"
    nonsense = CliRunner().invoke(cli, ["groups", "why", "orders", "--bootstrap", "here"])
    assert nonsense.exit_code == 2
    assert "must be HOST:PORT" in nonsense.output


def test_without_the_ledger(tmp_path: Path) -> None:
    with running(tmp_path, {"rebalance.ledger.enable": "false", "group.initial.rebalance.delay.ms": "0"}) as daemon:
        asyncio.run(rebalance(daemon.port, ["deploy"]))
        run = CliRunner().invoke(cli, ["groups", "why", "orders", "--bootstrap", daemon.bootstrap])
    assert run.exit_code == 0
    assert run.output.startswith("Group orders is ")
    assert run.output.endswith(f"{NO_LEDGER}\n")


def test_without_the_topic(tmp_path: Path) -> None:
    """The log line and the admin page are there; the topic is not."""
    settings = {"rebalance.ledger.topic.enable": "false", "group.initial.rebalance.delay.ms": "0"}
    with running(tmp_path, settings, ["--admin", "127.0.0.1:0"]) as daemon:
        asyncio.run(rebalance(daemon.port, ["deploy"]))
        [listening] = daemon.events("listening")
        with urllib.request.urlopen(f"{listening['admin']}rebalances", timeout=30) as page:
            recent = json.load(page)["recent"]
        run = CliRunner().invoke(cli, ["groups", "why", "orders", "--bootstrap", daemon.bootstrap])
        assert [line["client_reason"] for line in daemon.events("rebalance")][:1] == ["deploy"]
    assert [record["trigger"]["reason"] for record in recent][-1:] == ["deploy"]
    assert run.output.endswith(f"{NO_LEDGER}\n")
    assert list((tmp_path / "data").glob("__rebalances-*")) == []


def _two_members(world: World, **fields: Any) -> tuple[str, str]:
    """A stable group of a leader and a follower, without an initial delay."""
    leader, _ = world.enter(client_id="a", **fields)
    follower, _ = world.enter(client_id="b", **fields)
    world.join(leader, **fields)
    world.sync(leader, {})
    world.sync(follower)
    assert world.group.state.value == "Stable"
    return leader, follower
