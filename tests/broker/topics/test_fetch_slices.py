"""Fetches of many partitions are read in slices, at once and when they are woken."""

from __future__ import annotations

from typing import Any

from coordinatord.base.budget import SLICE_COSTLY_ITEMS
from coordinatord.broker.log.large_read import LARGE_READ_BYTES
from coordinatord.transport.net.cooperative_tasks import CooperativeTask, run_through
from kafka_wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.broker.topics.world import Context, World, batch

PARTITIONS = SLICE_COSTLY_ITEMS + 1


def fetch(world: World, partitions: int, max_wait_ms: int, monkeypatch: Any) -> tuple[Context, list[CooperativeTask]]:
    """A fetch from offset 0, and what it lets go on in slices, which is not run."""
    sliced: list[CooperativeTask] = []
    monkeypatch.setattr(Context, "go_on", lambda _context, slices: sliced.append(slices))
    asked = [FetchPartition(index, fetch_offset=0, partition_max_bytes=1000) for index in range(partitions)]
    request = FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=100_000, topics=[FetchTopic("t", partitions=asked)]
    )
    return world.send(1, 11, request), sliced


def answered(context: Context) -> list[int]:
    return [len(each.records) for topic in context.response.responses for each in topic.partitions if each.records]


def test_what_is_there_is_read_with_a_pause_after_each_partition(monkeypatch: Any) -> None:
    world = World()
    world.create("t", PARTITIONS)
    records = batch(b"v")
    for index in range(PARTITIONS):
        world.produce("t", records, index)
    asked = [FetchPartition(index, fetch_offset=0, partition_max_bytes=1000) for index in range(PARTITIONS)]
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=100_000, topics=[FetchTopic("t", partitions=asked)])
    context = Context(world, 1, 11)
    context.request = request
    slices = world.handlers[1](context, request)
    assert isinstance(slices, CooperativeTask)
    assert sum(1 for _ in slices.steps) >= PARTITIONS - 1, "the first pause made it a task"
    assert answered(context) == [len(records)] * PARTITIONS


def test_a_woken_fetch_of_many_partitions_looks_in_a_slice(monkeypatch: Any) -> None:
    world = World()
    world.create("t", PARTITIONS)
    context, sliced = fetch(world, PARTITIONS, 60_000, monkeypatch)
    world.produce("t", batch(b"v"), 3)
    world.produce("t", batch(b"v"), 4)
    assert context.answers == 0
    (look,) = sliced
    for _ in look.steps:
        pass
    assert context.answers == 1
    assert len(answered(context)) == 2


def test_a_woken_fetch_of_few_partitions_answers_at_once(monkeypatch: Any) -> None:
    world = World()
    world.create("t", PARTITIONS)
    context, sliced = fetch(world, 2, 60_000, monkeypatch)
    world.produce("t", batch(b"v"), 1)
    assert (context.answers, sliced) == (1, [])


def test_time_may_be_up_before_the_slice(monkeypatch: Any) -> None:
    world = World()
    world.create("t", PARTITIONS)
    context, sliced = fetch(world, PARTITIONS, 1_000, monkeypatch)
    world.produce("t", batch(b"v"), 3)
    world.pass_time(1_000)
    look, end = sliced
    for slices in (end, look):
        for _ in slices.steps:
            pass
        assert context.answers == 1


def test_large_records_are_read_after_a_pause(monkeypatch: Any) -> None:
    """By a fetch that asks for little, too: the first batch is returned however large it is."""
    world = World()
    world.create("t", 1, max_message_bytes="10000000")
    records = batch(bytes(LARGE_READ_BYTES))
    context, sliced = fetch(world, 1, 60_000, monkeypatch)
    world.produce("t", records)
    assert context.answers == 0
    world.produce("t", records)
    [task] = sliced
    run_through(task.steps)
    assert context.answers == 1
    assert answered(context) == [len(records)]
