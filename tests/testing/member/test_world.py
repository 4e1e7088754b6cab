"""Stories of members and the real group: what triggers a rebalance, who notices whose death, and why the
heartbeat moved to a thread."""

from __future__ import annotations

from coordinatord.coordination.group.states import Cause
from coordinatord.testing.member.events import Close, Subscribe
from coordinatord.testing.member.result import Assigned, Revoked
from kafka_wire.errors import ErrorCode
from tests.testing.member.world import Consumer, World

SESSION_MS = 10_000


def pair(world: World, **settings: object) -> tuple[Consumer, Consumer]:
    one, two = (world.consumer(name, session_timeout_ms=SESSION_MS, **settings) for name in ("one", "two"))
    world.run_until_stable()
    assert len(one.owned) == len(two.owned) == 2
    return one, two


def gone(world: World) -> list[str]:
    """Why members went."""
    return [change.cause for result in world.group.results for change in result.changes if hasattr(change, "cause")]


def test_a_newcomer_triggers_a_rebalance_with_the_others_next_heartbeat() -> None:
    world = World({"t": 4})
    one, two = pair(world)
    three = world.consumer("three")
    world.run(20)
    assert three.owned == set(), "nobody told the others yet"
    world.run(3_000)
    assert sorted(len(each.owned) for each in (one, two, three)) == [1, 1, 2]


def test_a_member_that_closes_hands_over_with_the_others_next_heartbeat() -> None:
    world = World({"t": 4})
    one, two = pair(world)
    one.tell(Close())
    world.run(4_000)
    assert len(two.owned) == 4
    assert gone(world) == [Cause.LEFT]


def test_a_coordinator_that_hears_nothing_takes_the_member_for_dead() -> None:
    world = World({"t": 4})
    one, two = pair(world)
    one.kill()
    killed_ms = world.now_ms
    while len(two.owned) < 4:
        world.run(100)
    assert gone(world) == [Cause.SESSION_EXPIRED]
    assert SESSION_MS - 3_000 <= world.now_ms - killed_ms <= SESSION_MS + 3_000 + 200, "session, then a heartbeat"


def test_a_member_that_hears_nothing_takes_the_coordinator_for_dead_and_goes_on_with_the_next() -> None:
    world = World({"t": 4})
    one, two = pair(world)
    changes = len(one.changes)
    world.coordinator_error = ErrorCode.NOT_COORDINATOR
    world.run(5_000)
    assert one.member.coordinator is None
    assert len(one.owned) == 2, "it reads on meanwhile"
    world.coordinator_error = ErrorCode.NONE
    world.run_until_stable()
    assert gone(world) == []
    assert world.group.group.generation_id == two.member.generation.generation_id
    assert len(one.changes) == changes, "it did not even rejoin"


def test_new_partitions_and_a_changed_subscription_trigger_rebalances() -> None:
    world = World({"t": 4, "u": 1})
    one = world.consumer("one", ["t"], metadata_max_age_ms=10_000)
    world.run_until_stable()
    generation_id = world.group.group.generation_id
    world.topics["t"] = 6
    world.run(15_000)
    assert len(one.owned) == 6
    one.tell(Subscribe(["t", "u"]))
    world.run(15_000)
    assert len(one.owned) == 7
    assert world.group.group.generation_id == generation_id + 2


def work_for_twenty_seconds(single_threaded: bool) -> tuple[World, Consumer]:
    """One of two members works longer than a session; the other one polls on."""
    world = World({"t": 4})
    one, _ = pair(world, single_threaded=single_threaded, max_poll_interval_ms=60_000)
    world.run(1_000)
    one.polls = False
    world.run(20_000)
    one.polls = True
    one.poll()
    world.run_until_stable()
    return world, one


def test_with_a_thread_for_its_heartbeats_a_member_may_work_for_longer_than_a_session() -> None:
    world, one = work_for_twenty_seconds(single_threaded=False)
    assert gone(world) == []
    assert [type(change) for change in one.changes].count(Assigned) <= 2


def test_without_one_it_is_expelled_for_working() -> None:
    world, _ = work_for_twenty_seconds(single_threaded=True)
    assert Cause.SESSION_EXPIRED in gone(world)
    assert world.group.group.generation_id > 2


def test_a_cooperative_rolling_restart_stops_nobody_who_stays() -> None:
    world = World({"t": 6})
    stays, *others = (
        world.consumer(name, partition_assignment_strategy=("cooperative-sticky",), session_timeout_ms=SESSION_MS)
        for name in ("a", "b", "c")
    )
    world.run_until_stable()
    had = stays.owned
    for consumer in others:
        consumer.tell(Close())
        world.run(5_000)
        world.consumer(consumer.name + "'", partition_assignment_strategy=("cooperative-sticky",))
        world.run_until_stable()
    given_up = {partition for change in stays.changes if isinstance(change, Revoked) for partition in change.partitions}
    assert had - given_up, "some it reads without a pause"
    assert had - given_up <= stays.owned
    assert world.overlaps == []


def test_a_static_restart_within_the_session_is_nobody_elses_business() -> None:
    world = World({"t": 4})
    one = world.consumer("one", group_instance_id="i1", session_timeout_ms=SESSION_MS)
    two = world.consumer("two", group_instance_id="i2", session_timeout_ms=SESSION_MS)
    world.run_until_stable()
    had, generation_id, changes = two.owned, world.group.group.generation_id, len(one.changes)
    two.tell(Close())
    world.run(5_000)
    again = world.consumer("two", group_instance_id="i2", session_timeout_ms=SESSION_MS)
    world.run_until_stable()
    assert again.owned == had
    assert world.group.group.generation_id == generation_id
    assert len(one.changes) == changes
