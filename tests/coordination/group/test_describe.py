"""DescribeGroups and ListGroups, state by state."""

from __future__ import annotations

import pytest

from coordinatord.coordination.group.describe import describe, list_group, states_of, types_of
from kafka_wire.api.list_groups import ListedGroup
from kafka_wire.errors import ErrorCode
from tests.coordination.group.world import World, subscription


def test_a_group_that_is_not_there_is_dead_and_from_v6_an_error() -> None:
    world = World()
    for group in (None, world.group):
        old = describe(group, "g", 5)
        assert (old.group_id, old.group_state, old.error_code, old.error_message) == ("g", "Dead", 0, None)
        new = describe(group, "g", 6)
        assert (new.group_state, new.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
        assert new.error_message == "Group g not found."
    assert list_group(world.group) is None


def test_metadata_and_protocol_are_shown_in_stable_only() -> None:
    world = World()
    ids = world.stable(2)
    stable = describe(world.group, "g", 6)
    assert (stable.group_state, stable.protocol_type, stable.protocol_data) == ("Stable", "consumer", "range")
    assert {m.member_id for m in stable.members} == set(ids)
    member = stable.members[0]
    assert member.member_metadata == subscription("t")
    assert member.member_assignment == f"for {member.member_id}".encode()
    assert member.client_host == "/127.0.0.1"
    world.join(ids[0])
    preparing = describe(world.group, "g", 6)
    assert (preparing.group_state, preparing.protocol_type, preparing.protocol_data) == (
        "PreparingRebalance",
        "consumer",
        "",
    )
    assert preparing.members[0].member_metadata == b""
    assert preparing.members[0].member_assignment != b""  # still the old one
    world.join(ids[1])
    assert describe(world.group, "g", 6).group_state == "CompletingRebalance"


def test_empty_groups_remember_their_type_if_they_had_members() -> None:
    world = World()
    world.commit()
    assert list_group(world.group) == ListedGroup("g", "", "Empty", "classic")
    (member_id,) = world.stable()
    world.leave(member_id)
    assert list_group(world.group) == ListedGroup("g", "consumer", "Empty", "classic")
    assert describe(world.group, "g", 6).members == []


@pytest.mark.parametrize(
    ("states", "types", "listed"),
    [
        ([], [], True),
        (["Stable"], [], True),
        ([" sTABLE ", "Empty"], [], True),
        (["Empty"], [], False),
        (["nonsense"], [], False),
        ([], ["Classic"], True),
        ([], ["consumer"], False),
        ([], ["nonsense"], False),
        (["stable"], ["consumer", "CLASSIC"], True),
    ],
)
def test_filters(states: list[str], types: list[str], listed: bool) -> None:
    world = World()
    world.stable()
    assert (list_group(world.group, states_of(states), types_of(types)) is not None) == listed
