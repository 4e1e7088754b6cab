"""JoinGroup: each answer, each state, each kind of member."""

from __future__ import annotations

from typing import Any

import pytest

from coordinatord.coordination.group import events
from coordinatord.coordination.group.classic.step import step
from coordinatord.coordination.group.states import Cause
from kafka_wire.api.join_group import JoinGroupResponse
from kafka_wire.errors import ErrorCode
from tests.coordination.group.world import World, join_request, subscription

BOTH = {"range": subscription("t"), "roundrobin": subscription("t")}
OTHER = {"roundrobin": subscription("t")}


def error_of(answer: Any) -> ErrorCode:
    assert isinstance(answer, JoinGroupResponse), "the join is parked"
    return ErrorCode(answer.error_code)


def state(world: World) -> str:
    return world.group.state.value


# Refusals


@pytest.mark.parametrize("timeout_ms", [5_999, 1_800_001, 0, -1])
def test_a_session_timeout_out_of_bounds_is_refused_and_creates_nothing(timeout_ms: int) -> None:
    world = World()
    answer = world.join("whoever", session_timeout_ms=timeout_ms)
    assert error_of(answer) is ErrorCode.INVALID_SESSION_TIMEOUT
    assert answer.member_id == "whoever"
    assert not world.group.exists


@pytest.mark.parametrize("timeout_ms", [6_000, 1_800_000])
def test_the_bounds_of_the_session_timeout_are_inclusive(timeout_ms: int) -> None:
    assert error_of(World().join(session_timeout_ms=timeout_ms)) is ErrorCode.MEMBER_ID_REQUIRED


def test_the_empty_group_id_is_invalid() -> None:
    world = World()
    world.group.group_id = ""
    assert error_of(world.join()) is ErrorCode.INVALID_GROUP_ID


def test_an_id_for_a_group_that_does_not_exist_is_unknown_and_does_not_create_it() -> None:
    world = World()
    answer = world.join("stray")
    assert error_of(answer) is ErrorCode.UNKNOWN_MEMBER_ID
    assert answer.member_id == "stray"
    assert not world.group.exists
    assert world.log == []


@pytest.mark.parametrize("fields", [{"protocol_type": ""}, {"protocols": {}}])
def test_no_protocol_type_or_no_protocol_is_inconsistent_yet_the_group_is_created(fields: dict[str, Any]) -> None:
    world = World()
    assert error_of(world.join(**fields)) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.group.exists
    ((key, value),) = world.log
    assert (key.group, value.protocol_type, value.generation, value.members) == ("g", "", 0, [])
    assert value.current_state_timestamp == world.now_ms


@pytest.mark.parametrize("fields", [{"protocols": OTHER}, {"protocol_type": "connect"}, {"protocols": {}}])
def test_without_a_common_protocol_nobody_joins_a_group_with_members(fields: dict[str, Any]) -> None:
    world = World()
    (leader,) = world.stable()
    assert error_of(world.join(**fields)) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert error_of(world.join(leader, **fields)) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert state(world) == "Stable"


def test_a_second_protocol_must_be_shared_by_all_not_by_some() -> None:
    world = World(initial_rebalance_delay_ms=0)
    world.enter(protocols=BOTH)
    world.enter(client_id="d")
    assert error_of(world.join(protocols=OTHER)) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert error_of(world.join(protocols=BOTH)) is ErrorCode.MEMBER_ID_REQUIRED


def test_a_stranger_is_unknown_in_every_state_of_an_existing_group() -> None:
    world = World()
    world.join()
    assert error_of(world.join("stray")) is ErrorCode.UNKNOWN_MEMBER_ID  # Empty
    world.enter()
    assert error_of(world.join("stray")) is ErrorCode.UNKNOWN_MEMBER_ID  # PreparingRebalance
    world.advance(60_000)
    assert error_of(world.join("stray")) is ErrorCode.UNKNOWN_MEMBER_ID
    assert error_of(world.join("stray", group_instance_id="i")) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_unloaded_group_sends_everybody_to_look_for_the_coordinator() -> None:
    world = World()
    world.stable()
    dead = world.group
    world.tell(events.Unload())
    for member_id in ("", "c-1"):
        event = events.Join.of(join_request(member_id), 9, "r", "c", "/127.0.0.1")
        assert error_of(step(dead, event, world.now_ms).reply) is ErrorCode.COORDINATOR_NOT_AVAILABLE


# Member ids (KIP-394)


def test_from_v4_a_dynamic_member_is_handed_an_id_first() -> None:
    world = World()
    first = world.join(version=4, client_id="app")
    assert error_of(first) is ErrorCode.MEMBER_ID_REQUIRED
    assert first.member_id == "app-1"
    assert first.generation_id == -1
    assert list(world.group.pending_members) == ["app-1"]
    assert state(world) == "Empty"
    parked = world.join("app-1", version=4, client_id="app")
    assert parked in world.parked
    assert not world.group.pending_members
    assert state(world) == "PreparingRebalance"


def test_before_v4_it_is_taken_in_at_once() -> None:
    world = World(initial_rebalance_delay_ms=0)
    answer = world.join(version=3, client_id="app")
    assert (answer.member_id, answer.leader, answer.generation_id) == ("app-1", "app-1", 1)


def test_v0_has_no_rebalance_timeout_and_uses_the_session_timeout() -> None:
    world = World(initial_rebalance_delay_ms=0)
    world.join(version=0, session_timeout_ms=7_000, rebalance_timeout_ms=-1)
    (member,) = world.group.members.values()
    assert member.rebalance_timeout_ms == 7_000


def test_a_null_client_id_counts_as_empty() -> None:
    world = World()
    event = events.Join.of(join_request(), 9, "r", None, "/127.0.0.1")
    assert world.tell(event).reply.member_id == "-1"


def test_an_id_that_is_not_used_within_the_session_timeout_is_forgotten() -> None:
    world = World()
    member_id = world.join(session_timeout_ms=6_000).member_id
    world.advance(5_999)
    assert member_id in world.group.pending_members
    world.advance(1)
    assert member_id not in world.group.pending_members
    assert error_of(world.join(member_id)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.results[-2].changes[0].cause == Cause.ID_NOT_USED


def test_an_id_that_was_handed_out_holds_up_the_rebalance_until_it_expires() -> None:
    world = World()
    leader, follower = world.stable(2)
    world.join(session_timeout_ms=8_000)
    first = world.join(leader)
    second = world.join(follower, protocols=BOTH)
    assert state(world) == "PreparingRebalance"
    world.advance(8_000)
    assert state(world) == "CompletingRebalance"
    assert world.answers[first].generation_id == world.answers[second].generation_id == 2


def test_its_expiry_also_ends_the_delay_of_the_first_rebalance() -> None:
    """A join or a leave would not: so it is in Kafka."""
    world = World(initial_rebalance_delay_ms=30_000)
    world.join(session_timeout_ms=6_000)
    world.enter()
    world.advance(5_999)
    assert state(world) == "PreparingRebalance"
    world.advance(1)
    assert state(world) == "CompletingRebalance"


def test_an_id_that_was_handed_out_with_an_instance_id_is_a_server_error() -> None:
    world = World()
    member_id = world.join().member_id
    answer = world.join(member_id, group_instance_id="i")
    assert error_of(answer) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert answer.member_id == ""


def test_ids_that_are_asked_for_and_never_used_are_bounded() -> None:
    world = World(max_pending_members=2)
    assert [error_of(world.join()).name for _ in range(3)] == [
        "MEMBER_ID_REQUIRED",
        "MEMBER_ID_REQUIRED",
        "GROUP_MAX_SIZE_REACHED",
    ]


# The first rebalance


def test_the_first_rebalance_waits_the_initial_delay_from_the_first_join() -> None:
    world = World()
    _, parked = world.enter()
    world.advance(2_999)
    assert parked in world.parked
    world.advance(1)
    answer = world.answers[parked]
    assert (answer.generation_id, answer.protocol_type, answer.protocol_name) == (1, "consumer", "range")
    assert [member.member_id for member in answer.members] == [answer.leader]


def test_each_new_member_extends_it_by_another_delay_up_to_the_rebalance_timeout() -> None:
    world = World()
    world.enter(client_id="a", rebalance_timeout_ms=7_000)
    world.advance(1_000)
    world.enter(client_id="b", rebalance_timeout_ms=7_000)
    world.advance(2_000)  # the delay of 3 s is over: somebody came, 4 s remain, so 3 s more
    assert state(world) == "PreparingRebalance"
    world.advance(1_000)
    world.enter(client_id="c", rebalance_timeout_ms=7_000)
    world.advance(2_000)  # 1 s remains
    assert state(world) == "PreparingRebalance"
    world.enter(client_id="d", rebalance_timeout_ms=7_000)
    world.advance(999)
    assert state(world) == "PreparingRebalance"
    world.advance(1)
    assert state(world) == "CompletingRebalance"
    assert len(world.group.members) == 4


def test_a_delay_longer_than_the_rebalance_timeout_is_not_extended() -> None:
    world = World()
    world.enter(client_id="a", rebalance_timeout_ms=2_000)
    world.enter(client_id="b", rebalance_timeout_ms=2_000)
    world.advance(3_000)
    assert state(world) == "CompletingRebalance"


def test_a_rejoin_does_not_extend_it() -> None:
    world = World()
    member_id, first = world.enter()
    world.advance(1_000)
    second = world.join(member_id)
    world.advance(2_000)
    assert world.answers[second].generation_id == 1
    assert world.dropped == [first]


def test_a_delay_of_zero_answers_the_first_join_at_once() -> None:
    world = World(initial_rebalance_delay_ms=0)
    member_id, answer = world.enter()
    assert answer.member_id == answer.leader == member_id
    assert state(world) == "CompletingRebalance"


def test_all_members_leave_during_the_delay() -> None:
    world = World()
    member_id, parked = world.enter()
    world.leave(member_id)
    assert error_of(world.answers[parked]) is ErrorCode.UNKNOWN_MEMBER_ID
    assert state(world) == "PreparingRebalance"
    world.advance(3_000)
    assert state(world) == "Empty"
    assert world.group.generation_id == 1
    assert world.group.metadata is not None
    assert world.group.metadata.protocol_type == "consumer"


# Later rebalances


def test_a_new_member_makes_the_others_rejoin_and_the_last_one_completes() -> None:
    world = World()
    leader, follower = world.stable(2)
    newcomer, parked = world.enter(client_id="new")
    assert state(world) == "PreparingRebalance"
    assert world.heartbeat(leader) == ErrorCode.REBALANCE_IN_PROGRESS
    parked_follower = world.join(follower)
    answer = world.join(leader)
    assert answer.leader == leader
    assert {member.member_id for member in answer.members} == {leader, follower, newcomer}
    assert world.answers[parked].members == world.answers[parked_follower].members == []
    assert answer.generation_id == 2


def test_when_time_is_up_those_who_did_not_rejoin_are_gone() -> None:
    world = World()
    leader, follower = world.stable(2, session_timeout_ms=100_000, rebalance_timeout_ms=20_000)
    parked = world.join(follower, protocols=BOTH, rebalance_timeout_ms=20_000)
    world.advance(19_999)
    assert parked in world.parked
    world.advance(1)
    assert world.answers[parked].leader == follower
    assert leader not in world.group.members
    assert world.results[-1].changes[0].cause == Cause.NOT_REJOINED


def test_the_rebalance_timeout_is_the_longest_of_the_members() -> None:
    world = World()
    world.enter(client_id="a", rebalance_timeout_ms=10_000, session_timeout_ms=100_000)
    b, _ = world.enter(client_id="b", rebalance_timeout_ms=50_000, session_timeout_ms=100_000)
    world.advance(6_000)
    world.sync(world.group.leader_id or "", {})
    world.sync(b)
    world.leave("nobody")
    new, _ = world.enter(client_id="new", rebalance_timeout_ms=1_000)
    world.advance(49_999)
    assert state(world) == "PreparingRebalance"
    world.advance(1)
    assert list(world.group.members) == [new]


def test_a_leader_that_does_not_rejoin_is_replaced_even_when_it_is_static_and_stays() -> None:
    world = World(initial_rebalance_delay_ms=0)
    answer = world.join(group_instance_id="i", session_timeout_ms=600_000)
    static = answer.member_id
    world.sync(static, {})
    newcomer, parked = world.enter(client_id="new")
    world.advance(60_000)
    assert world.answers[parked].leader == newcomer
    assert set(world.group.members) == {static, newcomer}


def test_a_group_of_which_nobody_rejoined_waits_for_its_sessions_to_end() -> None:
    """Only static members outlive a rebalance they did not join; the rebalance starts over until they expire."""
    world = World(initial_rebalance_delay_ms=0)
    static = world.join(group_instance_id="i", session_timeout_ms=150_000).member_id
    world.sync(static, {})
    newcomer, _ = world.enter(client_id="new")
    world.leave(newcomer)
    world.advance(60_000)
    assert state(world) == "PreparingRebalance"
    assert set(world.group.members) == {static}
    world.advance(89_999)
    assert set(world.group.members) == {static}
    world.advance(1)
    assert state(world) == "Empty"


def test_a_newcomer_that_is_parked_for_five_minutes_is_dropped_and_told() -> None:
    world = World()
    (leader,) = world.stable(session_timeout_ms=1_000_000, rebalance_timeout_ms=1_000_000)
    newcomer, parked = world.enter(client_id="new", rebalance_timeout_ms=1_000_000)
    world.advance(299_999)
    assert parked in world.parked
    world.advance(1)
    assert error_of(world.answers[parked]) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.answers[parked].member_id == ""
    assert list(world.group.members) == [leader]
    assert world.results[-1].changes[0].cause == Cause.JOIN_EXPIRED
    assert newcomer not in world.group.members


def test_a_member_that_is_no_newcomer_may_be_parked_for_longer_than_its_session() -> None:
    world = World()
    leader, follower = world.stable(2, rebalance_timeout_ms=1_000_000)
    parked = world.join(follower, protocols=BOTH, rebalance_timeout_ms=1_000_000)
    for _ in range(100):
        world.advance(9_000)
        world.heartbeat(leader)
    assert parked in world.parked
    assert follower in world.group.members


# A rejoin, by state


def test_rejoining_in_completing_rebalance_unchanged_gets_the_same_answer_again() -> None:
    world = World(initial_rebalance_delay_ms=0)
    leader, first = world.enter()
    assert world.join(leader) == first
    assert state(world) == "CompletingRebalance"


def test_rejoining_in_completing_rebalance_changed_starts_over() -> None:
    world = World()
    ids = [world.enter(client_id=name)[0] for name in "ab"]
    world.advance(10_000)
    leader = world.group.leader_id
    follower = next(member_id for member_id in ids if member_id != leader)
    parked_sync = world.sync(follower)
    world.join(leader or "", protocols={"range": subscription("other")})
    assert world.answers[parked_sync].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert state(world) == "PreparingRebalance"


def test_a_follower_that_rejoins_a_stable_group_unchanged_learns_the_generation() -> None:
    world = World()
    leader, follower = world.stable(2)
    answer = world.join(follower)
    assert (answer.generation_id, answer.leader, answer.members) == (1, leader, [])
    assert answer.protocol_name == "range"
    assert not answer.skip_assignment
    assert state(world) == "Stable"


@pytest.mark.parametrize("protocols", [{"range": b"other"}, BOTH, {"range": subscription("t"), "x": b""}])
def test_a_follower_that_rejoins_a_stable_group_changed_makes_it_rebalance(protocols: dict[str, bytes]) -> None:
    world = World()
    _, follower = world.stable(2)
    parked = world.join(follower, protocols=protocols, reason="new topics")
    assert parked in world.parked
    assert state(world) == "PreparingRebalance"
    assert world.results[-1].transitions[0].reason.endswith("client reason: new topics")
    assert world.results[-1].changes[0].reason == "new topics"


def test_no_more_of_a_clients_reason_is_kept_than_kafkas_clients_send() -> None:
    world = World()
    _, follower = world.stable(2)
    world.join(follower, protocols=BOTH, reason="because " * 10_000)
    assert len(world.results[-1].changes[0].reason) == 255
    assert len(world.results[-1].transitions[0].reason) < 400


def test_a_leader_that_rejoins_a_stable_group_unchanged_makes_it_rebalance() -> None:
    world = World()
    leader, follower = world.stable(2)
    world.join(leader)
    assert state(world) == "PreparingRebalance"
    assert world.heartbeat(follower) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_second_join_on_another_connection_leaves_the_first_unanswered() -> None:
    world = World()
    leader, _ = world.stable(2)
    first = world.join(leader)
    second = world.join(leader)
    assert world.dropped == [first]
    assert second in world.parked


# group.max.size


def test_a_full_stable_group_takes_no_new_member_and_lets_the_old_ones_rejoin() -> None:
    world = World(max_size=2)
    leader, follower = world.stable(2)
    answer = world.join()
    assert error_of(answer) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert answer.member_id == ""
    assert world.join(follower).generation_id == 1
    assert world.join(leader) in world.parked


def test_during_a_rebalance_the_first_ones_to_rejoin_stay() -> None:
    world = World(max_size=2)
    leader, follower = world.stable(2)
    world.group.settings = world.settings.__class__(max_size=1)
    parked = world.join(leader)
    assert error_of(world.join(follower)) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert follower not in world.group.members
    assert parked in world.parked  # nobody looks whether all have rejoined now; so it is in Kafka
    again = world.join(leader)  # it has its place
    assert again.generation_id == 2


def test_an_id_that_was_handed_out_is_taken_back_when_the_group_is_full_by_then() -> None:
    world = World(max_size=1)
    handed_out = world.join(client_id="a").member_id
    world.enter(client_id="b")
    assert error_of(world.join(handed_out)) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert not world.group.pending_members


def test_a_name_that_is_offered_twice_counts_once() -> None:
    """Kafka counts it twice, and then finds no protocol that each member supports exactly once."""
    world = World(initial_rebalance_delay_ms=0)
    request = join_request()
    request.protocols *= 2
    answer = world.tell(events.Join.of(request, 3, "r", "c", "/h")).reply
    assert answer.protocol_name == "range"
