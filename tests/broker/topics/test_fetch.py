"""Fetch: what is read, how much of it, and when an answer waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coordinatord.broker.log import PartitionLog
from coordinatord.broker.topics.fetch import _below
from kafka_wire.api.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafka_wire.api.delete_topics import DeleteTopicsRequest
from kafka_wire.api.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData, ReplicaState
from kafka_wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafka_wire.errors import ErrorCode
from kafka_wire.message_parts import MIN_KEPT_BYTES
from kafka_wire.records.batch import KeyValues, assign_offset, iterate_batches
from tests.broker.topics.world import Context, Peer, World, batch, produce

MIB = 1 << 20


@pytest.fixture
def world() -> World:
    made = World()
    made.create("orders", 3)
    return made


def at(partition: int, offset: int = 0, *, max_bytes: int = MIB, epoch: int = -1) -> FetchPartition:
    return FetchPartition(partition, epoch, offset, partition_max_bytes=max_bytes)


def fetch(
    *partitions: FetchPartition,
    topic: str = "orders",
    topic_id: bytes = bytes(16),
    wait_ms: int = 0,
    min_bytes: int = 1,
    **fields: Any,
) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=fields.pop("max_bytes", 50 * MIB),
        topics=[FetchTopic(topic, topic_id, list(partitions))],
        **fields,
    )


def shown(response: FetchResponse) -> list[tuple[int, int, int]]:
    """(partition, error, records) of each partition in the response, in order."""
    return [
        (data.partition_index, data.error_code, records_in(data))
        for topic in response.responses
        for data in topic.partitions
    ]


def records_in(data: PartitionData) -> int:
    return sum(header.record_count for _, header in iterate_batches(data.records or b""))


@pytest.mark.parametrize("version", range(4, 19))
def test_what_was_produced_is_read(world: World, version: int) -> None:
    topic_id = world.topics.topic_id("orders") or b""
    world.produce("orders", batch(b"a", b"b"), partition=1)
    response = world.call(1, version, fetch(at(1), topic_id=topic_id))
    assert response.error_code == 0
    [topic] = response.responses
    assert (topic.topic, topic.topic_id) == (("orders", bytes(16)) if version < 13 else ("", topic_id))
    [data] = topic.partitions
    assert (data.partition_index, data.error_code, data.high_watermark, data.last_stable_offset) == (1, 0, 2, 2)
    assert data.log_start_offset == (0 if version >= 5 else -1)
    assert data.aborted_transactions is None
    assert data.preferred_read_replica == -1
    assert records_in(data) == 2


def test_only_what_is_durable_is_read(world: World) -> None:
    world.produce("orders", batch(b"a"))
    world.send(0, 9, produce("orders", batch(b"b")))
    [data] = world.send(1, 12, fetch(at(0))).response.responses[0].partitions
    assert (data.high_watermark, records_in(data)) == (1, 1)
    # Above the high watermark, but not beyond the end.
    [data] = world.send(1, 12, fetch(at(0, 2))).response.responses[0].partitions
    assert (data.error_code, data.records) == (0, b"")
    world.settle()
    [data] = world.send(1, 12, fetch(at(0, 1))).response.responses[0].partitions
    assert (data.high_watermark, records_in(data)) == (2, 1)


def test_what_is_not_committed_is_not_kept_in_memory_with_what_is() -> None:
    first, second = batch(b"a"), bytearray(batch(bytes(100_000)))
    assign_offset(second, 1, 0)
    committed = _below(memoryview(first + second), 1)
    assert isinstance(committed, bytes)
    assert committed == first


def test_read_committed_is_told_of_no_aborted_transactions(world: World) -> None:
    world.produce("orders", batch(b"a"))
    [data] = world.call(1, 12, fetch(at(0), isolation_level=1)).responses[0].partitions
    assert data.aborted_transactions == []


@pytest.mark.parametrize(
    ("asked", "version", "error"),
    [
        (at(0, 2), 12, ErrorCode.OFFSET_OUT_OF_RANGE),
        (at(0, -1), 12, ErrorCode.OFFSET_OUT_OF_RANGE),
        (at(0, 0, epoch=1), 12, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (at(3), 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (at(-1), 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_errors_of_partitions(world: World, asked: FetchPartition, version: int, error: ErrorCode) -> None:
    world.produce("orders", batch(b"a"))
    context = world.send(1, version, fetch(asked, wait_ms=500))
    # An error is told at once.
    [data] = context.response.responses[0].partitions
    assert (data.error_code, data.high_watermark, data.last_stable_offset, data.records) == (error, -1, -1, b"")


def test_a_newer_leader_is_named_since_v16(world: World) -> None:
    partition = world.topics.catalogue.by_name["orders"].partitions[0]
    partition.log.leader_epoch = 2
    topic_id = world.topics.topic_id("orders") or b""
    for version in (13, 16):
        response = world.call(1, version, fetch(at(0, epoch=1), topic_id=topic_id))
        [data] = response.responses[0].partitions
        assert data.error_code == ErrorCode.FENCED_LEADER_EPOCH
        named = version >= 16
        assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == ((0, 2) if named else (-1, -1))
        assert [node.port for node in response.node_endpoints] == ([9092] if named else [])


def test_topics_that_do_not_exist(world: World) -> None:
    response = world.call(1, 12, fetch(at(0), topic="missing", wait_ms=500))
    assert shown(response) == [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)]
    response = world.call(1, 13, fetch(at(0), topic_id=b"\7" * 16, wait_ms=500))
    assert shown(response) == [(0, ErrorCode.UNKNOWN_TOPIC_ID, 0)]
    assert response.responses[0].topic_id == b"\7" * 16


@pytest.mark.parametrize(("version", "epoch", "error"), [(12, -1, 6), (12, 0, 75), (17, -1, 6)])
def test_a_follower_finds_no_leader(world: World, version: int, epoch: int, error: int) -> None:
    topic_id = world.topics.topic_id("orders") or b""
    request = fetch(at(0, epoch=epoch), topic_id=topic_id, replica_id=5, replica_state=ReplicaState(5, 1))
    assert shown(world.call(1, version, request)) == [(0, error, 0)]


def test_the_offsets_topic_is_read_like_any_other(world: World) -> None:
    log = world.data.get("__consumer_offsets", 9)
    assert log is not None
    context = world.send(1, 12, fetch(at(9), topic="__consumer_offsets", wait_ms=500))
    assert context.answers == 0
    world.writer.append_records(log, KeyValues([(b"key", b"value")]), 0)
    world.settle()
    assert shown(context.response) == [(9, 0, 1)]


# How much


def test_the_first_batch_is_returned_however_large(world: World) -> None:
    for partition in range(2):
        for _ in range(2):
            world.produce("orders", batch(b"x" * 1000), partition=partition)
    for limit in ({"max_bytes": 10}, {"max_bytes": 50 * MIB}):
        response = world.call(1, 12, fetch(at(0, max_bytes=10), at(1, max_bytes=10), **limit))
        assert shown(response) == [(0, 0, 1), (1, 0, 0)]


def test_a_response_is_no_larger_than_asked_for(world: World) -> None:
    size = len(batch(b"x" * 1000))
    for partition in range(3):
        for _ in range(4):
            world.produce("orders", batch(b"x" * 1000), partition=partition)
    response = world.call(1, 12, fetch(at(0, max_bytes=2 * size), at(1), at(2), max_bytes=5 * size))
    assert shown(response) == [(0, 0, 2), (1, 0, 3), (2, 0, 0)]


def test_fetch_max_bytes_is_the_nodes_limit() -> None:
    world = World(fetch_max_bytes=3000)
    world.create("orders")
    for _ in range(5):
        world.produce("orders", batch(b"x" * 1000))
    assert shown(world.call(1, 12, fetch(at(0)))) == [(0, 0, 2)]


def test_fewer_records_while_many_answers_are_not_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The room that is left, and the first batch in any case."""
    size = len(batch(b"x" * 1000))
    for _ in range(5):
        world.produce("orders", batch(b"x" * 1000))
    monkeypatch.setattr(Peer, "room", 3 * size + 5)
    assert shown(world.call(1, 12, fetch(at(0)))) == [(0, 0, 3)]
    monkeypatch.setattr(Peer, "room", 0)
    assert shown(world.call(1, 12, fetch(at(0)))) == [(0, 0, 1)]


# When


def wait(world: World, *partitions: FetchPartition, **fields: Any) -> Context:
    context = world.send(1, 12, fetch(*partitions, wait_ms=500, **fields))
    assert context.answers == 0
    return context


def test_an_answer_waits_for_a_record(world: World) -> None:
    context = wait(world, at(0), at(1))
    world.produce("orders", batch(b"a"), partition=2)
    assert context.answers == 0
    world.produce("orders", batch(b"a"), partition=1)
    assert shown(context.response) == [(0, 0, 0), (1, 0, 1)]
    assert world.alarms == []
    world.produce("orders", batch(b"a"), partition=0)
    world.pass_time(1000)
    assert context.answers == 1


def test_without_flushes_a_rare_record_reaches_who_waits_at_once() -> None:
    """Before its producer has its answer, and without another turn of the loop. More gather until a turn's end."""
    world = World(log_flush="never")
    world.create("orders", 3)
    world.produce("orders", batch(b"a"))
    world.pass_time(1)
    waiting = wait(world, at(0, 1))
    produced = world.send(0, 9, produce("orders", batch(b"b")))
    assert (shown(waiting.response), produced.answers) == ([(0, 0, 1)], 1)
    waiting = wait(world, at(0, 2))
    produced = world.send(0, 9, produce("orders", batch(b"c")))
    assert (waiting.answers, produced.answers) == (0, 0), "in the same millisecond"
    world.loop.turn()
    assert (shown(waiting.response), produced.answers) == ([(0, 0, 1)], 1)


def test_or_for_the_time_to_be_up(world: World) -> None:
    context = wait(world, at(0))
    world.pass_time(499)
    assert context.answers == 0
    world.pass_time(1)
    assert shown(context.response) == [(0, 0, 0)]
    world.produce("orders", batch(b"a"))
    assert context.answers == 1


def test_or_for_as_many_bytes_as_asked_for(world: World) -> None:
    size = len(batch(b"x" * 100))
    world.produce("orders", batch(b"x" * 100))
    context = wait(world, at(0), at(1), min_bytes=3 * size)
    world.produce("orders", batch(b"x" * 100), partition=1)
    assert context.answers == 0
    world.produce("orders", batch(b"x" * 100), partition=0)
    assert shown(context.response) == [(0, 0, 2), (1, 0, 1)]


def test_bytes_beyond_a_partitions_limit_do_not_count(world: World) -> None:
    size = len(batch(b"x" * 100))
    context = wait(world, at(0, max_bytes=size), at(1), min_bytes=2 * size)
    world.produce("orders", batch(b"x" * 100))
    world.produce("orders", batch(b"x" * 100))
    assert context.answers == 0
    world.produce("orders", batch(b"x" * 100), partition=1)
    assert shown(context.response) == [(0, 0, 1), (1, 0, 1)]


@pytest.mark.parametrize("fields", [{"min_bytes": 0}, {"wait_ms": 0}, {"min_bytes": -1}])
def test_who_does_not_want_to_wait_need_not(world: World, fields: dict[str, int]) -> None:
    context = world.send(1, 12, fetch(at(0), **{"wait_ms": 500, **fields}))
    assert shown(context.response) == [(0, 0, 0)]


def test_partitions_that_do_not_exist_end_no_wait(world: World) -> None:
    context = wait(world, at(7), at(0))
    world.produce("orders", batch(b"a"))
    assert shown(context.response) == [(0, 0, 1), (7, 3, 0)]


def test_a_topics_deletion_ends_the_wait(world: World) -> None:
    context = wait(world, at(0))
    world.call(20, 5, DeleteTopicsRequest([], ["orders"]))
    assert shown(context.response) == [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)]


def test_nothing_is_kept_of_a_client_that_has_gone(world: World) -> None:
    context = world.send(1, 12, fetch(at(0), wait_ms=2**31 - 1))
    context.closed = True
    world.pass_time(60_000)
    assert world.alarms == []
    assert not world.topics.fetching.parked
    assert not world.topics.catalogue.by_name["orders"].partitions[0].waiters


def test_a_stop_answers_those_who_wait(world: World) -> None:
    context = wait(world, at(0))
    world.stop()
    assert shown(context.response) == [(0, 0, 0)]


def test_new_partitions_can_be_read(world: World) -> None:
    world.call(37, 3, CreatePartitionsRequest([CreatePartitionsTopic("orders", 5, None)]))
    assert shown(world.call(1, 12, fetch(at(4)))) == [(4, 0, 0)]


# --- a disk that is not in order --------------------------------------------------------------------------------------


def log_of(world: World, partition: int) -> PartitionLog:
    found = world.data.get("orders", partition)
    assert found is not None
    return found


def lose(world: World, partition: int) -> None:
    """Somebody removes a partition's files under the daemon, and none of them is open just then."""
    log = log_of(world, partition)
    log._files.drop_below(log.directory)
    for name in world.disk.listdir(log.directory):
        world.disk.unlink(f"{log.directory}/{name}")


def damage(world: World, partition: int) -> None:
    """Zeros where batches were, as a file system leaves them behind."""
    segment = log_of(world, partition).segments[0]
    world.disk.open(segment.log_path).pwrite(bytes(segment.size), 0)


@pytest.mark.parametrize("spoil", [lose, damage])
@pytest.mark.parametrize("isolation_level", [0, 1])
def test_a_partition_that_cannot_be_read_is_an_error_of_its_own(
    world: World, spoil: Callable[[World, int], None], isolation_level: int
) -> None:
    for partition in (0, 1):
        for _ in range(2):
            assert world.produce("orders", batch(b"a" * 300), partition).error_code == 0
    spoil(world, 0)
    for limit in (400, MIB):
        asked = fetch(at(0, max_bytes=limit), at(1), isolation_level=isolation_level, wait_ms=10_000)
        assert shown(world.call(1, 12, asked)) == [(0, ErrorCode.KAFKA_STORAGE_ERROR, 0), (1, 0, 2)]


def test_who_waits_for_it_does_not_keep_the_writer_from_telling_others(world: World) -> None:
    """A read that fails when it is woken must not take the acknowledgements of that flush with it."""
    world.produce("orders", batch(b"a"))
    waiting = world.send(1, 12, fetch(at(0, 1), at(1), wait_ms=10_000))
    assert waiting.answers == 0
    produced = world.send(0, 9, produce("orders", batch(b"b")))
    world.loop.turn()
    world.worker.run_one()
    lose(world, 0)
    world.settle()
    assert produced.answers == 1
    assert shown(waiting.response) == [(0, ErrorCode.KAFKA_STORAGE_ERROR, 0), (1, 0, 0)]


def test_only_large_records_are_sent_without_a_copy(world: World) -> None:
    world.produce("orders", batch(b"a"), partition=0)
    world.produce("orders", batch(bytes(MIN_KEPT_BYTES)), partition=1)
    assert [world.send(1, 12, fetch(*asked)).in_parts for asked in ((at(0),), (at(1),), (at(0), at(1)))] == [
        False,
        True,
        True,
    ]


def test_who_cannot_be_told_of_records_keeps_no_other_from_them(world: World) -> None:
    told: list[str] = []
    partition = world.topics.catalogue.by_name["orders"].partitions[0]
    partition.wait("broken", lambda: 1 // 0)
    partition.wait("other", lambda: told.append("other"))
    with pytest.raises(ZeroDivisionError):
        partition.wake()
    assert told == ["other"]


def test_a_time_that_cannot_be_looked_up_is_an_error_of_its_own(world: World) -> None:
    for partition in (0, 1):
        world.produce("orders", batch(b"a"), partition)
    lose(world, 0)
    asked = [ListOffsetsPartition(partition, -1, 5) for partition in (0, 1)]
    [found] = world.call(2, 7, ListOffsetsRequest(-1, topics=[ListOffsetsTopic("orders", asked)])).topics
    assert [each.error_code for each in found.partitions] == [ErrorCode.KAFKA_STORAGE_ERROR, 0]


def test_a_producer_that_nobody_remembers_cannot_be_looked_up(world: World) -> None:
    idempotent = {"producer_id": 7, "producer_epoch": 0}
    for number in range(2):
        assert world.produce("orders", batch(b"a", base_sequence=number, **idempotent)).error_code == 0
    world.stop()
    world.open()
    lose(world, 0)
    assert world.produce("orders", batch(b"a", base_sequence=2, **idempotent)).error_code == (
        ErrorCode.KAFKA_STORAGE_ERROR
    )
