"""The metadata log: what was acknowledged survives a crash at any operation, a snapshot changes nothing, other workers
read what the owner writes, and nobody takes it for a topic.
"""

from __future__ import annotations

import random
from functools import partial

import pytest

from coordinatord.broker.log.errors import LogDamaged, LogFailed
from coordinatord.broker.log.simulated_disk import SimulatedCrash, SimulatedDisk
from coordinatord.transport.cluster.shared import Shared
from kafka_wire.records.batch import KeyValues
from kafka_wire.records.cluster_metadata import AccessControlEntryRecord, encode_record
from tests.broker.log.world import PATH
from tests.broker.metadata.world import Node

DIRECTORY = f"{PATH}/__cluster_metadata-0"


def test_records_survive_a_kill_and_a_clean_stop() -> None:
    disk = SimulatedDisk()
    node = Node(disk)
    epoch = node.put("alice", "bob")
    node.remove("bob")
    node.put("alice", iterations=8192)
    assert node.users == {"alice": 8192}, "applied at once"
    assert node.world.writer.flushed_epoch < epoch, "and durable later"
    node.world.settle()
    disk.crash()
    again = Node(disk)
    assert again.users == {"alice": 8192}
    again.world.close()
    assert Node(disk).users == {"alice": 8192}


def test_nothing_is_made_before_the_first_record() -> None:
    disk = SimulatedDisk()
    node = Node(disk)
    node.world.settle()
    assert not disk.is_dir(DIRECTORY)


def test_a_snapshot_replaces_the_log() -> None:
    disk = SimulatedDisk()
    node = Node(disk, snapshot_bytes=4_000)
    for turn in range(300):
        node.put(f"user-{turn % 7}", iterations=turn)
        node.world.settle()
    log = node.world.data.logs["__cluster_metadata", 0]
    assert log.log_start_offset > 0, "it was rewritten"
    assert log.size_bytes < 40_000, "and does not grow with the number of changes"
    assert len([name for name in disk.listdir(DIRECTORY) if name.endswith(".log")]) <= 2
    disk.crash()
    assert Node(disk).users == node.users
    assert len(node.users) == 7


def test_changes_between_the_slices_of_a_snapshot_are_in_it() -> None:
    disk = SimulatedDisk()
    node = Node(disk, snapshot_bytes=30_000)
    node.put(*(f"user-{number}" for number in range(1500)))
    node.world.loop.turn()  # the first of fifteen slices
    node.remove("user-3", "user-1400")
    node.put("user-5", "user-1300", "new", iterations=1)
    node.world.settle()
    assert node.world.data.logs["__cluster_metadata", 0].log_start_offset == 1500
    expected = {f"user-{number}": 4096 for number in range(1500) if number not in (3, 1400)}
    expected.update({"user-5": 1, "user-1300": 1, "new": 1})
    assert node.users == expected
    disk.crash()
    assert Node(disk).users == expected


@pytest.mark.parametrize("kind", ["power", "kill"])
@pytest.mark.parametrize("seed", range(25))
def test_what_was_acknowledged_survives_a_crash_at_any_operation(seed: int, kind: str) -> None:
    chance = random.Random(seed)
    disk = SimulatedDisk(seed)
    acknowledged: dict[str, int] = {}
    for run in range(4):
        node = Node(disk, snapshot_bytes=1_500)
        assert acknowledged.items() <= node.users.items()
        live, acknowledged = dict(node.users), dict(node.users)
        disk.crash_after = disk.operations + chance.randrange(1, 120)
        try:
            for number in range(60 * run, 60 * run + 60):
                user = f"user-{chance.randrange(6)}-{seed}"
                live[user] = number
                node.put(user, iterations=number)
                node.world.writer.hold(node.world.writer.epoch, partial(acknowledged.update, live.copy()))
                node.world.settle()
        except (SimulatedCrash, LogFailed):
            pass
        disk.crash(kind)  # type: ignore[arg-type]
        # A later value than the acknowledged one may have survived, too.
        found = Node(disk, snapshot_bytes=1_500).users
        assert found.keys() >= acknowledged.keys()
        assert all(found[user] >= value for user, value in acknowledged.items())
        disk.crash("kill")
        acknowledged = found


def test_other_workers_read_what_the_owner_writes() -> None:
    disk = SimulatedDisk()
    Node(disk).world.close()
    shared = Shared(2, "unused")
    told: list[int] = []
    shared.on_change = lambda: told.append(shared.metadata_end)
    owner, other = Node(disk, shared=shared, snapshot_bytes=2_000), Node(disk, worker=1, shared=shared)
    assert owner.metadata.is_owner
    assert not other.metadata.is_owner
    epoch = owner.put("alice")
    assert not told, "nobody is told of what is not durable"
    owner.world.settle()
    assert owner.world.writer.flushed_epoch >= epoch
    assert told == [1]
    other.metadata.refresh()
    assert other.users == {"alice": 4096}
    for number in range(100):  # with snapshots in between
        owner.put(f"user-{number % 5}", iterations=number)
        owner.remove(f"user-{(number + 2) % 5}")
        owner.world.settle()
        if number % 9 == 0:
            other.metadata.refresh()
            assert other.users == owner.users
    assert owner.world.data.logs["__cluster_metadata", 0].log_start_offset > 100
    other.metadata.refresh()
    assert other.users == owner.users
    late = Node(disk, worker=1, shared=shared)
    assert late.users == owner.users


def test_a_log_that_ends_before_what_was_published_is_refused() -> None:
    disk = SimulatedDisk()
    Node(disk).world.close()
    shared = Shared(2, "unused")
    owner = Node(disk, shared=shared)
    owner.put("alice")
    owner.world.settle()
    owner.put("bob")
    owner.world.settle()
    del disk.content(f"{DIRECTORY}/{0:020d}.log")[-1:]
    with pytest.raises(LogDamaged, match="offsets 1 to 1 were written and cannot be read"):
        Node(disk, worker=1, shared=shared)


def test_records_of_a_later_program_are_not_dropped() -> None:
    disk = SimulatedDisk()
    node = Node(disk)
    log = node.world.data.logs["__cluster_metadata", 0]
    node.world.writer.append_records(log, KeyValues([(None, encode_record(AccessControlEntryRecord(), 0))]), 0)
    node.world.close()
    with pytest.raises(LogDamaged, match="AccessControlEntryRecord, which is not kept here"):
        Node(disk)


def test_the_log_of_kafkas_controllers_is_left_alone() -> None:
    """The first record sets it aside, as anything else in the place of a partition."""
    disk = SimulatedDisk()
    Node(disk).world.close()
    disk.mkdir(DIRECTORY)
    file = disk.open(f"{DIRECTORY}/{0:020d}.log", create=True)
    file.pwrite(b"theirs", 0)
    file.close()
    node = Node(disk)
    node.put("alice")
    node.world.settle()
    aside = [name for name in disk.listdir(PATH) if name.endswith("-stray")]
    assert len(aside) == 1
    assert bytes(disk.content(f"{PATH}/{aside[0]}/{0:020d}.log")) == b"theirs"
    disk.crash()
    assert Node(disk).users == {"alice": 4096}
