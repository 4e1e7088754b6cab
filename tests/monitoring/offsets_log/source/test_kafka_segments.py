"""Segments that Kafka wrote: our rows say what Kafka's own tools say of them."""

from __future__ import annotations

import asyncio
import shutil
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coordinatord.monitoring.offsets_log.decode.projection import Wanted
from coordinatord.monitoring.offsets_log.decode.row_types import QUARANTINE
from coordinatord.monitoring.offsets_log.source.ranges import plan, read
from coordinatord.monitoring.offsets_log.source.segments import OFFSETS_TOPIC, find_logs
from coordinatord.testing.conform.raw_client import RawClient
from kafka_wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import iterate_batches
from kafka_wire.records.compression import Compression
from tests.clients.librdkafka import admin_client
from tests.monitoring.pipeline.dumped import Rows, compare
from tests.reference.described import describe

GOLDEN = Path(__file__).parents[3] / "golden" / "offsets_log"


def rows_in(path: Path, step: int = 3000) -> Rows:
    """All rows of the logs below `path`, by kind."""
    rows: Rows = {}
    for log in find_logs([str(path)], OFFSETS_TOPIC, None):
        for part in plan(log, step):
            for kind, batch in read(part, Wanted()):
                rows.setdefault(kind, []).extend(batch.to_pylist())
    return rows


def test_the_golden_segment() -> None:
    seen = compare((GOLDEN / "dump.txt").read_text(), rows_in(GOLDEN))
    assert sum(seen.values()) == 97
    assert QUARANTINE not in seen
    assert seen["offset_commits"] == 56
    assert seen["consumer_group_current_member_assignment"] == 8


@pytest.mark.reference
def test_groups_of_every_kind(kafka_libs: Path, tmp_path: Path) -> None:
    """Classic eager and cooperative, static members, KIP-848, transactions (one is left open), offsets that expire,
    deleted groups; each codec of the topic.
    """
    confluent_kafka = pytest.importorskip("confluent_kafka")
    from tests.clients import programs
    from tests.reference.broker import running_broker

    overrides = {
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "2",
        "transaction.state.log.num.partitions": "1",
        "offsets.retention.check.interval.ms": "500",
    }
    with running_broker(kafka_libs, tmp_path, overrides) as broker:
        programs.kafka_python(broker.bootstrap, "plain")
        for codec in ("gzip", "snappy", "lz4", "zstd"):
            set_codec(broker.bootstrap, codec)
            members(
                confluent_kafka,
                broker.bootstrap,
                f"cooperative-{codec}",
                {"partition.assignment.strategy": "cooperative-sticky"},
            )
            members(confluent_kafka, broker.bootstrap, f"next-{codec}", {"group.protocol": "consumer"})
            transactions(confluent_kafka, broker.bootstrap, f"transactional-{codec}")
        topic = create_topic(confluent_kafka, broker.bootstrap, "expiring")
        asyncio.run(commit_for_a_moment(broker.port, "expiring", topic))
        wait(lambda: has_expired(broker.data_dir, "expiring"), "a tombstone", 600, pause_s=0.2)
        open_transaction(confluent_kafka, broker.bootstrap, "left-open")
        described = describe(broker.tool).offsets
        broker.stop()
        rows: Rows = {}
        seen: dict[str, int] = {}
        codecs: set[int] = set()
        for directory in sorted(broker.data_dir.glob(f"{OFFSETS_TOPIC}-*")):
            (segment,) = directory.glob("*.log")
            found = rows_in(directory)
            for kind, count in compare(broker.dump_log(segment, "--offsets-decoder"), found).items():
                seen[kind] = seen.get(kind, 0) + count
            for kind, more in found.items():
                rows.setdefault(kind, []).extend(more)
            data = segment.read_bytes()
            codecs |= {header.codec for _, header in iterate_batches(data)}
            shutil.rmtree(directory)
    print(seen)
    assert QUARANTINE not in seen
    ours = committed(rows)
    assert {place: (offset, str(epoch)) for place, (offset, epoch) in ours.items()} == {
        place: (offset, epoch.replace("-", "None")) for place, (offset, epoch, _end) in described.items()
    }
    assert len(ours) > 30
    assert codecs == set(Compression)
    assert {row["marker"] for row in rows["transaction_markers"]} == {"ABORT", "COMMIT"}
    assert any(row["transactional"] for row in rows["offset_commits"])
    for kind in ("group_generations", "consumer_group_member_metadata", "consumer_group_target_assignment_member"):
        assert any(row["tombstone"] for row in rows[kind]) or kind == "group_generations"
        assert any(not row["tombstone"] for row in rows[kind])
    by_group: dict[str, list[dict[str, Any]]] = {}
    for row in rows["offset_commits"]:
        by_group.setdefault(row["group_id"], []).append(row)
    assert [row["tombstone"] for row in by_group["expiring"]] == [False, True]
    assert by_group["expiring"][0]["value_version"] == 1  # the only one that says when it ends
    assert by_group["expiring"][0]["expire_timestamp_ms"] == by_group["expiring"][0]["commit_timestamp_ms"] + 1
    assert {row["transactional"] for row in by_group["left-open"]} == {True}
    assert not any(place[0] == "left-open" for place in ours)
    generations = rows["group_generations"]
    assert {row["protocol"] for row in generations} >= {"range", "cooperative-sticky"}
    owned = [
        m["subscription"]["owned_partitions"] for row in generations for m in row["members"] or () if m["subscription"]
    ]
    assert any(owned)  # only a cooperative member tells what it has
    assert any(m["group_instance_id"] for row in generations for m in row["members"] or ())


def committed(rows: Rows) -> dict[tuple[str, str, int], tuple[int, int | None]]:
    """(group, topic, partition) -> (offset, leader epoch) in the end, as a table builder makes it of commits and
    markers. A transaction's offsets count from its marker on, unless something newer than them is there already.
    """
    now: dict[tuple[str, str, int], dict[str, Any]] = {}
    open_: dict[tuple[int, int], list[dict[str, Any]]] = {}
    log = [*rows["offset_commits"], *rows["transaction_markers"]]
    for row in sorted(log, key=lambda row: (row["log_partition"], row["log_offset"])):
        producer = (row["log_partition"], row["producer_id"])
        if "marker" in row:
            ended = open_.pop(producer, [])
            applied = ended if row["marker"] == "COMMIT" else []
        elif row["transactional"]:
            open_.setdefault(producer, []).append(row)
            applied = []
        else:
            applied = [row]
        for commit in applied:
            place = (commit["group_id"], commit["topic"], commit["partition"])
            if place not in now or now[place]["log_offset"] < commit["log_offset"]:
                now[place] = commit
    return {place: (row["committed_offset"], row["leader_epoch"]) for place, row in now.items() if not row["tombstone"]}


def set_codec(bootstrap: str, codec: str) -> None:
    from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, OFFSETS_TOPIC, configs={"compression.type": codec})])
    admin.close()


def members(library: Any, bootstrap: str, group: str, settings: dict[str, str]) -> None:
    """Two members of a group, one after the other, the first static; both commit and leave."""
    topic = create_topic(library, bootstrap, group)
    consumers = []
    for number in range(2):
        config = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "client.id": f"client-{number}",
            **({"group.instance.id": "static-0"} if number == 0 else {}),
            **settings,
        }
        consumer = library.Consumer(config)
        consumer.subscribe([topic])
        consumers.append(consumer)
        wait(lambda: all(poll(c) for c in consumers), "partitions for each member")  # called at once
        for c in consumers:
            wait(lambda: commit(library, c, topic), "a commit")  # noqa: B023
    for consumer in consumers:
        consumer.close()


def poll(consumer: Any) -> bool:
    consumer.poll(0.1)
    return bool(consumer.assignment())


def commit(library: Any, consumer: Any, topic: str) -> bool:
    consumer.poll(0.1)
    mine = [library.TopicPartition(p.topic, p.partition, 1, "näh ☃") for p in consumer.assignment()]
    try:
        consumer.commit(offsets=mine, asynchronous=False)
    except library.KafkaException:  # a rebalance is under way
        return False
    return bool(mine)


def wait(done: Callable[[], bool], what: str, polls: int = 900, pause_s: float = 0) -> None:
    for _ in range(polls):
        if done():
            return
        time.sleep(pause_s)
    raise AssertionError(f"waited in vain for {what}")


def transactions(library: Any, bootstrap: str, name: str) -> None:
    """Offsets committed in a transaction that commits, and in one that aborts."""
    topic = create_topic(library, bootstrap, name)
    producer = library.Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(120)
    consumer = library.Consumer({"bootstrap.servers": bootstrap, "group.id": name})
    for number, end in enumerate(
        (producer.commit_transaction, producer.abort_transaction, producer.commit_transaction)
    ):
        producer.begin_transaction()
        producer.produce(topic, b"x")
        offsets = [library.TopicPartition(topic, partition, 10 + number) for partition in range(4)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
        end(30)
    consumer.close()


def open_transaction(library: Any, bootstrap: str, name: str) -> None:
    """Offsets in a transaction that nobody ends."""
    topic = create_topic(library, bootstrap, name)
    producer = library.Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(120)
    producer.begin_transaction()
    consumer = library.Consumer({"bootstrap.servers": bootstrap, "group.id": name})
    offsets = [library.TopicPartition(topic, partition, 7) for partition in range(4)]
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
    consumer.close()


async def commit_for_a_moment(port: int, group: str, topic: str) -> None:
    """As old clients could: a commit that says how long it shall be kept."""
    client = await RawClient.connect("127.0.0.1", port, client_id="old")
    offset = OffsetCommitRequestPartition(0, 5, -1, "")
    for _ in range(600):  # until the coordinator has loaded the group's partition
        topics = [OffsetCommitRequestTopic(topic, partitions=[offset])]
        request = OffsetCommitRequest(group, retention_time_ms=1, topics=topics)
        answer = await client.ask(request, version=2)
        if answer.topics[0].partitions[0].error_code == ErrorCode.NONE:
            break
        await asyncio.sleep(0.1)
    else:
        raise AssertionError(answer)
    client.close()


def has_expired(data_dir: Path, group: str) -> bool:
    return any(row["tombstone"] for row in rows_in(data_dir)["offset_commits"] if row["group_id"] == group)


def create_topic(library: Any, bootstrap: str, name: str) -> str:
    from confluent_kafka.admin import NewTopic

    topic = f"{name}-{uuid.uuid4().hex[:6]}"
    admin = admin_client(bootstrap)
    for future in admin.create_topics([NewTopic(topic, 4, 1)]).values():
        future.result(30)
    producer = library.Producer({"bootstrap.servers": bootstrap})
    for partition in range(4):
        producer.produce(topic, b"first", partition=partition)
    producer.flush(30)
    return topic
