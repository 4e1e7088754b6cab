"""Static members (KIP-345): a restart under the same instance id, and who is fenced by it."""

from __future__ import annotations

from typing import Any

from kafka_wire.errors import ErrorCode
from tests.coordination.group.world import World, subscription

BOTH = {"range": subscription("t"), "roundrobin": subscription("t")}
OTHER = {"roundrobin": subscription("t")}


def static_pair(world: World, **fields: Any) -> tuple[str, str]:
    """Two static members of a stable group, "lead" and "follow", the leader's id first."""
    first = world.join(group_instance_id="lead", client_id="x", **fields)
    world.join(group_instance_id="follow", client_id="x", **fields)
    world.advance(10_000)
    leader, follower = world.group.static_members["lead"], world.group.static_members["follow"]
    assert world.answers[first].leader == leader
    world.sync(follower)
    world.sync(leader, {leader: b"L", follower: b"F"})
    return leader, follower


def test_a_static_member_is_named_after_its_instance_and_needs_no_second_request() -> None:
    world = World()
    parked = world.join(group_instance_id="i-1", client_id="x")
    assert parked in world.parked
    assert world.group.static_members == {"i-1": "i-1-1"}


def test_a_restarted_static_follower_gets_its_place_back_without_a_rebalance() -> None:
    world = World()
    leader, follower = static_pair(world)
    records_before = len(world.log)
    answer = world.join(group_instance_id="follow")
    assert answer.error_code == 0
    assert answer.member_id != follower
    assert (answer.leader, answer.members, answer.skip_assignment) == (leader, [], False)
    assert world.group.state.value == "Stable"
    (_, value) = world.log[-1]
    assert len(world.log) == records_before + 1
    assert {m.member_id: m.assignment for m in value.members} == {leader: b"L", answer.member_id: b"F"}
    assert world.sync(answer.member_id).assignment == b"F"
    assert world.heartbeat(follower, group_instance_id="follow") == ErrorCode.FENCED_INSTANCE_ID
    assert world.heartbeat(follower) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_restarted_static_leader_is_told_to_skip_the_assignment() -> None:
    world = World()
    static_pair(world)
    answer = world.join(group_instance_id="lead")
    assert answer.leader == answer.member_id == world.group.leader_id
    assert answer.skip_assignment
    assert len(answer.members) == 2


def test_before_v9_it_is_told_its_old_id_as_leader_so_that_it_does_not_assign() -> None:
    world = World()
    leader, _ = static_pair(world)
    answer = world.join(group_instance_id="lead", version=8)
    assert answer.leader == leader != answer.member_id
    assert (answer.members, answer.skip_assignment) == ([], False)
    assert world.group.leader_id == answer.member_id


def test_new_metadata_alone_does_not_make_a_restarted_static_member_rebalance() -> None:
    world = World()
    static_pair(world)
    answer = world.join(group_instance_id="follow", protocols={"range": subscription("other")})
    assert answer.error_code == 0
    assert world.group.state.value == "Stable"


def test_a_change_of_the_selected_protocol_does() -> None:
    world = World(initial_rebalance_delay_ms=0)
    static = world.join(group_instance_id="i", protocols=BOTH).member_id
    world.sync(static, {})
    answer = world.join(group_instance_id="i", protocols=OTHER)
    assert (answer.generation_id, answer.protocol_name) == (2, "roundrobin")
    assert world.group.state.value == "CompletingRebalance"


def test_a_static_member_that_restarts_while_it_is_parked_fences_its_former_self() -> None:
    world = World()
    first = world.join(group_instance_id="i")
    old_id = world.group.static_members["i"]
    second = world.join(group_instance_id="i")
    answer = world.answers[first]
    assert answer.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert answer.member_id == old_id
    world.advance(3_000)
    assert world.answers[second].leader == world.answers[second].member_id


def test_a_static_member_that_restarts_in_completing_rebalance_starts_over() -> None:
    world = World()
    world.join(group_instance_id="lead")
    world.join(group_instance_id="follow")
    world.advance(10_000)
    old = world.group.static_members["follow"]
    parked_sync = world.sync(old)
    world.join(group_instance_id="follow")
    assert world.answers[parked_sync].error_code == ErrorCode.FENCED_INSTANCE_ID
    assert world.group.state.value == "PreparingRebalance"


def test_a_static_member_with_another_ones_id_is_fenced() -> None:
    world = World()
    _, follower = static_pair(world)
    answer = world.join(follower, group_instance_id="lead")
    assert answer.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert answer.member_id == follower


def test_it_keeps_client_id_and_host_of_its_former_self() -> None:
    world = World()
    static_pair(world)
    answer = world.join(group_instance_id="follow", client_id="another")
    assert world.group.members[answer.member_id].client_id == "x"


def test_a_restart_before_its_sync_leads_to_a_rebalance_when_the_wait_for_the_old_id_ends() -> None:
    world = World()
    world.join(group_instance_id="lead", session_timeout_ms=600_000)
    world.join(group_instance_id="follow", session_timeout_ms=600_000)
    world.advance(6_000)
    world.sync(world.group.leader_id or "", {})
    new = world.join(group_instance_id="follow", session_timeout_ms=600_000).member_id
    world.sync(new)
    assert world.group.state.value == "Stable"
    world.advance(60_000)
    assert world.group.state.value == "PreparingRebalance"
    assert new in world.group.members
