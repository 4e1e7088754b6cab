"""One group of members of every family: each client's leader can read the others' subscriptions, and the vote holds."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from kafka import KafkaAdminClient

from tests.clients.families.clients import CLIENTS, Client
from tests.clients.families.conftest import HEARTBEAT_INTERVAL_MS
from tests.clients.families.program import Command, Program, wait_for, wait_for_assignment, wait_for_values
from tests.clients.kinds import MakeTopic, Name, Produce

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1800)]

PARTITIONS = 24
RECORDS = 480
SESSION_TIMEOUT_MS = 15_000
ALONE = {
    "kafkajs 2.2.4": "its assignor is called RoundRobinAssigner, and nobody else has one of that name",
    "kafka-go 0.4.51": "its subscriptions say version 1 and end before the owned partitions: others cannot read them",
}


@pytest.fixture
def members() -> Iterator[list[Program]]:
    """Those that a test started, killed when it ends."""
    started: list[Program] = []
    yield started
    for each in started:
        if each.process.poll() is None:
            each.kill()


@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
def test_members_of_every_family(
    assignor: str,
    bootstrap: str,
    make_topic: MakeTopic,
    produce: Produce,
    name: Name,
    admin: KafkaAdminClient,
    commands: Callable[[Client], Command],
    members: list[Program],
) -> None:
    """They share the partitions; then the leader leaves, and another family's client assigns."""
    topic, group = make_topic(PARTITIONS), name("group")
    families = [client for client in CLIENTS if assignor in client.assignors and client.name not in ALONE]
    families = [client for client in families if client.plays("join")]
    settings = {"mode": "consume", "bootstrap": bootstrap, "group": group, "topic": topic, "assignor": assignor}
    settings |= {"session_timeout_ms": str(SESSION_TIMEOUT_MS), "heartbeat_interval_ms": str(HEARTBEAT_INTERVAL_MS)}
    for client in families:
        try:
            command = commands(client)
        except pytest.skip.Exception:  # an optional client's tools are missing
            assert os.environ.get("CI") != "true" or client.optional
            continue
        members.append(client.start(command, **settings))
        # One by one: the first leads the group at first, and its successors are known.
        wait_for(members, lambda joined=len(members): len(described(admin, group)["members"]) == joined, client.name)
    wait_for_assignment(members, PARTITIONS)
    values = produce(topic, RECORDS, PARTITIONS)
    wait_for_values(members, values)
    while len(members) > 2:
        leader = members.pop(0)
        leader.close()
        wait_for_assignment(members, PARTITIONS)
    state = described(admin, group)
    assert (state["group_state"], state["protocol_data"]) == ("Stable", assignor)
    last = produce(topic, RECORDS, PARTITIONS)
    wait_for_values(members, last)
    seen = Counter(value for each in members for value in each.values)
    assert all(seen[value.decode()] == 1 for value in last)


def described(admin: KafkaAdminClient, group: str) -> dict[str, object]:
    return admin.describe_groups([group])[group]
