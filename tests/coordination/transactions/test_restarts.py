"""What a crash leaves of a transaction: everything that was answered holds, and what was decided gets done.

The log's worker is run by hand, so that a crash can come between any two flushes.
"""

from __future__ import annotations

import pytest

from coordinatord.broker.log.simulated_disk import CrashKind
from coordinatord.broker.topics import partition as partition_module
from coordinatord.broker.topics.aborted import AbortedTransactions
from coordinatord.broker.topics.producers import Aborted
from kafka_wire.api.end_txn import EndTxnRequest
from kafka_wire.errors import ErrorCode
from tests.broker.topics.world import Context
from tests.coordination.transactions.world import TX, World, group_partition

KINDS: list[CrashKind] = ["kill", "power"]


def began(version: int) -> tuple[World, tuple[int, int]]:
    """A transaction with a record in each of two partitions and an offset."""
    world = World()
    world.create("orders", 2)
    world.commit_plainly(1)
    producer = world.producer()
    write_version = 12 if version >= 5 else 9
    if version < 5:
        world.add(producer, ("orders", 0), ("orders", 1))
        world.add_offsets(producer)
    for index in range(2):
        assert world.write(producer, b"v", partition=("orders", index), version=write_version) == 0
    assert world.commit_offset(producer, 5, version=5 if version >= 5 else 3) == 0
    return world, producer


def flush(world: World) -> None:
    """One epoch becomes durable, and the loop hears of it."""
    world.loop.turn()
    world.worker.run_one()
    world.loop.turn()


STEPS = 4
"""Flushes from EndTxn until CompleteCommit is durable; one more than there are."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", [3, 5])
@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("flushes", range(STEPS + 1))
def test_a_crash_at_each_step_of_the_end(flushes: int, commit: bool, version: int, kind: CrashKind) -> None:
    world, producer = began(version)
    ending: Context = world.send(26, version, EndTxnRequest(TX, *producer, commit))
    for _ in range(flushes):
        flush(world)
    answered = ending.answers == 1
    world.crash_and_restart(kind)
    world.settle()
    state = world.state()
    if answered:
        assert ending.response.error_code == 0
        assert state == ("CompleteCommit" if commit else "CompleteAbort")
    if state == "Ongoing":
        assert (world.read(), world.read(index=1)) == ([], [])
        assert world.committed() == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
        assert world.end(producer, commit=commit, version=version).error_code == 0
    else:
        again = world.end(producer, commit=commit, version=version)
        assert again.error_code == 0
        if version >= 5:
            assert (again.producer_id, again.producer_epoch) == (producer[0], producer[1] + 1)
    expected = [b"v"] if commit else []
    assert (world.read(), world.read(index=1)) == (expected, expected)
    assert world.committed() == (0, 5 if commit else 1)
    # The next transaction goes on as if nothing had been.
    following = world.producer()
    assert world.write(following, b"w", version=12) == 0
    world.end(following, version=5)
    assert world.read() == [*expected, b"w"]


def test_that_these_are_all_steps() -> None:
    world, producer = began(3)
    ending = world.send(26, 3, EndTxnRequest(TX, *producer, True))
    answered_after = []
    for number in range(STEPS):
        flush(world)
        answered_after.append((number, ending.answers, world.transactions.actors[TX].transaction.state.shown))
    assert [answers for _, answers, _ in answered_after] == [0, 1, 1, 1]
    assert answered_after[0][2] == "PrepareCommit"
    assert not world.worker.jobs


@pytest.mark.parametrize("kind", KINDS)
def test_markers_that_are_written_twice_do_no_harm(kind: CrashKind) -> None:
    world, producer = began(3)
    world.send(26, 3, EndTxnRequest(TX, *producer, True))
    flush(world)
    flush(world)  # the markers are durable, CompleteCommit is not
    world.crash_and_restart(kind)
    world.settle()
    control = [header.is_control for header in world.partition().log.batches(0)]
    assert control == [False, True, True]
    assert world.read() == [b"v"]
    assert world.committed() == (0, 5)
    world.restart()
    assert world.read() == [b"v"]


def test_a_prepared_transaction_waits_for_the_group_that_it_is_about() -> None:
    world, producer = began(3)
    world.send(26, 3, EndTxnRequest(TX, *producer, True))
    flush(world)
    world.crash()
    load_groups = World.load_groups
    World.load_groups = lambda self: None  # type: ignore[method-assign]
    try:
        world.open()
    finally:
        World.load_groups = load_groups  # type: ignore[method-assign]
    world.settle()
    assert world.state() == "PrepareCommit"
    assert world.read() == [b"v"]
    world.load_groups()
    world.pass_time(1_000)
    world.settle()
    assert world.state() == "CompleteCommit"
    assert world.committed() == (0, 5)


def test_an_open_transaction_is_open_after_a_restart_and_times_out() -> None:
    world, producer = began(3)
    world.restart()
    assert world.state() == "Ongoing"
    assert world.read() == []
    assert world.committed() == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    world.pass_time(60_000)
    world.settle()
    assert world.state() == "CompleteAbort"
    assert world.read() == []
    assert world.committed() == (0, 1)
    assert world.write(producer, b"late", sequence=1) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_one_whose_time_has_passed_meanwhile_is_aborted_at_once() -> None:
    world, _ = began(3)
    world.stop()
    world.time_ms += 100_000
    world.open()
    world.pass_time(0)
    world.settle()
    assert world.state() == "CompleteAbort"


def test_a_commit_that_waits_is_answered_when_the_daemon_stops() -> None:
    world, producer = began(5)
    ending = world.send(26, 5, EndTxnRequest(TX, *producer, True))
    world.restart()
    world.settle()
    assert (ending.response.error_code, ending.response.producer_epoch) == (0, 1)
    assert world.state() == "CompleteCommit"
    assert world.read() == [b"v"]


def test_fencing_survives() -> None:
    world, old = began(3)
    world.init()
    new = world.producer()
    world.crash_and_restart("power")
    world.settle()
    assert world.write(old, b"late", sequence=1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert world.init().producer_epoch == new[1] + 1


# The index of aborted transactions


def aborted_ones(world: World, count: int) -> None:
    """So many transactions on partition 0, every second one aborted; the values tell which is which."""
    producer = world.producer()
    for number in range(count):
        world.write(producer, b"%d" % number, version=12)
        ended = world.end(producer, commit=bool(number % 2), version=5)
        producer = ended.producer_id, ended.producer_epoch


@pytest.mark.parametrize("interval", [1, 3, 5, 1_000])
def test_aborted_transactions_are_known_after_any_stop(interval: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_module, "SNAPSHOT_INTERVAL_BATCHES", interval)
    world = World()
    world.create("orders", segment_bytes="1048576", index_interval_bytes="0")
    aborted_ones(world, 12)
    expected = [b"%d" % number for number in range(1, 12, 2)]
    assert world.read() == expected
    for stop in (world.crash_and_restart, world.restart, lambda: world.crash_and_restart("power"), world.restart):
        stop()
        assert world.read() == expected
        aborted_ones(world, 2)
        expected.append(b"1")
        assert world.read() == expected


def test_the_index_follows_the_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_module, "SNAPSHOT_INTERVAL_BATCHES", 4)
    world = World(log_segment_bytes=1024)
    world.create("orders")
    aborted_ones(world, 40)
    expected = [b"%d" % number for number in range(1, 40, 2)]
    assert world.read() == expected
    world.restart()
    log = world.partition().log
    assert len(log.segments) > 3
    directory = log.directory
    indexes = [name for name in world.disk.listdir(directory) if name.endswith(".txnindex")]
    assert len(indexes) > 3
    assert {name.removesuffix(".txnindex") for name in indexes} <= {f"{s.base_offset:020d}" for s in log.segments}
    assert world.read() == expected
    kept = [value for value in expected if int(value) > 20]
    offset = next(header.base_offset for header in log.batches(0) if header.base_offset >= 4 * 11)
    found = world.fetch(offset=offset)
    assert found.aborted_transactions
    assert all(each.first_offset >= offset - 4 for each in found.aborted_transactions)
    world.writer.delete_records(log, log.segments[2].base_offset)
    world.settle()
    left = [name for name in world.disk.listdir(directory) if name.endswith(".txnindex")]
    assert len(left) < len(indexes)
    values = world.read_from(log.log_start_offset)
    assert [value for value in values if int(value) > 20] == kept


def test_entries_above_the_snapshot_are_found_again_and_not_twice() -> None:
    world = World()
    world.create("orders")
    aborted_ones(world, 4)
    partition = world.partition()
    partition.write_snapshot()
    aborted_ones(world, 4)
    world.crash_and_restart()
    found = world.partition().aborted_transactions(0, 1_000)
    assert found == []  # nobody has asked for the producers yet
    assert world.read() == [b"1", b"3", b"1", b"3"]
    found = world.partition().aborted_transactions(0, 1_000)
    assert [entry.first_offset for entry in found] == [0, 4, 8, 12]


def test_an_entry_says_what_is_stable_before_it() -> None:
    world = World()
    world.create("orders")
    slow, quick = world.producer(), world.producer(id_="quick")
    world.add(slow)
    world.add(quick, id_="quick")
    world.write(slow, b"slow")
    world.write(quick, b"quick", id_="quick")
    world.end(quick, id_="quick", commit=False)
    world.end(slow, commit=False)
    world.fetch()
    entries = world.partition().aborted_transactions(0, 10)
    assert entries == [Aborted(quick[0], 1, 2, 0), Aborted(slow[0], 0, 3, 4)]
    assert world.partition().aborted_transactions(3, 4) == [Aborted(slow[0], 0, 3, 4)]
    world.stop()
    log = world.partition().log
    index = AbortedTransactions(log, world.disk)
    index.load(100)
    assert index.between(0, 10) == entries
    data = world.disk.open(f"{log.directory}/{0:020d}.txnindex").pread(1000, 0)
    assert len(data) == 2 * 34
    assert data[:34] == b"".join(
        [b"\0\0", *(number.to_bytes(8, "big") for number in (quick[0], 1, 2, 0))]
    )  # Kafka's AbortedTxn


# Logs that Kafka wrote


def test_a_group_log_with_markers_is_read_as_kafka_reads_it() -> None:
    world, producer = began(3)
    index = group_partition(world)
    world.end(producer, commit=False)
    world.add_offsets(producer)
    world.commit_offset(producer, 7)
    world.end(producer)
    world.add_offsets(producer)
    world.commit_offset(producer, 8)
    world.crash_and_restart()
    assert world.committed() == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    assert world.committed(stable=False) == (0, 7)
    assert set(world.coordinator.pending) == {(index, producer[0])}
    world.end(producer)
    assert world.committed() == (0, 8)
    assert not world.coordinator.pending
