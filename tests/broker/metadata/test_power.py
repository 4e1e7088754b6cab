"""A power failure takes what was not flushed, and only from the end: SCRAM credentials, ACLs and quotas are afterwards
what they were after some change, never a mixture.

With `log.flush=always` that change is the last acknowledged one or a later one; with `interval` and `never` it may be
an earlier one. `never` may refuse to start instead, as for groups (tests/broker/log/test_crashes.py).
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from coordinatord.broker.log.errors import LogDamaged, LogFailed
from coordinatord.broker.log.simulated_disk import SimulatedCrash, SimulatedDisk
from coordinatord.broker.log.writer import FlushPolicy
from coordinatord.broker.metadata.log import MetadataLog
from coordinatord.server.daemon.access import ACL_RECORDS, QUOTA_RECORDS
from coordinatord.server.daemon.scram_users import SCRAM_RECORDS
from coordinatord.transport.cluster.nodes import Nodes
from kafka_wire.records.cluster_metadata import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    EntityData,
    RemoveAccessControlEntryRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from tests.broker.log.world import World

LIVES = 4
CHANGES = 40
SNAPSHOT_BYTES = 1_500


class Changes:
    """An image of all kinds of records: the last value of each key."""

    def __init__(self) -> None:
        self.found: dict[tuple[Any, ...], Any] = {}

    def replay(self, record: Any) -> None:
        key = _key(record)
        if isinstance(record, (RemoveUserScramCredentialRecord, RemoveAccessControlEntryRecord)):
            self.found.pop(key, None)
        else:
            self.found[key] = record

    def records(self) -> Iterator[Any]:
        for key in list(self.found):
            if key in self.found:
                yield self.found[key]

    def clear(self) -> None:
        self.found.clear()

    def state(self) -> dict[tuple[Any, ...], str]:
        """What a test compares."""
        return {key: repr(record) for key, record in self.found.items()}


def _key(record: Any) -> tuple[Any, ...]:
    if isinstance(record, (AccessControlEntryRecord, RemoveAccessControlEntryRecord)):
        return "acl", bytes(record.id)
    if isinstance(record, ClientQuotaRecord):
        return "quota", record.entity[0].entity_name, record.key
    return "scram", record.name, record.mechanism


def _change(chance: random.Random, number: int) -> Any:
    which = chance.randrange(5)
    acl = chance.randrange(4).to_bytes(16, "big")
    user = f"user-{chance.randrange(4)}"
    if which == 0:
        return UserScramCredentialRecord(user, 1, b"salt", b"stored", b"server", 4096 + number)
    if which == 1:
        return RemoveUserScramCredentialRecord(user, 1)
    if which == 2:
        return AccessControlEntryRecord(acl, 2, f"t-{number}", 3, "User:a", "*", 3, 3)
    if which == 3:
        return RemoveAccessControlEntryRecord(acl)
    return ClientQuotaRecord([EntityData("user", user)], "producer_byte_rate", float(number), False)


def _opened(disk: SimulatedDisk, flush: FlushPolicy) -> tuple[World, MetadataLog, Changes]:
    world, image = World(disk, flush=flush), Changes()
    metadata = MetadataLog(
        world.data, world.writer, world.loop.call_soon, lambda: world.now_ms, Nodes(0), snapshot_bytes=SNAPSHOT_BYTES
    )
    metadata.keep(lambda: image, *SCRAM_RECORDS, *ACL_RECORDS, *QUOTA_RECORDS)
    metadata.load()
    return world, metadata, image


def _lose_power(seed: int, flush: FlushPolicy) -> int:
    """Some lives of one disk. Returns how many acknowledged changes were lost."""
    chance, disk, lost = random.Random(seed), SimulatedDisk(seed), 0
    for _ in range(LIVES):
        world, metadata, image = _opened(disk, flush)
        states = [image.state()]
        acknowledged = [0]
        disk.crash_after = disk.operations + chance.randrange(1, 150)
        with contextlib.suppress(SimulatedCrash, LogFailed):
            for number in range(CHANGES):
                metadata.append([_change(chance, number)])
                states.append(image.state())
                world.writer.hold(world.writer.epoch, partial(acknowledged.append, number + 1))
                for _ in range(chance.randrange(3)):
                    world.loop.turn()
                    world.worker.run_one()
                    world.background.run_one()
        disk.crash_after = None
        disk.crash("power")
        found = _opened(disk, flush)[2].state()
        matching = [at for at, state in enumerate(states) if state == found]
        assert matching, "a state that never was"
        lost += max(0, max(acknowledged) - matching[-1])
        disk.crash("kill")
    return lost


def test_nothing_acknowledged_is_lost_if_it_is_flushed_first() -> None:
    assert sum(_lose_power(seed, "always") for seed in range(60)) == 0


@pytest.mark.parametrize("flush", ["interval", "never"])
def test_without_a_flush_the_last_changes_are_lost(flush: FlushPolicy) -> None:
    """A snapshot must be on the disk before what it replaces is removed: without that, all was lost at once."""
    lost = refused = 0
    for seed in range(60):
        try:
            lost += _lose_power(seed, flush)
        except LogDamaged:
            refused += 1
    assert lost or refused, "the disk forgot nothing: the test shows nothing"
    assert refused == 0 or flush == "never"
