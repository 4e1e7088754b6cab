"""Records that a consumer has read and committed, and that the log has lost (KIP-320).

Ten are read and committed, the last five are lost, and eight others are written in their place: a client that compares
leader epochs reads them all, from the first one that was lost. Without a new epoch it would go on behind the tenth, as
confluent-kafka 2.16.1 does on Kafka, too: it does not compare the epoch of a committed offset.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaProducer

from tests.clients.brokers import QUICK_CONSUMER_SETTINGS, QUICK_SETTINGS
from tests.clients.families.clients import CLIENTS, Client
from tests.clients.families.program import Program, wait_for_assignment, wait_for_values
from tests.clients.families.test_groups import wait_for_commits
from tests.clients.kinds import Name
from tests.daemon import REPOSITORY, Daemon, running

pytestmark = [pytest.mark.clients, pytest.mark.timeout(600)]

COMPARING = [client for client in CLIENTS if client.name.startswith(("Java client", "franz-go"))]


def produce(daemon: Daemon, topic: str, first: int, end: int) -> list[bytes]:
    """Each record is a batch of its own, and all batches are as long."""
    producer = KafkaProducer(bootstrap_servers=daemon.bootstrap)
    values = [b"value-%06d" % number for number in range(first, end)]
    for value in values:
        producer.send(topic, value, partition=0).get(timeout=30)
    producer.close(timeout=10)
    return values


def repaired(daemon: Daemon, segment: Path) -> None:
    """A clean stop, and a repair of the second half."""
    assert daemon.stop() == 0
    position = segment.stat().st_size // 2
    words = ["log", "repair", "--yes", "--from-position", str(position), str(segment)]
    command = [sys.executable, "-m", "coordinatord", *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def power_failed(daemon: Daemon, segment: Path) -> None:
    """As after a power failure, when the system had not yet written the second half."""
    daemon.kill()
    with segment.open("r+b") as file:
        file.truncate(segment.stat().st_size // 2)


@pytest.mark.parametrize("lose", [repaired, power_failed])
@pytest.mark.parametrize("client", COMPARING, ids=lambda client: client.slug)
def test_what_replaces_lost_records_is_read(
    client: Client, lose: Callable[[Daemon, Path], None], group: str, join: Callable[..., Program], tmp_path: Path
) -> None:
    settings = {**QUICK_SETTINGS, **QUICK_CONSUMER_SETTINGS}
    if lose is power_failed:
        settings["log.flush"] = "never"
    with running(tmp_path, settings) as daemon:
        admin = KafkaAdminClient(bootstrap_servers=daemon.bootstrap)
        admin.create_topics({"orders": {"num_partitions": 1, "replication_factor": 1}})
        admin.wait_for_topics(["orders"])
        member = join(daemon.bootstrap, group, "orders")
        wait_for_assignment([member], 1)
        wait_for_values([member], produce(daemon, "orders", 0, 10))
        wait_for_commits(admin, group, 10)
        member.close()
        admin.close()

        lose(daemon, daemon.data_dir / "orders-0" / f"{0:020d}.log")
        daemon.start()
        after = produce(daemon, "orders", 10, 18)
        member = join(daemon.bootstrap, group, "orders")
        wait_for_values([member], after)
        assert sorted(member.values) == [value.decode() for value in after], "nothing else is read again"
        member.close()


@pytest.fixture
def group(name: Name) -> str:
    return name("group")
