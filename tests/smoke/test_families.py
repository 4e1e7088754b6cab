"""One smoke test per family of foreign clients: two consumers share a topic and commit, one leaves, the other goes on.

tests/clients/families plays every scenario with every client; this is the part of it that each change runs. No step
depends on a duration: no session ends while a test runs, and `DEADLINE_S` only ends a hang.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from kafka import KafkaAdminClient

from tests.clients.families.clients import CLIENTS, CONSUMER_CLIENTS, Client
from tests.clients.families.program import Program, wait_for_assignment, wait_for_values
from tests.clients.kinds import MakeTopic, Name, Produce
from tests.support.waiting import wait_until

FAMILIES = ("kafka-python 3", "aiokafka", "confluent-kafka", "Java client 4", "franz-go")
SMOKED = [
    replace(client, optional=False)
    for client in (
        *(client for client in CLIENTS if client.name.startswith(FAMILIES)),
        *(client for client in CONSUMER_CLIENTS if client.name.startswith("confluent-kafka")),
    )
]
"""None of them may be skipped where CI is set."""
PARTITIONS = 4
RECORDS = 20
DEADLINE_S = 60.0
SESSION_TIMEOUT_MS = 60_000

Offsets = dict[int, int]
"""The next offset of each partition."""

pytestmark = [pytest.mark.clients, pytest.mark.timeout(4 * DEADLINE_S)]


def read(programs: Sequence[Program]) -> Offsets:
    """Up to where these programs have read; every record from offset 0 on was read by one of them, once."""
    positions = Counter((partition, offset) for each in programs for partition, offset, _ in each.records)
    counts = Counter(partition for partition, _ in positions)
    assert positions == Counter((partition, offset) for partition in counts for offset in range(counts[partition]))
    return dict(counts)


def wait_for_commits(admin: KafkaAdminClient, group: str, offsets: Offsets) -> None:
    """Until exactly these offsets are committed."""

    def committed() -> Offsets:
        return {each.partition: found.offset for each, found in admin.list_group_offsets([group])[group].items()}

    wait_until(lambda: committed() == offsets, f"commits of {offsets}", timeout_s=DEADLINE_S, seen=committed)


@pytest.mark.parametrize("client", SMOKED, ids=[client.slug for client in SMOKED])
def test_a_consumer_takes_over(
    client: Client, bootstrap: str, admin: KafkaAdminClient, make_topic: MakeTopic,
    name: Name, join: Callable[..., Program], start: Callable[..., Program],
    produce: Produce,
) -> None:  # fmt: skip
    """All records are read once: those of before by both, those of after by the one that stays."""
    topic, group = make_topic(PARTITIONS), name("group")

    def produced(prefix: str) -> list[bytes]:
        """Records of the client's own producer, in partitions of its choice, and some in each partition."""
        written = {"bootstrap": bootstrap, "topic": topic, "compression": "none", "count": RECORDS, "prefix": prefix}
        producer = start(mode="produce", **written)
        assert producer.finished(DEADLINE_S) == 0, producer.story()
        own = [f"{prefix}-{number:06d}".encode() for number in range(RECORDS)]
        return own + produce(topic, RECORDS, PARTITIONS)

    stays, leaves = members = [join(bootstrap, group, topic, session_timeout_ms=SESSION_TIMEOUT_MS) for _ in range(2)]
    wait_for_assignment(members, PARTITIONS, evenly=True, timeout_s=DEADLINE_S)
    values = produced("before")
    wait_for_values(members, values, timeout_s=DEADLINE_S)
    offsets = read(members)
    assert set(offsets) == set(range(PARTITIONS))
    wait_for_commits(admin, group, offsets)
    leaves.close()
    wait_for_assignment([stays], PARTITIONS, timeout_s=DEADLINE_S)
    later = produced("after")
    wait_for_values([stays], later, timeout_s=DEADLINE_S)
    wait_for_commits(admin, group, read(members))
    stays.close()
    assert Counter(stays.values + leaves.values) == Counter(value.decode() for value in values + later)
