"""Accounts of epochs: why each epoch rose, who had to give up and got what, and who held it up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coordinatord.coordination.group import events
from coordinatord.coordination.group.consumer.epoch_record import HEARTBEAT, REVOKE, Account
from coordinatord.coordination.group.result import NO_REASON, Result
from coordinatord.coordination.group.states import Cause, Outcome, Why
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafka_wire.records.consumer_group import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from tests.coordination.group.consumer_world import GROUP_ID, Client, World
from tests.coordination.group.test_consumer_groups import Program
from tests.coordination.group.world import subscription
from tests.support.rows import first_quick

Targets = dict[str, set[tuple[bytes, int]]]


def a_world(partitions: int = 4, **limits: Any) -> World:
    world = World(**{"interval_ms": 0, **limits})
    world.topics.put("a", partitions)
    return world


def settle(*clients: Client) -> None:
    """Everybody heartbeats until all have what they are to have."""
    for _ in range(6):
        for client in clients:
            client.send()
    assert clients[0].world.consumer.account is None


def members(world: World, *names: str) -> list[Client]:
    clients = [Client(world, name, ("a",)) for name in names]
    settle(*clients)
    world.accounts.clear()
    return clients


def the_only(world: World) -> Account:
    [account] = world.accounts
    return account


def numbers(target: dict[bytes, frozenset[int]]) -> list[int]:
    return sorted(partition for partitions in target.values() for partition in partitions)


def classic_join(world: World, member_id: str, reply_to: str, topic: str = "a", **fields: Any) -> Any:
    protocols = [JoinGroupRequestProtocol("range", subscription(topic))]
    request = JoinGroupRequest(GROUP_ID, 10_000, 20_000, member_id, None, "consumer", protocols, NO_REASON)
    for name, value in fields.items():
        setattr(request, name, value)
    world.tell(events.Join(request, reply_to, "classic", "/127.0.0.1", require_known_member_id=False))
    return world.answers[reply_to]


# What raises an epoch


def test_the_first_member_and_the_next_one() -> None:
    world = a_world()
    first = Client(world, "m1", ("a",))
    settle(first)
    account = the_only(world)
    assert account.trigger == (Why.NEW_MEMBER, "new member m1", "m1", NO_REASON)
    assert (account.epoch, account.outcome, account.is_initial, account.members_before) == (2, "completed", True, 0)
    assert (numbers(account.got("m1")), numbers(account.gave_up("m1"))) == ([0, 1, 2, 3], [])
    settle(first, Client(world, "m2", ("a",), "till"))
    account = world.accounts[-1]
    assert account.trigger.text == "new static member till (m2)"
    assert (account.members_before, list(account.members), account.is_initial) == (1, ["m1", "m2"], False)
    assert numbers(account.gave_up("m1")) == numbers(account.got("m2")) == [2, 3]
    assert [joined.member_id for joined in account.joined] == ["m2"]


def test_a_member_that_leaves() -> None:
    world = a_world()
    first, second = members(world, "m1", "m2")
    world.heartbeat(second.member_id, -1)
    settle(first)
    account = the_only(world)
    assert account.trigger == (Why.MEMBER_LEFT, "member m2 left", "m2", NO_REASON)
    assert [(each.member_id, each.cause) for each in account.dropped] == [("m2", Cause.LEFT)]
    assert numbers(account.gave_up("m2")) == numbers(account.got("m1")) == [2, 3]
    assert (account.members_before, list(account.members)) == (2, ["m1"])
    world.heartbeat(first.member_id, -1)
    assert (world.accounts[-1].outcome, world.accounts[-1].epoch) == (Outcome.EMPTY, account.epoch + 1)
    assert world.consumer.account is None


def test_sessions_that_expire_and_partitions_that_are_not_given_up() -> None:
    world = a_world()
    first, _second = members(world, "m1", "m2")
    for _ in range(5):
        world.advance(10_000)
        first.send()
    account = world.accounts[0]
    assert account.trigger == (Why.SESSION_EXPIRED, "session of member m2 expired", "m2", NO_REASON)
    world.accounts.clear()
    Client(world, "m3", ("a",)).send()
    world.heartbeat("m1", first.epoch)
    for _ in range(4):
        world.advance(10_000)
        if "m1" in world.consumer.members:
            world.heartbeat("m1", first.epoch)  # and keeps what it has
    overtaken = world.accounts[0]
    assert overtaken.trigger.kind == Why.NEW_MEMBER
    assert (overtaken.outcome, overtaken.overtaken_by) == (Outcome.SUPERSEDED, world.consumer.account.trigger)
    assert overtaken.held_up is not None
    assert (overtaken.held_up.phase, overtaken.held_up.member_id, overtaken.held_up.waited_ms) == (REVOKE, "m1", 30_000)
    assert world.consumer.account.trigger == (
        Why.NOT_REVOKED,
        "member m1 did not give up its partitions within its rebalance timeout",
        "m1",
        NO_REASON,
    )


def test_another_subscription() -> None:
    world = a_world()
    world.topics.put("b", 1)
    [first] = members(world, "m1")
    first.topics = ("a", "b")
    first.send(full=True)
    account = the_only(world)
    assert account.trigger == (
        Why.SUBSCRIPTION_CHANGED, "member m1 subscribes to a, b (before: a)", "m1", NO_REASON,
    )  # fmt: skip
    assert account.names == {topic.topic_id: name for name, topic in world.topics.by_name.items()}
    assert (account.began_ms, account.assigned_ms, account.ended_ms) == (world.now_ms,) * 3
    assert account.held_up is None, "it all happened within one heartbeat"


def test_topics_that_come_grow_go_and_are_made_anew() -> None:
    world = a_world(1)
    [first] = members(world, "m1")
    first.topics = ("a", "b")
    first.send(full=True)

    def text() -> str:
        settle(first)
        trigger = world.accounts[-1].trigger
        assert (trigger.kind, trigger.member_id) == (Why.TOPICS_CHANGED, "")
        return trigger.text

    world.topics.put("a", 3)
    assert text() == "topic a has 3 partitions (before: 1)"
    world.topics.put("b", 1)
    assert text() == "topic b was created with 1 partition"
    world.topics.delete("b")
    world.topics.put("b", 2)
    assert text() == "topic b was deleted and created again with 2 partitions"
    world.topics.delete("b")
    assert text() == "topic b was deleted"
    assert numbers(world.accounts[-1].gave_up("m1")) == [0, 1]
    assert "b" in world.accounts[-1].names.values(), "the record can still name it"
    world.restart()
    world.topics.put("a", 4)
    assert text() == "the subscribed topics are others than before the coordinator loaded the group"


def test_expressions() -> None:
    world = a_world(1)
    world.join("m1", subscribed_topic_names=None, subscribed_topic_regex="a.*")
    world.advance(10)
    assert world.consumer.account.trigger == (Why.NEW_MEMBER, "new member m1", "m1", NO_REASON)
    assert world.consumer.account.members_before == 0, "it was no member of an epoch before"
    world.heartbeat("m1", 0, rebalance_timeout_ms=1, subscribed_topic_regex="a.*", topic_partitions=[])
    world.topics.put("ab", 1)
    world.topics.put("ac", 1)
    world.advance(20_000)
    epoch = world.consumer.members["m1"].epoch
    world.heartbeat("m1", epoch)
    world.advance(10)
    assert world.consumer.account.trigger == (
        Why.REGEX_RESOLVED, "expression a.* matches ab, ac now", "", NO_REASON,
    )  # fmt: skip
    world.heartbeat("m1", epoch)
    world.advance(20_000)
    say = {"subscribed_topic_regex": "x.*", "topic_partitions": []}
    world.heartbeat("m1", world.consumer.members["m1"].epoch, **say)
    world.advance(10)
    assert world.consumer.account.trigger.text == "member m1 subscribes to expression x.* (before: expression a.*)"
    world.heartbeat("m1", world.consumer.members["m1"].epoch)
    assert world.consumer.account is None
    world.topics.put("x1", 1)
    world.heartbeat("m1", world.consumer.members["m1"].epoch, subscribed_topic_regex="x1|x2")
    world.advance(20_000)
    world.heartbeat("m1", world.consumer.members["m1"].epoch)
    world.advance(10)
    assert world.consumer.account.trigger == (
        Why.SUBSCRIPTION_CHANGED,
        "member m1 subscribes to expression x1|x2 (before: expression x.*)",
        "m1",
        NO_REASON,
    )


def test_static_members_that_leave_for_now_raise_nothing_and_hold_things_up() -> None:
    world = a_world()
    first, second = Client(world, "m1", ("a",)), Client(world, "m2", ("a",), "till")
    settle(first, second)
    world.accounts.clear()
    world.heartbeat("m2", -2, instance_id="till")
    assert (world.accounts, world.consumer.account) == ([], None)
    third = Client(world, "m3", ("a",))
    for _ in range(4):
        first.send()
        third.send()
    world.advance(3_000)
    assert "m2" in world.consumer.account.waits
    Client(world, "m4", ("a",)).send()
    overtaken = the_only(world)
    assert overtaken.held_up is not None
    assert (overtaken.held_up.member_id, overtaken.held_up.is_away) == ("m2", True)
    back = Client(world, "m5", ("a", "b"), "till")
    back.send()
    assert world.consumer.account.trigger == (
        Why.STATIC_MEMBER_RESTARTED,
        "static member till came back as m5 and subscribes to a, b (before: a)",
        "m5",
        NO_REASON,
    )
    assert [joined.member_id for joined in world.consumer.account.joined] == ["m5"]
    assert world.consumer.account.members_before == 4
    assert world.consumer.account.dropped == []


def test_classic_members_and_both_ways_of_migration() -> None:
    world = a_world()
    classic_join(world, "", "r1")
    [classic_id] = world.group.members
    assignments = [SyncGroupRequestAssignment(classic_id, b"")]
    sync = SyncGroupRequest(GROUP_ID, 1, classic_id, None, "consumer", "range", assignments)
    world.tell(events.Sync(sync, "s1"))
    world.join("m1", "a")
    account = world.consumer.account
    assert account.trigger == (
        Why.CONVERTED, "new member m1 uses the consumer protocol, and the group was a classic one", "m1", NO_REASON,
    )  # fmt: skip
    assert (account.members_before, account.epoch) == (1, 2)
    joined = classic_join(world, "", "r2", "a")
    assert world.consumer.account.trigger.kind == Why.NEW_MEMBER
    assert world.consumer.account.trigger.text == f"new member {joined.member_id} with the classic protocol"
    world.tell(events.Leave(LeaveGroupRequest(), [MemberIdentity(joined.member_id)]))
    assert world.consumer.account.trigger == (
        Why.MEMBER_LEFT, f"member {joined.member_id} left", joined.member_id, NO_REASON,
    )  # fmt: skip
    world.heartbeat("m1", world.consumer.members["m1"].epoch)
    epoch = world.consumer.members[classic_id].epoch
    world.tell(HeartbeatRequest(GROUP_ID, epoch, classic_id))
    world.accounts.clear()
    world.heartbeat("m1", -1)
    assert world.group.consumer is None
    overtaken = the_only(world)
    assert (overtaken.outcome, list(overtaken.members)) == (Outcome.SUPERSEDED, [classic_id, "m1"])
    assert overtaken.overtaken_by is not None
    assert overtaken.overtaken_by.kind == Why.MEMBER_LEFT


def test_a_static_member_that_comes_back_upgrades_a_group_in_the_middle_of_a_rebalance() -> None:
    """Nobody owns anything there, and its subscription is the same. As in Kafka 4.3 only the next change mends it."""
    world = a_world()
    first = classic_join(world, "", "r1", group_instance_id="till")
    assert first.generation_id == 1
    back = Client(world, "m1", ("a",), "till")
    for _ in range(3):
        back.send()
    assert (world.consumer.epoch, world.consumer.target["m1"], world.accounts) == (1, {}, [])
    assert world.consumer.assignment_timestamp_ms == 0
    settle(back, Client(world, "m2", ("a",)))
    assert sorted(numbers(world.consumer.target["m1"]) + numbers(world.consumer.target["m2"])) == [0, 1, 2, 3]


@pytest.mark.parametrize(("what", "kind"), [("join", Why.NOT_REJOINED), ("sync", Why.NOT_SYNCED)])
def test_classic_members_that_do_not_come(what: str, kind: str) -> None:
    world = a_world()
    [first] = members(world, "m1")
    joined = classic_join(world, "", "r", session_timeout_ms=60_000)
    if what == "join":
        world.tell(events.Sync(SyncGroupRequest(GROUP_ID, joined.generation_id, joined.member_id), "s", False))
        for _ in range(3):
            first.send()
        world.tell(HeartbeatRequest(GROUP_ID, joined.generation_id, joined.member_id))
    for _ in range(5):
        world.advance(5_000)
        first.send()
    assert kind in [each.trigger.kind for each in world.accounts]


# Who held it up


def three_of_four() -> tuple[World, Client, Client, Client]:
    """A third member comes to two; one of these has to give up a partition for it, the other one nothing."""
    world = a_world()
    first, second = members(world, "m1", "m2")
    third = Client(world, "m3", ("a",))
    third.send()
    account = world.consumer.account
    giver, other = (first, second) if account.gave_up("m1") else (second, first)
    assert numbers(account.gave_up(giver.member_id)) == numbers(account.got("m3"))
    assert not account.gave_up(other.member_id)
    return world, giver, other, third


def held_up(world: World) -> tuple[str, str, int]:
    told = the_only(world).held_up
    assert told is not None
    return told.phase, told.member_id, told.waited_ms


def test_who_is_slow_to_give_up() -> None:
    world, giver, other, third = three_of_four()
    other.send()
    world.advance(1_000)
    giver.send()
    world.advance(4_000)
    giver.send()  # has given up
    world.advance(2_000)
    third.send()
    assert held_up(world) == (REVOKE, giver.member_id, 5_000)
    account = the_only(world)
    assert account.told == {giver.member_id: account.began_ms + 1_000}
    assert account.revoked == {giver.member_id: account.began_ms + 5_000}
    assert [at_ms - account.began_ms for at_ms in account.reached.values()] == [0, 5_000, 7_000]


def test_who_is_slow_to_ask_for_what_is_free() -> None:
    world, giver, other, third = three_of_four()
    other.send()
    giver.send()
    world.advance(1_000)
    giver.send()
    world.advance(8_000)
    third.send()
    assert held_up(world) == (HEARTBEAT, "m3", 8_000), "since it is free"


def test_who_is_slow_and_waits_for_nobody() -> None:
    world, giver, other, third = three_of_four()
    giver.send()
    world.advance(5_000)
    giver.send()
    third.send()
    world.advance(4_000)
    other.send()
    assert held_up(world) == (HEARTBEAT, other.member_id, 9_000), "nobody gave up anything for it"


def test_who_is_slow_to_give_up_what_nobody_gets() -> None:
    world = a_world()
    first, second = members(world, "m1", "m2")
    world.topics.delete("a")
    first.send()
    first.send()
    world.advance(1_000)
    second.send()
    world.advance(3_000)
    second.send()
    assert held_up(world) == (REVOKE, "m2", 4_000)


def test_the_assignments_own_delay_holds_nobody_responsible() -> None:
    world = a_world(interval_ms=1_000)
    first = Client(world, "m1", ("a",))
    first.send()
    second = Client(world, "m2", ("a",))
    second.send()
    world.advance(400)
    assert world.consumer.account.assigned_ms is None
    Client(world, "m3", ("a",)).send()
    overtaken = world.accounts[-1]
    assert (overtaken.outcome, overtaken.assigned_ms, overtaken.held_up) == (Outcome.SUPERSEDED, None, None)
    assert overtaken.got("m2") == {}


# Restarts


def test_a_load_in_the_middle_opens_an_account_of_the_rest() -> None:
    world = a_world()
    first, second = members(world, "m1", "m2")
    third = Client(world, "m3", ("a",))
    third.send()
    world.advance(500)
    before = world.consumer.account
    world.restart()
    account = world.consumer.account
    assert (account.is_resumed, account.epoch, account.began_ms) == (True, before.epoch, before.assigned_ms)
    assert account.trigger.kind == Why.LOADED
    assert {each: account.gave_up(each) for each in ("m1", "m2", "m3")} == {
        each: before.gave_up(each) for each in ("m1", "m2", "m3")
    }
    shares = [share for targets in account.changed.values() for target in targets for share in target.values()]
    assert shares
    assert all(isinstance(share, frozenset) for share in shares), "what a compiled build insists on"
    settle(first, second, third)
    assert (the_only(world).is_resumed, the_only(world).outcome) == (True, Outcome.COMPLETED)
    world.restart()
    assert world.consumer.account is None, "the group is stable"


def test_unloading_cuts_an_account_off() -> None:
    world = a_world()
    first, _ = members(world, "m1", "m2")
    Client(world, "m3", ("a",)).send()
    first.send()
    world.tell(events.Unload())
    assert the_only(world).outcome == Outcome.STOPPED
    assert set(the_only(world).members) == {"m1", "m2", "m3"}


# All of it, on random programs


class Watched(World):
    """Keeps, from the log alone, how targets changed with each epoch, and compares the accounts with that."""

    def __init__(self, **limits: Any) -> None:
        super().__init__(**limits)
        self.life = 0
        self.epoch = 1
        self.target: Targets = {}
        self.base: Targets = {}  # the target of the epoch before
        self.rises: list[tuple[int, int]] = []
        self.changes: dict[tuple[int, int], tuple[Targets, Targets]] = {}  # (gave up, got) by member
        self.told: list[tuple[int, Account]] = []
        self.cut_off = 0

    def apply(self, result: Result) -> None:
        replaced = [each for each in result.changes if getattr(each, "cause", "") == Cause.REPLACED]
        gone: Targets = {}
        life = self.life
        for key, value in result.records:
            if type(key) is ConsumerGroupMetadataKey:
                self._epoch(value, gone)
            elif type(key) is ConsumerGroupTargetAssignmentMemberKey and value is not None:
                parts = {(each.topic_id, number) for each in value.topic_partitions for number in each.partitions}
                if replaced and key.member_id not in self.target:
                    old_id = replaced[0].member_id
                    for targets in (self.base, *self.changes.get((self.life, self.epoch), ())):
                        if old_id in targets:
                            targets[key.member_id] = targets.pop(old_id)
                self.target[key.member_id] = parts
            elif type(key) is ConsumerGroupMemberMetadataKey and value is None:
                self.target.pop(key.member_id, None)
                if not any(each.member_id == key.member_id for each in replaced):
                    gone[key.member_id] = self.base.pop(key.member_id, set())
            elif type(key) is ConsumerGroupTargetAssignmentMetadataKey and value is not None:
                everybody = self.base.keys() | self.target.keys()
                gave, got = self.changes[self.life, value.assignment_epoch]
                for each in everybody:
                    old, new = self.base.get(each, set()), self.target.get(each, set())
                    gave[each], got[each] = old - new, new - old
                self.base = {each: set(parts) for each, parts in self.target.items()}
        self.told += [(life, account) for account in result.ended]
        super().apply(result)

    def _epoch(self, value: Any, gone: Targets) -> None:
        if value is None:
            self.life, self.epoch, self.target, self.base = self.life + 1, 1, {}, {}
        elif value.epoch > self.epoch:
            self.epoch = value.epoch
            self.rises.append((self.life, value.epoch))
            self.changes[self.life, value.epoch] = (dict(gone), {})


class Story(Program):
    """A program in which clients subscribe by expressions, too, and the daemon is not restarted unless told."""

    def __init__(self, seed: int, *, restarts: bool) -> None:
        super().__init__(seed)
        self.restarts = restarts
        interval_ms = self.world.limits.interval_ms
        self.world = Watched(interval_ms=interval_ms)
        self.world.topics.put("a", self.chance.randint(1, 8))

    def restart(self) -> None:
        if self.restarts:
            super().restart()
            return
        if self.world.group.consumer is None or not self.world.consumer.members:
            return
        member_id = self.chance.choice(list(self.world.consumer.members))
        expression = self.chance.choice(["a|b", "b.*", ""])
        self.world.heartbeat(member_id, self.world.consumer.members[member_id].epoch, subscribed_topic_regex=expression)


@pytest.mark.parametrize("seed", first_quick(range(14), 5))
def test_each_rise_has_one_account_and_the_shares_are_the_difference_of_the_targets(seed: int) -> None:
    program = Story(seed, restarts=False)
    program.run(250)
    world = program.world
    assert isinstance(world, Watched)
    world.tell(events.Unload())
    told = [(life, account.epoch) for life, account in world.told]
    assert told == world.rises, "one for each, in order"
    for life, account in world.told:
        gave, got = world.changes[life, account.epoch]
        assert shares(account, account.gave_up, gave) == filled(gave)
        assert shares(account, account.got, got) == filled(got)
        assert account.began_ms <= (account.assigned_ms or account.began_ms) <= account.ended_ms
        assert account.assigned_ms is not None or (account.outcome != "completed" and not got)
        if account.outcome == "completed":
            assert account.reached.keys() == account.members.keys()
            assert not account.waits
        if account.held_up is not None:
            assert account.assigned_ms is not None
            assert 0 <= account.held_up.waited_ms <= account.ended_ms - account.assigned_ms


@pytest.mark.parametrize("seed", range(30, 35))
def test_restarts_lose_no_epoch_but_the_cause_of_one_that_was_under_way(seed: int) -> None:
    program = Story(seed, restarts=True)
    program.run(250)
    world = program.world
    assert isinstance(world, Watched)
    world.tell(events.Unload())
    told = [(life, account.epoch) for life, account in world.told]
    assert len(told) == len(set(told)), "none twice"
    assert set(told) <= set(world.rises)
    resumed = [account for _, account in world.told if account.is_resumed]
    assert all(account.trigger.kind == Why.LOADED for account in resumed)
    assert all(account.trigger.kind != Why.LOADED for _, account in world.told if not account.is_resumed)


def shares(
    account: Account, share: Callable[[str], dict[bytes, frozenset[int]]], members: Targets
) -> dict[str, set[tuple[bytes, int]]]:
    everybody = {*members, *account.changed, *account.departed, *account.members}
    return filled({each: {(t, p) for t, parts in share(each).items() for p in parts} for each in everybody})


def filled(targets: Targets) -> Targets:
    return {each: parts for each, parts in targets.items() if parts}
