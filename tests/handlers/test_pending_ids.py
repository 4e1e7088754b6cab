"""Member ids that are handed out (KIP-394) and never used are bounded in all groups together."""

from __future__ import annotations

from typing import Any

import pytest

from coordinatord.base.observe.logger import captured
from kafka_wire.api.delete_groups import DeleteGroupsRequest
from kafka_wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_wire.errors import ErrorCode
from tests.handlers.test_handlers import join_request, stable
from tests.handlers.world import World

LIMIT = 3
NO_ROOM = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def joined(world: World, group: str, version: int = 9, **fields: Any) -> Any:
    """The answer to a JoinGroup, on a connection of its own."""
    return world.ask(join_request(group=group, **fields), version)


def filled(**settings: Any) -> tuple[World, list[str]]:
    """A world in which all ids are handed out, in a group for each; and the ids."""
    world = World(max_pending_ids=LIMIT, **settings)
    answers = [joined(world, f"group-{number}") for number in range(LIMIT)]
    assert [answer.error_code for answer in answers] == [ErrorCode.MEMBER_ID_REQUIRED] * LIMIT
    return world, [answer.member_id for answer in answers]


def test_one_id_in_each_of_many_groups_is_as_bounded_as_many_in_one() -> None:
    world, _ = filled()
    groups, logged = list(world.coordinator.actors), len(world.log)
    for number in range(50):
        answer = joined(world, f"one-more-{number}")
        assert (answer.error_code, answer.member_id) == (NO_ROOM, "")
    assert list(world.coordinator.actors) == groups, "a refused join makes no group"
    assert len(world.log) == logged
    assert joined(world, "group-0").error_code == NO_ROOM


def test_who_needs_no_new_id_joins_all_the_same() -> None:
    world, (first, *_) = filled()
    assert joined(world, "old", 3).error_code == ErrorCode.NONE, "before v4 nobody is sent back with an id"
    assert joined(world, "static", group_instance_id="i").error_code == ErrorCode.NONE
    assert joined(world, "group-0", member_id=first).error_code == ErrorCode.NONE
    assert joined(world, "next").error_code == ErrorCode.MEMBER_ID_REQUIRED, "the first id is used"
    assert joined(world, "one-more").error_code == NO_ROOM


def test_a_stable_group_takes_no_room() -> None:
    world = World(max_pending_ids=LIMIT)
    for number in range(2 * LIMIT):
        stable(world, world.wire(), f"group-{number}")
    assert world.coordinator.pending_ids == 0


def expire(world: World, _ids: list[str]) -> None:
    world.now += 10_000
    for key in sorted(world.timers.armed):
        world.timers.armed.pop(key)
        world.coordinator.timed_out(key)


def leave(world: World, ids: list[str]) -> None:
    for number, member in enumerate(ids):
        world.ask(LeaveGroupRequest(f"group-{number}", members=[MemberIdentity(member)]), 5)


def delete(world: World, _ids: list[str]) -> None:
    world.ask(DeleteGroupsRequest([f"group-{number}" for number in range(LIMIT)]), 2)


def unload(world: World, _ids: list[str]) -> None:
    world.coordinator.drain()
    world.coordinator.draining = False


@pytest.mark.parametrize("end", [expire, leave, delete, unload])
def test_there_is_room_again_when_ids_are_given_up(end: Any) -> None:
    world, ids = filled()
    end(world, ids)
    assert world.coordinator.pending_ids == 0
    answers = [joined(world, f"later-{number}").error_code for number in range(LIMIT + 1)]
    assert answers == [ErrorCode.MEMBER_ID_REQUIRED] * LIMIT + [NO_ROOM]


def test_the_log_says_so_once() -> None:
    with captured() as lines:
        world, ids = filled()
        for number in range(5):
            joined(world, f"one-more-{number}")
        expire(world, ids)
        joined(world, "later")
    told = [line for line in lines if "pending member" in str(line)]
    assert len(told) == 1
