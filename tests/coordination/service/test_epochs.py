"""Epochs of consumer groups in the ledger: the records, `coordinatord groups why`, the log lines and the admin page."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from coordinatord.base.observe.logger import captured
from coordinatord.cli import cli
from coordinatord.cli.epoch_text import _name as named
from coordinatord.cli.epoch_text import ranges, state_lines
from coordinatord.cli.groups import look_up, story
from coordinatord.coordination.group.events import Unload
from coordinatord.coordination.group.result import Result
from coordinatord.coordination.service import epoch_ledger as epochs_module
from coordinatord.coordination.service import ledger as ledger_module
from coordinatord.testing.conform.raw_client import RawClient
from kafka_wire.api.consumer_group_describe import Assignment, DescribedGroup, Member, TopicPartitions
from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_wire.api.consumer_group_heartbeat import TopicPartitions as Owned
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.records.rebalance_ledger import EPOCH_VERSION, Cause, Why, unreadable
from tests.coordination.group.consumer_world import GROUP_ID, Client, World
from tests.daemon import Daemon, running

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.assignment.interval.ms": "0",
}


class Ledgered(World):
    """A world with a ledger."""

    def __init__(self, **limits: Any) -> None:
        self.records: list[dict[str, Any]] = []
        self.ledger = ledger_module.Ledger(
            7, lambda _group, make: self.records.append(json.loads(make())), ledger_module.lines()
        )
        super().__init__(**{"interval_ms": 0, **limits})

    def apply(self, result: Result) -> None:
        self.ledger.observe(self.group, result, self.now_ms)
        super().apply(result)


def three(world: World) -> list[Client]:
    """A third member joins; the first one takes two seconds to give up, the third 300 ms to come back for it."""
    world.topics.put("orders", 6)
    clients = [Client(world, name, ("orders",)) for name in ("one", "two")]
    for _ in range(4):
        for client in clients:
            client.send()
    clients.append(Client(world, "three", ("orders",), "till"))
    clients[2].send()
    clients[1].send()
    clients[1].send()
    clients[0].send()
    world.advance(2_000)
    clients[0].send()
    world.advance(300)
    clients[2].send()
    return clients


def test_a_record_of_an_epoch() -> None:
    world = Ledgered()
    three(world)
    record = world.records[-1]
    assert unreadable(record) is None
    began_ms = record["began_ms"]
    assert {name: value for name, value in record.items() if not isinstance(value, list)} == {
        "version": EPOCH_VERSION,
        "group": GROUP_ID,
        "group_type": "consumer",
        "node_id": 7,
        "outcome": "completed",
        "trigger": {"kind": Why.NEW_MEMBER, "text": "new static member till (three)", "member_id": "three"},
        "generation_before": 3,
        "generation_after": 4,
        "began_ms": began_ms,
        "joined_ms": None,
        "assigned_ms": began_ms,
        "ended_ms": began_ms + 2_300,
        "initial": False,
        "protocol_type": "consumer",
        "protocol": "uniform",
        "leader": None,
        "members_before": 2,
        "members_after": 3,
        "added": 1,
        "removed": 0,
        "held_up": {"phase": "revoke", "member_id": "one", "client_id": "client", "after_ms": 2_000},
        "gave_up": 2,
        "got": 2,
    }
    assert record["rejoined"] == [
        {"member_id": "three", "after_ms": 0, "client_id": "client", "instance": "till", "is_new": True}
    ]
    assert record["dropped"] == []
    two, one, last = record["members"]
    assert two | {"gave_up": 0} == {
        "member_id": "two", "client_id": "client", "after_ms": 0, "told_after_ms": 0, "revoked_after_ms": 0,
        "gave_up": 0,
    }  # fmt: skip
    assert (one["member_id"], one["after_ms"], one["told_after_ms"], one["revoked_after_ms"]) == (
        "one",
        2_000,
        0,
        2_000,
    )
    assert last["instance"] == "till"
    assert last["after_ms"] == 2_300
    given = sorted(one["gave_up"]["orders"] + two["gave_up"]["orders"])
    assert last["got"] == {"orders": given}
    assert world.ledger.recent(GROUP_ID)[0] == record


def test_members_that_went_and_groups_that_are_left() -> None:
    world = Ledgered()
    _one, _two, three_ = three(world)
    world.heartbeat(three_.member_id, -1, instance_id="till")
    assert world.ledger.open(world.group) == {
        "group": GROUP_ID,
        "group_type": "consumer",
        "trigger": {"kind": Why.MEMBER_LEFT, "text": "static member till (three) left", "member_id": "three"},
        "generation_after": 5,
        "began_ms": world.now_ms,
        "joined_ms": None,
        "assigned_ms": None,
        "initial": False,
        "waits_for": [],
    }
    world.heartbeat("one", 4)
    opened = world.ledger.open(world.group)
    assert opened is not None
    assert opened["waits_for"] == ["two"]
    world.heartbeat("two", 4)
    record = world.records[-1]
    [dropped] = record["dropped"]
    assert (dropped["member_id"], dropped["cause"], dropped["instance"]) == ("three", Cause.LEFT, "till")
    assert sum(map(len, dropped["gave_up"].values())) == record["gave_up"] == record["got"] == 2
    assert (record["members_before"], record["members_after"], record["added"], record["removed"]) == (3, 2, 0, 1)
    world.heartbeat("one", -1)
    world.heartbeat("two", -1)
    assert [each["outcome"] for each in world.records[-2:]] == ["superseded", "empty"]
    assert world.records[-2]["overtaken_by"] == world.records[-1]["trigger"]
    assert world.ledger.open(world.group) is None


def test_a_record_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epochs_module, "MAX_ENTRIES", 2)
    monkeypatch.setattr(epochs_module, "MAX_PARTITIONS", 3)
    world = Ledgered()
    three(world)
    first, record = world.records[0], world.records[-1]
    assert first["got"] == 6, "all are counted"
    assert first["members"][0]["got"] == {"orders": [0, 1, 2]}
    assert first["omitted_partitions"] == 3
    assert (len(record["members"]), record["omitted"]) == (2, 1)


def test_many_that_join_one_after_the_other_have_small_records() -> None:
    """Each of them raises the epoch. No record lists all members for one that came."""
    world = Ledgered(interval_ms=1_000)
    world.topics.put("orders", 400)
    clients = [Client(world, f"m{number}", ("orders",)) for number in range(60)]
    for client in clients[:30]:
        client.send()
    world.advance(1_000)
    for client in clients[30:]:
        client.send()
        world.advance(10)
    assert [each["generation_after"] for each in world.records] == list(range(2, 61))
    for record in world.records[1:]:
        assert record["outcome"] == "superseded"
        assert record["members_after"] == record["generation_after"] - 1
        if record["assigned_ms"] is None:
            assert record["members"] == []
            assert len(json.dumps(record)) < 1_000
    [assigned] = [each for each in world.records[1:] if each["assigned_ms"] is not None]
    assert assigned["not_reached"] == 31 - sum(each["after_ms"] is not None for each in assigned["members"])
    assert {each["member_id"] for each in assigned["members"]} <= {f"m{number}" for number in range(31)}
    assert "not there yet: " in "\n".join(story(assigned))


def test_log_lines() -> None:
    with captured() as lines:
        three(Ledgered())
    line = [each for each in lines if each["event"] == "rebalance"][-1]
    assert (line["group"], line["outcome"], line["trigger"], line["member"]) == (
        GROUP_ID, "completed", Why.NEW_MEMBER, "three",
    )  # fmt: skip
    assert (line["slowest"], line["slowest_phase"], line["slowest_seconds"]) == ("one", "revoke", 2.0)


# In words


def test_an_epoch_in_words() -> None:
    world = Ledgered()
    three(world)
    head, *rest = story(world.records[-1])
    assert head.endswith("  epoch 3 → 4, took 2.3 s")
    assert rest[:3] == [
        "  why: new static member till (three)",
        "  held up by client (one): it took 2.0 s to give up its partitions",
        "  members: 2 before, 3 after (1 added)",
    ]
    assert rest[-1].startswith("  till (three) got orders ")
    assert rest[-1].endswith(", after 2.3 s")


def test_epochs_that_did_not_end_in_words() -> None:
    world = Ledgered(interval_ms=1_000)
    first, *_ = three(world)
    for _ in range(4):
        for member_id in ("two", "three", "one"):
            world.heartbeat(member_id, world.consumer.members[member_id].epoch, topic_partitions=[])
    assert world.consumer.account is None
    world.advance(2_000)
    Client(world, "four", ("orders",)).send()
    world.advance(200)
    first.send()
    world.advance(3_000)
    world.heartbeat("two", -1)
    head, *rest = story(world.records[-1])
    assert head.endswith(" → 5, overtaken after 3.2 s")
    assert rest[:2] == ["  why: new member client (four)", "  overtaken by: member client (two) left"]
    assert rest[2] in [
        f"  held up by {each}: it had not come for its assignment after 3.2 s"
        for each in ("client (two)", "till (three)")
    ]
    assert "  members: 3 before, 4 after (1 added)" in rest, "as it was, before the member left"
    assert rest[-1].startswith("  not there yet: ")
    world.heartbeat("four", -1)
    head, *_ = story(world.records[-1])
    assert head.endswith(" → 6, overtaken after 0 ms, before its target assignment was computed")
    world.advance(7_000)
    world.tell(Unload())
    head, *rest = story(world.records[-1])
    assert head.endswith("cut off after 7.0 s: the coordinator stopped serving the group")


def test_a_group_on_its_way_in_words() -> None:
    def owns(*numbers: int) -> Assignment:
        return Assignment([TopicPartitions(b"", "orders", list(numbers))] if numbers else [])

    def member(
        member_id: str, epoch: int, owned: Assignment, target: Assignment, instance: str | None = None
    ) -> Member:
        return Member(
            member_id=member_id, member_epoch=epoch, instance_id=instance, assignment=owned, target_assignment=target
        )

    members = [
        member("a", 7, owns(0), owns(0)),
        member("b", 6, owns(1, 2, 3), owns(1)),
        member("c", 6, owns(4), owns(4)),
        member("d", 7, owns(), owns(2, 3)),
        member("e", -2, owns(5), owns(5), "till"),
    ]
    state = DescribedGroup(
        group_id="g", group_state="Reconciling", group_epoch=7, assignment_epoch=7, assignor_name="uniform",
        members=members,
    )  # fmt: skip
    assert list(state_lines(state)) == [
        "Group g is Reconciling: 5 members in epoch 7, assigned by uniform (consumer protocol).",
        "  waits for b: it has to give up orders 2-3 (epoch 6)",
        "  waits for c: its next heartbeat (epoch 6)",
        "  waits for d: it is to get orders 2-3",
        "  waits for till (e): it is a static member that has left for now, and keeps its partitions until its session "
        "ends",
    ]
    state.group_epoch = 8
    assert "still that of epoch 7" in list(state_lines(state))[1]
    state.members = []
    state.group_state = "Empty"
    assert list(state_lines(state)) == ["Group g is Empty: no members (consumer protocol, epoch 8)."]


def test_a_client_whose_name_is_somewhere_in_a_random_id_is_named() -> None:
    """Ids of this protocol are random letters; those of classic members begin with the client's id and a dash."""
    assert named("l91avW9CT", None, "a") == "a (l91avW9CT)"
    assert named("l91avW9CT", "left-1", "a") == "left-1 (l91avW9CT)"
    assert named("a-0d7f", None, "a") == "a-0d7f"
    assert named("l91avW9CT", None, "") == "l91avW9CT"


def test_ranges() -> None:
    assert ranges({"b": [1], "a": [3, 1, 2, 7]}) == "a 1-3, 7; b 1"
    assert ranges({"a": list(range(0, 40, 2))}) == "a 0, 2, 4, 6, 8, 10 and 14 more"


# By a daemon


class RawMember:
    """A member of the consumer protocol that does at once what it is told, when it is asked to."""

    def __init__(self, client: RawClient, member_id: str) -> None:
        self.client, self.member_id, self.epoch = client, member_id, 0
        self.owned: list[Owned] = []

    async def beat(self, epoch: int | None = None) -> Any:
        request = ConsumerGroupHeartbeatRequest("orders", self.member_id, self.epoch if epoch is None else epoch)
        if self.epoch == 0:
            request.rebalance_timeout_ms, request.subscribed_topic_names = 30_000, ["orders"]
        request.topic_partitions = self.owned
        answer = await self.client.ask(request, 1)
        assert not answer.error_code, answer
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = [Owned(each.topic_id, each.partitions) for each in answer.assignment.topic_partitions]
        return answer


async def play(port: int, *, until: str = "") -> None:
    client = await RawClient.connect("127.0.0.1", port, "app")
    await client.ask(CreateTopicsRequest([CreatableTopic("orders", 6, 1, [], [])], timeout_ms=1000), 7)
    one, two = RawMember(client, "one"), RawMember(client, "two")
    for member in (one, one, two, one, one, two, two):
        await member.beat()
    if until != "reconciling":
        await two.beat(-1)
        await one.beat()
        await one.beat()
    else:
        await RawMember(client, "three").beat()
    client.close()


def wait_for(found: Callable[[], list[Any] | None], count: int) -> list[Any]:
    """What is found as soon as it is `count` items; None, before the topic is there, is no item."""
    for _ in range(600):
        if len(found() or ()) >= count:
            break
        time.sleep(0.1)
    return found() or []


@pytest.fixture
def daemon(tmp_path: Path) -> Any:
    with running(tmp_path, SETTINGS, ["--admin", "127.0.0.1:0"]) as it:
        yield it


def test_groups_why_of_a_consumer_group(daemon: Daemon) -> None:
    asyncio.run(play(daemon.port))
    records = wait_for(lambda: look_up(daemon.bootstrap, "orders", 9)[1], 3)
    assert [(each["generation_after"], each["trigger"]["kind"], each["outcome"]) for each in records] == [
        (2, Why.NEW_MEMBER, "completed"), (3, Why.NEW_MEMBER, "completed"), (4, Why.MEMBER_LEFT, "completed"),
    ]  # fmt: skip
    assert records[2]["members"][0]["got"] == records[2]["dropped"][0]["gave_up"]
    run = CliRunner().invoke(cli, ["groups", "why", "orders", "--bootstrap", daemon.bootstrap])
    assert run.output.startswith(
        "Group orders is Stable: 1 member in epoch 4, assigned by uniform (consumer protocol)."
    )
    assert "epoch 3 → 4, took" in run.output
    assert "why: member app (two) left" in run.output
    lines = CliRunner().invoke(cli, ["groups", "why", "orders", "--bootstrap", daemon.bootstrap, "--json"]).output
    assert [json.loads(line) for line in lines.splitlines()] == records
    told = daemon.events("rebalance", group="orders")
    assert [each["trigger"] for each in told] == [Why.NEW_MEMBER, Why.NEW_MEMBER, Why.MEMBER_LEFT]
    [listening] = daemon.events("listening")
    with urllib.request.urlopen(f"{listening['admin']}rebalances?group=orders", timeout=30) as page:
        assert json.load(page) == {"under_way": [], "recent": records[::-1]}


@pytest.mark.parametrize("is_recorded", ["true", "false"])
def test_metrics_count_epochs_by_cause(tmp_path: Path, is_recorded: str) -> None:
    """With and without a ledger. Kafka counts no epochs of members that went, and completes only classic groups."""
    settings = {**SETTINGS, "rebalance.ledger.enable": is_recorded}
    with running(tmp_path, settings, ["--admin", "127.0.0.1:0"]) as daemon:
        asyncio.run(play(daemon.port))
        [listening] = daemon.events("listening")
        with urllib.request.urlopen(f"{listening['admin']}metrics", timeout=30) as page:
            lines = page.read().decode().splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    counted = {name: float(value) for name, value in values.items() if name.startswith("coordinatord_rebalances_total")}
    assert counted == {
        'coordinatord_rebalances_total{protocol="consumer",trigger="new member"}': 2,
        'coordinatord_rebalances_total{protocol="consumer",trigger="member left"}': 1,
    }
    assert float(values["kafka_server_group_coordinator_metrics_consumer_group_rebalance_count"]) == 2
    assert float(values["kafka_server_group_coordinator_metrics_group_completed_rebalance_count"]) == 0


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_restart_in_the_middle_of_an_epoch(daemon: Daemon, how: str) -> None:
    """The epoch has a record of what a stop cut off, and one of the rest, which says so."""
    asyncio.run(play(daemon.port, until="reconciling"))
    if how == "kill":
        wait_for(lambda: look_up(daemon.bootstrap, "orders", 9)[1], 2)
    daemon.kill() if how == "kill" else daemon.stop()
    daemon.start()

    async def go_on() -> None:
        client = await RawClient.connect("127.0.0.1", daemon.port, "app")
        for member_id in ("one", "two", "three"):
            member = RawMember(client, member_id)
            await member.beat()  # with epoch 0, as if it had been fenced: it owns nothing
        for member_id in ("one", "two", "three"):
            member = RawMember(client, member_id)
            await member.beat()
            await member.beat()
        client.close()

    asyncio.run(go_on())
    records = wait_for(lambda: look_up(daemon.bootstrap, "orders", 9)[1], 4 if how == "stop" else 3)
    *_, last = records
    assert (last["generation_after"], last["outcome"], last.get("resumed")) == (4, "completed", True)
    assert last["trigger"]["kind"] == Why.LOADED
    before = records[:-1]
    assert [each["generation_after"] for each in before] == ([2, 3, 4] if how == "stop" else [2, 3])
    if how == "stop":
        assert (before[-1]["outcome"], before[-1]["trigger"]["kind"]) == ("stopped", Why.NEW_MEMBER)
