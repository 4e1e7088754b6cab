"""Transactions of very many partitions: their markers are written some at a time, so that others have their turn."""

from __future__ import annotations

from itertools import pairwise

import pytest

from coordinatord.base.budget import SLICE_COSTLY_ITEMS
from coordinatord.transport.net.cooperative_tasks import CooperativeTask
from kafka_wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafka_wire.api.end_txn import EndTxnRequest
from kafka_wire.api.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from tests.broker.topics.world import Context
from tests.coordination.transactions.world import World

MANY = 2 * SLICE_COSTLY_ITEMS + 1
IDS = ("tx-a", "tx-b")


@pytest.fixture
def world() -> World:
    world = World()
    for name in IDS:
        world.create(name, MANY)
    return world


def begun(world: World, id_: str) -> tuple[int, int]:
    """A transaction in all partitions of the topic of its name."""
    producer = world.producer(id_=id_)
    request = AddPartitionsToTxnRequest([], id_, *producer, [AddPartitionsToTxnTopic(id_, list(range(MANY)))])
    answered = world.call(24, 3, request).results_by_topic_v3_and_below[0].results_by_partition
    assert {each.partition_error_code for each in answered} == {0}
    return producer


def marked(world: World, name: str) -> int:
    """Partitions that have a marker."""
    return sum(partition.log.end_offset > 0 for partition in world.topics.catalogue.by_name[name].partitions)


def ending(world: World) -> list[Context]:
    producers = [begun(world, id_) for id_ in IDS]
    return [world.send(26, 3, EndTxnRequest(id_, *each, True)) for id_, each in zip(IDS, producers, strict=True)]


def test_they_take_turns(world: World) -> None:
    contexts = ending(world)
    seen = []
    while not seen or seen[-1] != (MANY, MANY):
        world.loop.turn()
        world.worker.run_one()
        seen.append((marked(world, IDS[0]), marked(world, IDS[1])))
        assert len(seen) < 100
    steps = [sum(after) - sum(before) for before, after in pairwise(seen)]
    assert max(steps) <= SLICE_COSTLY_ITEMS
    assert any(0 < first < MANY and 0 < second < MANY for first, second in seen)
    world.settle()
    assert [each.response.error_code for each in contexts] == [0, 0]
    assert [world.state(id_) for id_ in IDS] == ["CompleteCommit"] * 2


def test_what_a_crash_interrupts_is_completed_by_the_next_start(world: World) -> None:
    ending(world)
    while not 0 < marked(world, IDS[0]) < MANY:
        world.loop.turn()
        world.worker.run_one()
    world.crash_and_restart("kill")
    world.settle()
    assert [marked(world, name) for name in IDS] == [MANY, MANY]
    assert [world.state(id_) for id_ in IDS] == ["CompleteCommit"] * 2


def test_those_of_another_node_are_written_in_slices(world: World) -> None:
    producer = begun(world, IDS[0])
    marker = WritableTxnMarker(*producer, False, [WritableTxnMarkerTopic(IDS[0], list(range(MANY)))], 0)
    context = Context(world, 27, 1)
    context.request = WriteTxnMarkersRequest([marker])
    assert isinstance(world.handlers[27](context, context.request), CooperativeTask)
    (result,) = world.call(27, 1, WriteTxnMarkersRequest([marker])).markers
    assert [each.error_code for topic in result.topics for each in topic.partitions] == [0] * MANY
    assert marked(world, IDS[0]) == MANY


@pytest.mark.parametrize("spread", ["partitions", "topics", "markers"])
def test_they_pause_however_the_partitions_are_listed(world: World, spread: str) -> None:
    """Partitions that there are not: nothing but the pauses is of interest."""
    topics = [WritableTxnMarkerTopic(f"none-{number}", [0]) for number in range(MANY)]
    if spread == "partitions":
        topics = [WritableTxnMarkerTopic("none", list(range(MANY)))]
    listed = [topics] if spread != "markers" else [[topic] for topic in topics]
    request = WriteTxnMarkersRequest([WritableTxnMarker(1, 0, False, each, 0) for each in listed])
    answer = world.handlers[27](Context(world, 27, 1), request)
    assert isinstance(answer, CooperativeTask)
    pauses = sum(1 for _ in answer.steps)
    assert pauses >= MANY // SLICE_COSTLY_ITEMS
