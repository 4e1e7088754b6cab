"""coordinatord.testing against Apache Kafka itself: reads and waits are the same, what is ours alone is skipped.

That keeps the fixtures honest: a suite that passed on us alone would teach what is not so.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reference.broker import running_broker
from tests.reference.record import coordinator_ready

pytestmark = [pytest.mark.reference, pytest.mark.clients]

QUICK = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
TIMEOUT_S = 600
RUN = """
import time
import pytest
from coordinatord.testing import Kafka

pytestmark = pytest.mark.kafka(topics={"orders": 4})

def test_reads(kafka: Kafka) -> None:
    kafka.put("orders", range(8))
    assert kafka.records("orders", decode=int) == list(range(8))
    assert kafka.end_offsets("orders") == {("orders", partition): 2 for partition in range(4)}
    kafka.put("made", [b"x", None, "y", {"a": 1}], key="k", headers=[("h", b"v")])
    assert [(each.key, each.value) for each in kafka.messages("made")] == [
        (b"k", b"x"), (b"k", None), (b"k", b"y"), (b"k", b'{"a": 1}')
    ]
    assert kafka.messages("made")[0].headers == (("h", b"v"),)
    assert kafka.group("nobody").state == "Dead"

@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups(kafka: Kafka, protocol: str) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    kafka.put("orders", range(8))
    group = kafka.group(f"billing-{protocol}")
    consumer = confluent_kafka.Consumer({
        "bootstrap.servers": kafka.bootstrap_servers, "client.id": "a", "group.id": group.group_id,
        "group.protocol": protocol, "auto.offset.reset": "earliest", "enable.auto.commit": False,
    })
    consumer.subscribe(["orders"])
    found, ends = [], time.monotonic() + 60
    while len(found) < 8:
        assert time.monotonic() < ends
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            found.append(message.value())
    view = group.until_assigned("a", partitions=4).result
    assert (view.protocol, view.state) == (protocol, "Stable")
    assert view.assignment == {"a": frozenset(("orders", partition) for partition in range(4))}
    assert kafka.lag(group.group_id) == {("orders", partition): 2 for partition in range(4)}
    consumer.commit(asynchronous=False)
    assert kafka.committed(group.group_id) == {("orders", partition): 2 for partition in range(4)}
    consumer.close()
    group.until_empty()

def test_verbs(kafka: Kafka) -> None:
    kafka.advance(minutes=1)

def test_faults(kafka: Kafka) -> None:
    with kafka.fail("Fetch", "NOT_LEADER_OR_FOLLOWER", optional=True):
        pass
"""


def outcome(where: str, *tests: Path | str, directory: Path) -> tuple[dict[str, int], str]:
    """How many tests passed, failed and were skipped; and what pytest printed."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rs",
        "-p",
        "no:cacheprovider",
        f"--kafka={where}",
        *map(str, tests),
    ]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    last = done.stdout.strip().splitlines()[-1]
    return {what: int(count) for count, what in re.findall(r"(\d+) (\w+)", last.partition(" in ")[0])}, done.stdout


def test_reads_and_waits_are_those_of_kafka(kafka_libs: Path, tmp_path: Path) -> None:
    (tmp_path / "test_both.py").write_text(RUN)
    ours, printed = outcome("thread", "test_both.py", directory=tmp_path)
    assert ours == {"passed": 5}, printed
    with running_broker(kafka_libs, tmp_path / "kafka", QUICK) as broker:
        asyncio.run(coordinator_ready(broker))
        theirs, printed = outcome(broker.bootstrap, "test_both.py", directory=tmp_path)
    assert theirs == {"passed": 3, "skipped": 2}, printed
    assert "Only coordinatord can do this, and the broker is another one: make a fault." in printed
