"""Load and unload: what comes back from the log, what does not, and what happens to those who wait."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinatord.coordination.group import events
from coordinatord.coordination.group.classic.step import restore, step
from coordinatord.coordination.group.describe import describe
from coordinatord.coordination.group.replay import replay
from coordinatord.coordination.group.result import JOIN, SESSION, Dropped, TimerKey
from coordinatord.coordination.group.state import Group
from coordinatord.coordination.group.states import EMPTY, PREPARING_REBALANCE, Cause
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.join_group import JoinGroupResponse
from kafka_wire.errors import ErrorCode
from kafka_wire.records.keys import decode_key, decode_value, encode_key, encode_value
from kafka_wire.records.offsets import GroupMetadataKey, GroupMetadataValue, MemberMetadata, OffsetCommitKey
from tests.coordination.group.world import World, subscription
from tests.protocol.arbitrary import messages


def test_a_stable_group_comes_back_with_fresh_sessions() -> None:
    world = World()
    leader, follower = world.stable(2)
    world.commit(leader, 1)
    world.advance(9_000)
    world.restart()
    group = world.group
    assert group.state.value == "Stable"
    assert (group.generation_id, group.leader_id, group.protocol_name) == (1, leader, "range")
    assert group.members[follower].assignment == f"for {follower}".encode()
    assert world.heartbeat(leader, 1) == world.heartbeat(follower, 1) == 0
    assert world.commit(leader, 1).topics[0].partitions[0].error_code == 0
    world.advance(9_999)
    assert set(world.group.members) == {leader, follower}
    world.advance(1)
    assert world.group.state.value == "Empty"


def test_a_generation_that_was_not_synced_is_forgotten() -> None:
    world = World()
    leader, follower = world.stable(2)
    world.join(leader)
    world.join(follower)
    assert world.group.generation_id == 2
    world.restart()
    assert world.group.generation_id == 1
    assert world.group.state.value == "Stable"
    assert world.heartbeat(leader, 2) == ErrorCode.ILLEGAL_GENERATION


def test_ids_that_were_handed_out_are_forgotten() -> None:
    world = World()
    member_id = world.join().member_id
    world.restart()
    assert world.group.exists
    answer = world.join(member_id)
    assert isinstance(answer, JoinGroupResponse)
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_group_remembers_generation_type_and_since_when() -> None:
    world = World()
    (member_id,) = world.stable()
    world.leave(member_id)
    empty_since_ms = world.now_ms
    world.advance(5_000)
    world.restart()
    group = world.group
    assert (group.state.value, group.generation_id, group.protocol_type) == ("Empty", 2, "consumer")
    assert group.current_state_timestamp_ms == empty_since_ms
    world.stable()
    assert world.group.generation_id == 3


def test_a_simple_group_comes_back() -> None:
    world = World()
    world.commit()
    world.restart()
    assert world.group.exists
    assert world.group.protocol_type is None
    assert world.group.offsets["t"][0].offset == 5
    world.stable()


def test_a_static_member_finds_its_place_after_a_restart() -> None:
    world = World(initial_rebalance_delay_ms=0)
    old = world.join(group_instance_id="i").member_id
    world.sync(old, {old: b"A"})
    world.restart()
    assert world.heartbeat(old, 1, "i") == 0
    new = world.join(group_instance_id="i").member_id
    assert world.group.state.value == "Stable"
    assert world.sync(new).assignment == b"A"


def test_a_member_that_rejoins_with_more_protocols_than_were_logged_counts_as_changed() -> None:
    """Only the metadata of the protocol in use is logged; so it is in Kafka."""
    both = {"range": subscription("t"), "roundrobin": subscription("t")}
    world = World()
    _, follower = world.stable(2, protocols=both)
    assert world.join(follower, protocols=both).generation_id == 1
    world.restart()
    assert world.join(follower, protocols=both) in world.parked


def test_a_group_that_is_loaded_too_large_rebalances_at_once() -> None:
    world = World()
    world.stable(3)
    world.settings = type(world.settings)(max_size=2)
    result = world.restart()
    assert world.group.state.value == "PreparingRebalance"
    assert "more than 2 members" in result.transitions[0].reason


def test_old_values_have_no_rebalance_timeout_and_no_timestamp() -> None:
    world = World()
    member = MemberMetadata("m", None, "c", "/h", -1, 7_000, subscription("t"), b"A")
    value = GroupMetadataValue("consumer", 4, "range", "gone", -1, [member])
    world.log.append((GroupMetadataKey("g"), value))
    world.restart()
    group = world.group
    assert group.members["m"].rebalance_timeout_ms == 7_000
    assert group.leader_id == "m"  # the one that was logged is not there
    assert group.current_state_timestamp_ms == -1


def test_tombstones_end_what_they_name() -> None:
    world = World()
    group: Group = world.new_group()
    world.commit()
    for key, value in world.log:
        replay(group, key, value)
    replay(group, OffsetCommitKey("g", "t", 9), None)
    replay(group, OffsetCommitKey("g", "u", 0), None)
    assert group.offsets["t"][0].offset == 5
    replay(group, OffsetCommitKey("g", "t", 0), None)
    assert group.offsets == {}
    replay(group, GroupMetadataKey("g"), None)
    assert not group.exists


def test_offsets_outlive_a_group_that_kafka_has_given_another_protocol() -> None:
    """KIP-848: a tombstone for the classic group, then records of another kind; what was committed before stays."""
    world = World()
    group: Group = world.new_group()
    member, _ = world.stable(2)
    world.commit(member, 1)
    for key, value in world.log:
        replay(group, key, value)
    replay(group, GroupMetadataKey("g"), None)
    assert group.exists
    assert group.metadata is None
    assert group.offsets["t"][0].offset == 5


def test_what_is_logged_survives_its_encoding() -> None:
    """The values that steps make are those that a load makes of their bytes."""
    world = World()
    ids = world.stable(2)
    world.commit(ids[0], 1)
    world.leave(*ids)
    world.commit(retention_time_ms=99_000_000, version=2)
    assert len(world.log) == 5
    for key, value in world.log:
        assert decode_key(encode_key(key)) == key
        assert decode_value(key, encode_value(value)) == value


@pytest.mark.parametrize("error", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_unloading_answers_everybody_who_waits(error: ErrorCode) -> None:
    world = World()
    _, joining = world.enter()
    world.tell(events.Unload(error))
    assert world.answers[joining].error_code == error
    assert not world.parked
    assert len(world.wheel) == 0

    world = World()
    ids = [world.enter()[0] for _ in range(2)]
    world.advance(6_000)
    follower = next(m for m in ids if m != world.group.leader_id)
    syncing = world.sync(follower)
    records = len(world.log)
    world.tell(events.Unload(error))
    assert world.answers[syncing].error_code == error
    assert len(world.log) == records
    assert len(world.wheel) == 0


def test_unloading_an_idle_group_or_twice_does_nothing_more() -> None:
    world = World()
    world.stable()
    dead: Any = world.group
    world.tell(events.Unload())
    assert not step(dead, events.Unload(), 0).transitions
    restored = world.replayed()
    restore(restored, world.now_ms)
    assert restored.state.value == "Stable"


@pytest.mark.parametrize(
    "second",
    [
        MemberMetadata("other", "i", "c", "/h", 1, 9_000, b"", b""),
        MemberMetadata("first", None, "c", "/h", 1, 9_000, b"", b""),
        MemberMetadata("", None, "c", "/h", 1, 9_000, b"", b""),
    ],
    ids=["same instance id", "same member id", "no member id"],
)
def test_a_member_that_cannot_be_is_left_out_of_a_foreign_group(second: MemberMetadata) -> None:
    world = World()
    first = MemberMetadata("first", "i", "c", "/h", 1, 9_000, subscription("t"), b"A")
    world.log.append((GroupMetadataKey("g"), GroupMetadataValue("consumer", 4, "range", "first", 5, [first, second])))
    result = world.restart()
    assert list(world.group.members) == ["first"]
    assert result.changes == [Dropped(second.member_id, second.group_instance_id, Cause.NOT_LOADED)]
    assert world.heartbeat("first", 4, "i") == 0


@settings(max_examples=200, derandomize=True, database=None, deadline=None)
@given(st.sampled_from(range(5)).flatmap(lambda version: messages(GroupMetadataValue, version)))
def test_whatever_a_foreign_log_says_of_a_group_it_can_be_served(value: GroupMetadataValue) -> None:
    """Loaded, described, joined, left alone until everybody's session is over, expired."""
    world = World(initial_rebalance_delay_ms=0)
    world.check = False
    replay(world.group, GroupMetadataKey("g"), value)
    restore(world.group, world.now_ms)
    group = world.group
    describe(group, "g", 6)
    for member_id in list(group.members):
        step(group, HeartbeatRequest("g", group.generation_id, member_id), world.now_ms)
    for member_id in list(group.members):
        late_ms = max(group.members[member_id].session_deadline_ms, world.now_ms) if member_id in group.members else 0
        step(group, events.TimedOut(TimerKey("g", SESSION, member_id)), late_ms)
    assert not group.members
    if group.state is PREPARING_REBALANCE:
        step(group, events.TimedOut(TimerKey("g", JOIN)), 1 << 50)
    assert group.state is EMPTY
    step(group, events.Expire(0), 1 << 50)
    assert not group.exists
