"""A cluster as operators have it, on Apache Kafka: groups that are well, dead, stuck, robbed of records, in a crash
loop, behind transactions. What has to be said of each is written down here. `coordinatord lag` and the exporter have to
say it, and nothing worse of a healthy group at any time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.structs import OffsetAndMetadata

from coordinatord.cli import cli
from coordinatord.config.address import Listener
from coordinatord.exporter.choice import Choice
from coordinatord.exporter.reading import Reading
from coordinatord.exporter.serving import serve
from coordinatord.exporter.watcher import Watcher
from coordinatord.observe.health import Health
from coordinatord.pipeline.analysis.status import Rules
from coordinatord.pipeline.analysis.urgent import URGENT
from tests.exporter.scraped import get, of, samples
from tests.pipeline.epochs_story import OVERRIDES
from tests.reference.broker import KafkaBroker, running_broker

pytestmark = [pytest.mark.reference, pytest.mark.full, pytest.mark.timeout(1500)]

WINDOW_S = 20
WAIT_S = 400

PARTITIONS: dict[str, dict[str, str]] = {
    "healthy": {"orders": "healthy"},
    "dead": {"orders": "members expired"},
    "left": {"orders": "ended"},
    "robbed": {"scarce": "records lost"},
    "once": {"orders": "ended"},
    "stuck": {"orders": "stuck"},
    "marker": {"exact": "ok"},
    "aborted": {"undone": "ok"},
    "waiting": {"open": "waiting"},
    "moved on": {"orders": "unsubscribed", "quiet": "ok"},
    "loop": {"quiet": "ok"},
}
"""The status of each group in each topic; `healthy`: none that needs somebody."""
GROUPS = {group: next(iter(of_topics.values())) for group, of_topics in PARTITIONS.items()} | {
    "moved on": "ok", "loop": "crash loop",
}  # fmt: skip
"""What has to be said of each group."""

MEMBER = """
import sys, time
from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata
address, group, topic, how = sys.argv[1:]
consumer = KafkaConsumer(topic, group_id=group, bootstrap_servers=address, client_id=group, enable_auto_commit=False,
                         session_timeout_ms=10000, heartbeat_interval_ms=1000, auto_offset_reset="earliest")
place, commits = TopicPartition(topic, 0), 0
while True:
    consumer.poll(500)
    if place in consumer.assignment():
        offset = 5 if how == "stuck" else consumer.position(place)
        consumer.commit({place: OffsetAndMetadata(offset, "", -1)})
        commits += offset > 0
        if commits == 10:
            print("there", flush=True)
    time.sleep(0.2)
"""


@contextmanager
def member(broker: KafkaBroker, group: str, topic: str, how: str = "reads") -> Iterator[subprocess.Popen[str]]:
    """A member in a process of its own, which has committed ten times: from its rhythm one can tell that it is dead."""
    arguments = [sys.executable, "-c", MEMBER, broker.bootstrap, group, topic, how]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "there\n"
            yield process
        finally:
            process.kill()


def commit(broker: KafkaBroker, group: str, topic: str, offset: int) -> None:
    """Without a member, as Flink does it."""
    consumer = KafkaConsumer(group_id=group, bootstrap_servers=broker.bootstrap, enable_auto_commit=False)
    consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(offset, "", -1)})
    consumer.close()


def come_and_go(broker: KafkaBroker, group: str, topic: str) -> None:
    """A member that reads what there is, commits and leaves."""
    consumer = KafkaConsumer(
        topic, group_id=group, bootstrap_servers=broker.bootstrap, client_id=group, auto_offset_reset="earliest",
        enable_auto_commit=False, session_timeout_ms=6_000, heartbeat_interval_ms=1_000,
    )  # fmt: skip
    deadline = time.monotonic() + WAIT_S
    while not consumer.assignment():
        assert time.monotonic() < deadline, "no assignment"
        consumer.poll(2_000)
    place = TopicPartition(topic, 0)
    consumer.commit({place: OffsetAndMetadata(consumer.end_offsets([place])[place], "", -1)})
    consumer.close()


def produce(broker: KafkaBroker, topic: str, count: int) -> None:
    with KafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
        for _ in range(count):
            producer.send(topic, b"x", partition=0)
        producer.flush()


def transaction(broker: KafkaBroker, topic: str, name: str) -> KafkaProducer:
    """Five records in an open transaction."""
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=name, transaction_timeout_ms=800_000)
    producer.init_transactions()
    producer.begin_transaction()
    for _ in range(5):
        producer.send(topic, b"x", partition=0)
    producer.flush()
    return producer


@contextmanager
def watched(broker: KafkaBroker) -> Iterator[tuple[str, Watcher]]:
    reading = Reading(Choice(), Choice(deny=("__.*",)), rules=Rules(window_ms=WINDOW_S * 1000))
    health = Health()
    watcher = Watcher(broker.bootstrap, {}, reading, health, interval_s=0.5)
    server = serve(Listener("HTTP", "127.0.0.1", 0), watcher, health, "test")
    watcher.start()
    try:
        yield server.url.rstrip("/"), watcher
    finally:
        watcher.stop()
        server.stop()


def told_by_exporter(url: str) -> dict[str, str]:
    found = of(samples(get(f"{url}/metrics")[2]), "coordinatord_group_status")
    return {key[0]: key[1] for key, value in found.items() if value == 1}


def told_by_lag(broker: KafkaBroker) -> tuple[list[dict[str, Any]], str]:
    """Its rows, and its list of groups."""
    given = ["lag", "--bootstrap", broker.bootstrap, "--window", str(WINDOW_S)]
    rows, text = (CliRunner().invoke(cli, [*given, *more]) for more in (["--json"], []))
    assert (rows.exit_code, text.exit_code) == (0, 0), rows.output + text.output
    return json.loads(rows.output), text.output


def is_right(status: str | None, expected: str) -> bool:
    return status == expected if expected != "healthy" else status is not None and status not in URGENT


def test_each_verdict_is_right(kafka_libs: Path, tmp_path: Path) -> None:
    with running_broker(kafka_libs, tmp_path, {**OVERRIDES, "offsets.topic.num.partitions": "4"}) as broker:
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        admin.create_topics([NewTopic(each, 1, 1) for each in ("orders", "scarce", "exact", "undone", "open", "quiet")])
        for topic, count in (("orders", 50), ("scarce", 100), ("undone", 5), ("open", 5), ("quiet", 5)):
            produce(broker, topic, count)
        transaction(broker, "exact", "exact-0").commit_transaction()
        transaction(broker, "undone", "undone-0").abort_transaction()
        opened = transaction(broker, "open", "open-0")
        for group, topic, offset in (
            ("robbed", "scarce", 20), ("once", "orders", 3), ("marker", "exact", 5), ("aborted", "undone", 5),
            ("waiting", "open", 5), ("moved on", "orders", 4),
        ):  # fmt: skip
            commit(broker, group, topic, offset)
        admin.delete_records({TopicPartition("scarce", 0): 100})
        come_and_go(broker, "left", "orders")
        with (
            watched(broker) as (url, _watcher),
            member(broker, "healthy", "orders"),
            member(broker, "stuck", "orders", "stuck"),
            member(broker, "moved on", "quiet"),
        ):
            with member(broker, "dead", "orders") as process:
                process.kill()
            check(broker, url)
        opened.abort_transaction()
        admin.close()


def check(broker: KafkaBroker, url: str) -> None:
    """Produce, and let a client come and go, until the exporter says what is right of all; then `lag` does."""
    seen: dict[str, set[str]] = {group: set() for group in GROUPS}
    deadline = time.monotonic() + WAIT_S
    wrong: dict[str, str | None] = dict.fromkeys(GROUPS)
    lives = 0
    while wrong:
        assert time.monotonic() < deadline, wrong
        produce(broker, "orders", 3)
        if lives < 4:
            come_and_go(broker, "loop", "quiet")
            lives += 1
        told = told_by_exporter(url)
        for group, status in told.items():
            seen.get(group, set()).add(status)
        wrong = {group: told.get(group) for group, right in GROUPS.items() if not is_right(told.get(group), right)}
        time.sleep(0.5)
    for group, right in GROUPS.items():
        assert not seen[group] & (URGENT - {right, "storm"}), f"{group}: {seen[group]}"
    produce(broker, "orders", 3)  # they have come since the dead one died, whatever the machine did meanwhile
    rows, text = told_by_lag(broker)
    found = {(row["group_id"], row["topic"]): row for row in rows}
    for group, of_topics in PARTITIONS.items():
        for topic, right in of_topics.items():
            row = found[group, topic]
            assert is_right(row["status"], right), row
    assert found["robbed", "scarce"]["lost_records"] == 80
    assert "producer" in found["waiting", "open"]["why"]
    assert "(open-0)" in found["waiting", "open"]["why"]
    assert found["marker", "exact"]["lag"] == found["aborted", "undone"]["lag"] == 0
    urgent = sum(right in URGENT for right in GROUPS.values())
    assert f"{len(GROUPS)} groups, {urgent} of them need somebody" in text
    assert "crash loop" in text
