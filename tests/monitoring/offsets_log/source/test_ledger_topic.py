"""The ledger from the daemon that serves it: what its files say, each record once, whoever of its workers wrote it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.structs import OffsetAndMetadata

from coordinatord.monitoring.offsets_log.source.ledger_topic import LEDGER_TOPIC, Entry, ledger_of
from coordinatord.monitoring.offsets_log.source.options import Options, read_options
from coordinatord.monitoring.offsets_log.source.segments import Log, Segment
from kafka_wire.records.batch import build_batch
from tests.daemon import Daemon, running
from tests.support.waiting import wait_until

GROUPS = 4
NO_DELAY = {"group.initial.rebalance.delay.ms": "0"}


def joined(bootstrap: str, group: str) -> KafkaConsumer:
    """A consumer that has read what there is. One long poll: short ones give up Metadata that comes late, again and
    again.
    """
    consumer = KafkaConsumer(
        "orders", group_id=group, bootstrap_servers=bootstrap, auto_offset_reset="earliest", enable_auto_commit=False
    )
    assert consumer.poll(60_000)
    return consumer


def rebalance(bootstrap: str) -> None:
    for number in range(GROUPS):
        joined(bootstrap, f"group-{number}").close()


def entries(options: Options, starts: dict[int, int] | None = None) -> list[Entry]:
    return sorted(ledger_of(options, starts or {}))


def outcomes(found: list[Entry]) -> dict[str, list[str]]:
    """By group, in order. A member came and left; it may have joined again in between, when it heard of the topic."""
    told: dict[str, list[str]] = {}
    for _partition, _offset, group, text in found:
        told.setdefault(group, []).append(json.loads(text)["outcome"])
    return told


def all_of(options: Options, rounds: int = 1) -> list[Entry]:
    """Once all have been written, which is a moment later."""
    wait_until(lambda: [each.count("empty") for each in outcomes(entries(options)).values()] == [rounds] * GROUPS)
    return entries(options)


def create_topic(bootstrap: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic("orders", 3, 1)])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    producer.send("orders", b"there is something to read", partition=0)
    producer.flush()
    producer.close()


def check(daemon: Daemon) -> None:
    create_topic(daemon.bootstrap)
    of_broker = read_options({"bootstrap": daemon.bootstrap})
    assert entries(of_broker) == [], "no group has rebalanced yet"
    rebalance(daemon.bootstrap)
    found = all_of(of_broker)
    logged: dict[str, list[str]] = {}
    for event in daemon.events("rebalance"):
        logged.setdefault(event["group"], []).append(event["outcome"])
    assert outcomes(found) == logged
    assert logged.keys() == {f"group-{number}" for number in range(GROUPS)}

    # A second look begins where the first one ended.
    nexts = {partition: offset + 1 for partition, offset, _, _ in found}
    assert entries(of_broker, nexts) == []
    consumer = joined(daemon.bootstrap, "group-1")
    wait_until(lambda: bool(entries(of_broker, nexts)))
    consumer.close()
    wait_until(lambda: "empty" in outcomes(entries(of_broker, nexts))["group-1"])
    assert {entry[2] for entry in entries(of_broker, nexts)} == {"group-1"}
    some = read_options({"bootstrap": daemon.bootstrap, "groups": "group-1"})
    assert entries(some) == [entry for entry in entries(of_broker) if entry[2] == "group-1"]
    assert entries(read_options({"paths": json.dumps([str(daemon.data_dir)])})) == entries(of_broker)


def test_a_segment_that_retention_takes_while_it_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / f"{LEDGER_TOPIC}-3"
    directory.mkdir()
    for offset, group in ((0, "gone"), (7, "kept")):
        value = json.dumps({"version": 1, "group": group}).encode()
        (directory / f"{offset:020d}.log").write_bytes(build_batch([(group.encode(), value)], 1_000, offset))
    listed = Log.segments

    def segments(log: Log) -> list[Segment]:
        found = listed(log)
        (directory / f"{0:020d}.log").unlink()
        return found

    monkeypatch.setattr(Log, "segments", segments)
    found = entries(read_options({"path": str(tmp_path)}))
    assert [(partition, offset, group) for partition, offset, group, _ in found] == [(3, 7, "kept")]


def test_from_the_daemon(tmp_path: Path) -> None:
    with running(tmp_path, NO_DELAY) as daemon:
        check(daemon)


@pytest.mark.slow
def test_from_two_workers(tmp_path: Path) -> None:
    with running(tmp_path, NO_DELAY, workers=2) as daemon:
        check(daemon)


@pytest.mark.reference
def test_a_kafka_cluster_has_none(kafka_libs: Path, tmp_path: Path) -> None:
    """Nothing is read, nothing is said, and the topic is not made by looking for it."""
    from tests.reference.broker import running_broker

    with running_broker(kafka_libs, tmp_path) as broker:
        create_topic(broker.bootstrap)
        consumer: Any = KafkaConsumer(group_id="g", bootstrap_servers=broker.bootstrap)
        consumer.commit({TopicPartition("orders", 0): OffsetAndMetadata(1, "", -1)})
        assert entries(read_options({"bootstrap": broker.bootstrap})) == []
        assert LEDGER_TOPIC not in consumer.topics()
        assert not (broker.data_dir / f"{LEDGER_TOPIC}-0").exists()
        consumer.close()
