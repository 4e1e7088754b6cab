"""The ranges of integer settings that are not Kafka's. tests/test_config.py compares the others with Kafka's own."""

from __future__ import annotations

import re

import pytest

from coordinatord.base.config import TABLE
from coordinatord.base.config.setting_types import Unacceptable
from tests.test_config import KAFKA, SHARED

INT, LONG = 2**31 - 1, 2**63 - 1
RANGES = {
    "node.id": (0, INT),
    "workers": (1, 64),
    "socket.send.buffer.bytes": (-1, INT),
    "socket.receive.buffer.bytes": (-1, INT),
    "connections.max.idle.ms": (1, LONG),
    "max.connections": (1, INT),
    "max.decompressed.message.bytes": (1, INT - 8),
    "shutdown.timeout.ms": (0, INT),
    "log.flush.interval.ms": (1, LONG),
    "log.segment.bytes": (1_024, INT),
    "log.roll.ms": (1, LONG),
    "log.retention.ms": (-1, LONG),
    "log.retention.minutes": (-1, LONG),
    "log.retention.hours": (-1, INT),
    "log.retention.bytes": (-1, LONG),
    "log.cleaner.dedupe.buffer.size": (1_048_576, LONG),
    "max.partitions": (1, INT),
    "group.min.session.timeout.ms": (0, INT),
    "group.max.session.timeout.ms": (0, INT),
    "group.initial.rebalance.delay.ms": (0, INT),
    "group.max.pending.members": (1, INT),
    "max.pending.members": (1, INT),
    "group.max.member.metadata.bytes": (1_024, INT),
    "group.id.max.bytes": (1, 32_767),
    "max.groups": (1, INT),
    "offset.metadata.max.bytes": (0, INT),
    "max.transactional.ids": (1, INT),
    "test.control.seed": (0, INT),
    "sasl.server.max.receive.size": (1, INT),
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": (1, LONG),
    "sasl.oauthbearer.clock.skew.seconds": (0, INT),
    "connections.max.reauth.ms": (0, LONG),
    "connections.authentication.timeout.ms": (1, INT),
    "storage.lease.ms": (1_000, 600_000),
    "storage.leaders": (1, 500),
    "group.share.delivery.count.limit": (2, 10),
    "group.share.max.delivery.count.limit": (5, 25),
    "group.share.min.delivery.count.limit": (2, 5),
    "group.share.partition.max.record.locks": (100, 10_000),
    "group.share.max.partition.max.record.locks": (2_000, 10_000),
    "group.share.min.partition.max.record.locks": (100, 2_000),
    "group.share.record.lock.duration.ms": (1_000, 3_600_000),
    "group.share.max.record.lock.duration.ms": (30_000, 3_600_000),
    "group.share.min.record.lock.duration.ms": (1_000, 30_000),
    "group.share.max.size": (1, 1_000),
    "max.share.partitions": (1, INT),
    "share.coordinator.snapshot.update.records.per.snapshot": (0, 500),
}
"""Least and largest value of integer settings for which Kafka has no such range, or another one."""


def has_kafkas_range(name: str) -> bool:
    return name in SHARED and not TABLE[name].ours and re.fullmatch(r"\[(-?\d+),\.\.\.\]", KAFKA[name][2]) is not None


def test_each_integer_has_a_range() -> None:
    integers = {name for name, row in TABLE.items() if row.kind.startswith("int")}
    assert {name for name in integers if not has_kafkas_range(name)} == RANGES.keys()


@pytest.mark.parametrize("name", RANGES)
def test_a_range_of_ours_is_enforced(name: str) -> None:
    row = TABLE[name]
    least, largest = RANGES[name]
    assert (row.parse(str(least)), row.parse(str(largest))) == (least, largest)
    for beyond in (least - 1, largest + 1):
        with pytest.raises(Unacceptable):
            row.parse(str(beyond))
