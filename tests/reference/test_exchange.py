"""A data directory goes from Kafka to us and back, by the commands of deploy/MIGRATION.md, with everything in it.

Kafka writes it in several runs, one for each codec of `offsets.topic.compression.codec`: classic groups with and
without members, a static one, groups of the consumer protocol, transactions that were committed, aborted and left open,
deletions; and its cleaner has been at work. What groups have is asked of each broker with Kafka's ConsumerGroupCommand.
One journey for all tests: it takes most of a minute.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.structs import OffsetAndMetadata

from coordinatord.testing.conform.raw_client import RawClient
from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_wire.records.batch import iterate_batches
from kafka_wire.records.compression import Compression
from tests.daemon import REPOSITORY, Daemon
from tests.reference.broker import BrokerDirectory, KafkaBroker, prepare_broker, run_tool
from tests.reference.conftest import unavailable
from tests.reference.described import Described, Tool, describe, describe_once
from tests.reference.dumped import Dumped, read_dump
from tests.reference.guide import Shell
from tests.reference.test_transactional_logs import Client, Producer, play
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = [pytest.mark.reference, pytest.mark.timeout(1800)]

PARTITIONS = 3
RECORDS = 120
OFFSETS_PARTITIONS = 5
SEGMENT_BYTES = 1 << 20
LEAVES = -1
"""The member epoch of a heartbeat that leaves the group (KIP-848)."""

PATIENT = {
    # Members of the consumer protocol outlive their processes, as the classic ones do, at each of the three brokers:
    # how long it takes until they are described depends on the machine.
    "group.consumer.max.session.timeout.ms": "600000",
    "group.consumer.session.timeout.ms": "600000",
}
KAFKA = {
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.segment.bytes": str(SEGMENT_BYTES),
    # so that Kafka's cleaner has something to do, and does it soon
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.min.cleanable.ratio": "0.01",
    **PATIENT,
}
KAFKA_AFTER = {
    **KAFKA,
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
}
ADDRESS = "localhost:9092"
"""On the guide's page."""

OURS = {"group.initial.rebalance.delay.ms": "0", **PATIENT}

CLASSIC_WITH_MEMBERS = {"classic", "static"}
CONSUMER_PROTOCOL = {"consumer-empty", "consumer-members", "upgraded"}


@dataclasses.dataclass
class Journey:
    """What was seen on the way."""

    values: dict[tuple[int, int], str]
    transaction: Producer
    on_kafka: Described | None = None
    types_on_kafka: dict[str, str] = dataclasses.field(default_factory=dict)
    imported: str = ""
    import_tried: str = ""
    on_ours: Described | None = None
    unread: list[dict[str, object]] = dataclasses.field(default_factory=list)
    resumed_on_ours: dict[str, list[tuple[int, int, str]]] = dataclasses.field(default_factory=dict)
    left_on_ours: Described | None = None
    dumped: Dumped | None = None
    exported: str = ""
    back_on_kafka: Described | None = None
    types_back: dict[str, str] = dataclasses.field(default_factory=dict)
    after_commit: int = -1
    resumed_on_kafka: dict[str, list[tuple[int, int, str]]] = dataclasses.field(default_factory=dict)
    producer_id_on_kafka: int = -1
    kafka_said: str = ""


@pytest.fixture(scope="module")
def first(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> BrokerDirectory:
    """The broker that writes; stopped after each of its runs."""
    prepared = prepare_broker(kafka_libs, tmp_path_factory.mktemp("first"), KAFKA)
    prepared.format()
    return prepared


@pytest.fixture(scope="module")
def journey(first: BrokerDirectory, kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Journey]:
    tmp_path = tmp_path_factory.mktemp("journey")
    for codec in reversed(Compression):
        broker = restarted(first, codec)
        try:
            if codec is Compression.ZSTD:
                values = produce(broker)
            commit(broker.bootstrap, f"codec-{codec.name.lower()}", 10 + codec)
            if codec is Compression.NONE:
                found = write_history(broker, values)
        finally:
            broker.stop()
    daemon = Daemon(tmp_path, OURS)
    second = prepare_broker(kafka_libs, tmp_path / "second", KAFKA_AFTER)
    shell = Shell(kafka_libs, tmp_path)
    try:
        to_ours(found, shell, first, daemon)
        to_kafka(found, shell, daemon, second)
        yield found
    finally:
        if daemon.process is not None:
            daemon.kill()


# --- the way there ----------------------------------------------------------------------------------------------------


def restarted(directory: BrokerDirectory, codec: Compression) -> KafkaBroker:
    """The broker with another codec for offsets."""
    lines = directory.properties_file.read_text().splitlines()
    lines = [line for line in lines if not line.startswith("offsets.topic.compression.codec")]
    lines.append(f"offsets.topic.compression.codec={int(codec)}")
    directory.properties_file.write_text("\n".join(lines) + "\n")
    return directory.start()


def produce(broker: KafkaBroker) -> dict[tuple[int, int], str]:
    """Topic and records; which value is where."""
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    configs = {"retention.ms": "-1", "max.message.bytes": "2000000"}
    admin.create_topics([NewTopic("orders", PARTITIONS, 1, topic_configs=configs), NewTopic("gone", 1, 1)])
    admin.delete_topics(["gone"])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    sent = [producer.send("orders", f"value {number}".encode(), partition=number % 3) for number in range(RECORDS)]
    values = {}
    for number, future in enumerate(sent):
        where = future.get(PATIENCE_S)
        values[where.partition, where.offset] = f"value {number}"
    producer.close()
    return values


def commit(bootstrap: str, group: str, offset: int, metadata: str = "") -> None:
    """As a consumer without a group does it."""
    consumer = KafkaConsumer(group_id=group, bootstrap_servers=bootstrap, enable_auto_commit=False)
    consumer.assign([TopicPartition("orders", 0)])
    consumer.commit({TopicPartition("orders", 0): OffsetAndMetadata(offset, metadata, 0)})
    consumer.close(autocommit=False)


def member(bootstrap: str, group: str, protocol: str, records: int, **more: Any) -> dict[str, Any]:
    """Let librdkafka's consumer read and commit. With `stay` it is killed: its membership outlives it."""
    asked = {"bootstrap": bootstrap, "group": group, "protocol": protocol, "records": records, **more}
    command = [sys.executable, "-m", "tests.reference.member_program", json.dumps(asked)]
    process = subprocess.Popen(
        command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = process.stdout.readline()
        if not line:
            said = process.stderr.read()
            if "No module named 'confluent_kafka'" in said:
                unavailable("confluent-kafka")
            raise AssertionError(said)
        if not more.get("stay"):
            assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.communicate()
    found: dict[str, Any] = json.loads(line)
    return found


def write_history(broker: KafkaBroker, values: dict[tuple[int, int], str]) -> Journey:
    """Everything that one broker's last run can hold."""
    bootstrap = broker.bootstrap
    found = Journey(values, asyncio.run(transactions(broker)))
    for group, protocol, records, more in (
        ("classic-empty", "classic", 20, {}),
        ("classic", "classic", 30, {"stay": True}),
        ("static", "classic", 40, {"stay": True, "instance": "one"}),
        ("consumer-empty", "consumer", 50, {}),
        ("consumer-members", "consumer", 60, {"stay": True}),
        ("upgraded", "classic", 70, {}),
        ("upgraded", "consumer", 0, {}),
    ):
        member(bootstrap, group, protocol, records, **more)
    commit(bootstrap, "deleted", 5)
    broker.tool("ConsumerGroupCommand", "--delete", "--group", "deleted")
    commit(bootstrap, "forgotten", 6)
    broker.tool("ConsumerGroupCommand", "--delete-offsets", "--group", "forgotten", "--topic", "orders:0")
    fill_segments(bootstrap)
    wait_for_cleaner(broker.data_dir)
    found.on_kafka = describe(broker.tool)
    found.types_on_kafka = types(broker)
    return found


async def transactions(broker: KafkaBroker) -> Producer:
    """One committed, two aborted, one left open; the producer of the last."""
    client = Client(await RawClient.connect("127.0.0.1", broker.port))
    transaction, _ = await play(client)
    client.raw.close()
    return transaction


def fill_segments(bootstrap: str) -> None:
    """Two segments and more of one group's commits."""
    consumer = KafkaConsumer(group_id="busy", bootstrap_servers=bootstrap, enable_auto_commit=False)
    where = TopicPartition("orders", 1)
    consumer.assign([where])
    metadata = "m" * 4_000
    for offset in range(1, 2 * SEGMENT_BYTES // 4_000 + 50):
        consumer.commit({where: OffsetAndMetadata(offset % 100, metadata, 0)})
    consumer.close(autocommit=False)


def wait_for_cleaner(data_dir: Path) -> None:
    """Until Kafka's cleaner has noted how far it is."""
    deadline_s = time.monotonic() + PATIENCE_S
    file = data_dir / "cleaner-offset-checkpoint"
    while "__consumer_offsets" not in (file.read_text() if file.exists() else ""):
        assert time.monotonic() < deadline_s, "Kafka's cleaner has not cleaned"
        time.sleep(0.1)


def types(broker: KafkaBroker) -> dict[str, str]:
    """Group -> Classic, Consumer."""
    lines = broker.tool("ConsumerGroupCommand", "--list", "--type").splitlines()
    return dict(line.split()[:2] for line in lines if line.strip() and not line.startswith("GROUP"))


def loaded(directory: BrokerDirectory) -> KafkaBroker:
    """The broker, started, and its coordinator with all of the story's groups."""
    broker = directory.start()
    describe_once(broker.tool, lambda found: "codec-gzip" in {group for group, *_ in found.offsets})
    return broker


def to_ours(found: Journey, shell: Shell, first: BrokerDirectory, daemon: Daemon) -> None:
    """What the guide says, and what is there then."""
    broker = loaded(first)
    places = {
        "/var/lib/kafka/data": str(first.data_dir),
        "/var/lib/coordinatord": str(daemon.data_dir),
        ADDRESS: broker.bootstrap,
    }

    def serve() -> None:
        daemon.start()
        places[ADDRESS] = daemon.bootstrap

    try:
        before, found.import_tried, found.imported, after = shell.run(
            "From Kafka", places, {"stop": broker.stop, "serve": serve}
        )
    finally:
        broker.stop()
    assert "codec-gzip" in before
    assert "codec-gzip" in after
    found.on_ours = describe(tool_for(broker, daemon))
    wait_until(lambda: daemon.events("groups loaded"), "the end of loading")
    found.unread = daemon.events("unsupported records of the offsets log are kept, not loaded")
    found.resumed_on_ours = {
        "classic-empty": resume(daemon.bootstrap, "classic-empty"),
        "consumer-empty": resume(daemon.bootstrap, "consumer-empty"),
    }
    commit(daemon.bootstrap, "new", 33)
    found.left_on_ours = describe(tool_for(broker, daemon))


def to_kafka(found: Journey, shell: Shell, daemon: Daemon, second: BrokerDirectory) -> None:
    """The way back, to another broker."""
    places = {
        "/var/lib/kafka/data": str(second.data_dir),
        "/var/lib/coordinatord": str(daemon.data_dir),
        "server.properties": str(second.properties_file),
        ADDRESS: f"{second_host(second)}",
    }
    started: list[KafkaBroker] = []
    assert daemon.stop() == 0
    segments = ",".join(map(str, sorted(daemon.data_dir.glob("__consumer_offsets-*/*.log"))))
    found.dumped = read_dump(run_tool(second.libs, "DumpLogSegments", "--offsets-decoder", "--files", segments))
    try:
        _, _, found.exported, after = shell.run("To Kafka", places, {"start": lambda: started.append(loaded(second))})
        broker = started[0]
        assert "codec-gzip" in after
        found.back_on_kafka = describe(broker.tool)
        found.types_back = types(broker)
        asyncio.run(leave(broker, "consumer-members", found.back_on_kafka))
        found.resumed_on_kafka = {
            "classic-empty": resume(broker.bootstrap, "classic-empty"),
            "consumer-members": member(broker.bootstrap, "consumer-members", "consumer", 5)["read"],
        }
        found.after_commit, found.producer_id_on_kafka = asyncio.run(end_transaction(broker, found.transaction))
    finally:
        for broker in started:
            broker.stop()
            found.kafka_said = broker.log_file.read_text(errors="replace")


def second_host(directory: BrokerDirectory) -> str:
    return f"127.0.0.1:{directory.port}"


def tool_for(broker: KafkaBroker, daemon: Daemon) -> Tool:
    """Kafka's tools, asking our daemon."""

    def tool(name: str, *arguments: str) -> str:
        return run_tool(broker.libs, name, "--bootstrap-server", daemon.bootstrap, *arguments)

    return tool


def resume(bootstrap: str, group: str) -> list[tuple[int, int, str]]:
    """The first record of each partition that kafka-python's consumer gets in a group; it commits behind them."""
    consumer = KafkaConsumer(
        "orders", group_id=group, bootstrap_servers=bootstrap, enable_auto_commit=False, auto_offset_reset="earliest"
    )
    partitions = [TopicPartition("orders", index) for index in range(PARTITIONS)]
    ends = consumer.end_offsets(partitions)
    expected = {where.partition for where in partitions if (consumer.committed(where) or 0) < ends[where]}
    found: dict[int, tuple[int, int, str]] = {}
    deadline_s = time.monotonic() + PATIENCE_S
    while len(found) < len(expected):
        assert time.monotonic() < deadline_s, f"only {found} of {expected}"
        for where, records in consumer.poll(2_000).items():
            found.setdefault(where.partition, (where.partition, records[0].offset, records[0].value.decode()))
    consumer.commit({partitions[index]: OffsetAndMetadata(one[1] + 1, "", 0) for index, one in found.items()})
    consumer.close(autocommit=False)
    return sorted(found.values())


async def leave(broker: KafkaBroker, group: str, described: Described) -> None:
    """What the members of the consumer protocol, whose processes were killed long ago, did not say: that they leave."""
    raw = await RawClient.connect("127.0.0.1", broker.port)
    for member_id, *_ in described.members.get(group, ()):
        answer = await raw.ask(ConsumerGroupHeartbeatRequest(group, member_id, LEAVES), 0)
        assert answer.error_code == 0, answer
    raw.close()


async def end_transaction(broker: KafkaBroker, transaction: Producer) -> tuple[int, int]:
    """Commit what was begun on the first broker; the offset that its group has then, and a new producer's id.

    Before that its producer writes two records, and between them the last that the first broker has got once more.
    """
    client = Client(await RawClient.connect("127.0.0.1", broker.port))
    offset = await client.write(transaction, "more of it")
    transaction.sequence -= 2
    assert await client.write(transaction, "open") < offset
    transaction.sequence += 1
    assert await client.write(transaction, "still more") == offset + 1
    await client.end(transaction, commit=True)
    other = await client.producer("somebody else")
    deadline_s = time.monotonic() + PATIENCE_S
    while (committed := await client.offset("group", "orders", 0)) != 7:
        assert time.monotonic() < deadline_s, committed
    client.raw.close()
    return committed, other.id


# --- the tests --------------------------------------------------------------------------------------------------------


def only(described: Described, groups: set[str]) -> dict[str, set[tuple[str, ...]]]:
    return {group: members for group, members in described.members.items() if group in groups}


def test_kafka_wrote_what_this_is_about(journey: Journey, first: BrokerDirectory) -> None:
    codecs, transactional, gaps = set(), 0, 0
    for segment in first.data_dir.glob("__consumer_offsets-*/*.log"):
        next_offset = int(segment.stem)
        for _position, header in iterate_batches(segment.read_bytes()):
            codecs.add(Compression(header.codec))
            transactional += header.is_transactional
            gaps += header.base_offset > next_offset or header.record_count <= header.last_offset_delta
            next_offset = header.next_offset
    assert codecs == set(Compression)
    assert transactional >= 5
    assert gaps, "the cleaner has left no gap"
    assert journey.on_kafka is not None
    assert set(journey.on_kafka.members) == CLASSIC_WITH_MEMBERS | {"consumer-members"}
    assert {group for group, type_ in journey.types_on_kafka.items() if type_ == "Consumer"} == CONSUMER_PROTOCOL
    assert journey.on_kafka.offsets["group", "orders", 0][0] == 3
    assert "deleted" not in journey.on_kafka.states


def test_we_have_the_offsets_that_kafka_had(journey: Journey) -> None:
    assert journey.on_kafka is not None
    assert journey.on_ours is not None
    assert len(journey.on_kafka.offsets) >= 16
    assert journey.on_ours.offsets == journey.on_kafka.offsets


def test_we_have_the_groups_of_both_protocols_that_kafka_had(journey: Journey) -> None:
    """With their members, and what each of them owns."""
    assert journey.on_kafka is not None
    assert journey.on_ours is not None
    assert journey.on_ours.members == journey.on_kafka.members
    assert {group: journey.on_ours.states[group] for group in journey.on_kafka.states} == journey.on_kafka.states
    assert journey.unread == []


def test_consumers_go_on_where_they_had_committed(journey: Journey) -> None:
    assert journey.on_kafka is not None
    assert journey.left_on_ours is not None
    for resumed, described in (
        (journey.resumed_on_ours, journey.on_kafka),
        (journey.resumed_on_kafka, journey.left_on_ours),
    ):
        for group, records in resumed.items():
            begins = {index: described.offsets.get((group, "orders", index), (0,))[0] for index in range(PARTITIONS)}
            first_of: dict[int, int] = {}
            for index, offset, value in records:
                assert journey.values.get((index, offset), value) == value
                first_of.setdefault(index, offset)
            assert first_of == {index: begins[index] for index in first_of}, group
            assert first_of


def test_kafkas_decoder_prints_what_we_hold(journey: Journey) -> None:
    assert journey.left_on_ours is not None
    assert journey.dumped is not None
    assert journey.dumped.offsets == {key: value[:2] for key, value in journey.left_on_ours.offsets.items()}
    left = only(journey.left_on_ours, CLASSIC_WITH_MEMBERS)  # members of the consumer protocol have other records
    members = {group: {member[0] for member in members} for group, members in left.items()}
    assert {group: ids for group, ids in journey.dumped.members.items() if ids} == members
    # all that was ever written to it: here (1, 2, markers), and there, which is kept
    assert {"1", "2", "1 in a transaction", "COMMIT", "ABORT", "3", "5", "6", "7", "8"} <= set(journey.dumped.kinds)
    assert journey.dumped.kinds["tombstone"]


def test_kafka_has_back_what_we_had(journey: Journey) -> None:
    assert journey.left_on_ours is not None
    assert journey.back_on_kafka is not None
    assert journey.left_on_ours.offsets["new", "orders", 0][0] == 33
    assert journey.back_on_kafka.offsets == journey.left_on_ours.offsets
    assert journey.back_on_kafka.members == journey.left_on_ours.members
    assert journey.back_on_kafka.states == journey.left_on_ours.states


def test_kafka_knows_its_consumer_groups_again(journey: Journey) -> None:
    """All but the one that a classic member has joined on ours."""
    back = {group for group, type_ in journey.types_back.items() if type_ == "Consumer"}
    assert back == CONSUMER_PROTOCOL - {"consumer-empty"}
    assert journey.types_back["consumer-empty"] == "Classic"


def test_a_transaction_that_was_left_open_is_committed_on_the_other_side(journey: Journey) -> None:
    assert journey.after_commit == 7
    assert journey.producer_id_on_kafka > journey.transaction.id


def test_kafka_found_no_stray_and_nothing_to_cut_off(journey: Journey) -> None:
    assert "Completed load of" in journey.kafka_said
    complaints = re.findall(r".*(?: ERROR |marked stray|stray log|orruption|runcating).*", journey.kafka_said)
    assert complaints == []


def test_the_commands_say_what_they_did(journey: Journey) -> None:
    assert journey.imported.splitlines()[:-1] == journey.import_tried.splitlines()[:-1]
    assert "orders" in journey.exported
