"""The operator's tools on Kafka itself while one of its two brokers is down, and on the directory of the other one:
what can be known is shown, and what cannot be known is named.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from coordinatord.cli import cli
from coordinatord.monitoring.offsets_log.source.broker import BrokerTail
from coordinatord.monitoring.offsets_log.source.end_offsets import from_broker
from coordinatord.monitoring.offsets_log.source.options import read_options
from coordinatord.monitoring.offsets_log.source.tail import check_kept
from coordinatord.transport.cluster.partitioner import partition_for
from tests.daemon import free_port
from tests.reference.broker import KafkaBroker, prepare_broker, running_broker, wait_until_serving
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.reference, pytest.mark.timeout(600)]

LOG_PARTITIONS = 4
RECORDS = 20
GROUPS = [f"group-{number}" for number in range(12)]
SHARERS = [f"sharers-{number}" for number in range(12)]
STREAMS = [f"streams-{number}" for number in range(12)]
INDEX_BYTES = 10 << 20
WAIT_S = 240


@dataclass
class Outage:
    """A broker that is up, and what the other one led. `leads` has the leader of each partition of the offsets log."""

    up: KafkaBroker
    leads: dict[int, int]
    sharers: str
    streams: str
    """A share group and a streams group that this broker coordinates."""

    def groups_of(self, node: int) -> list[str]:
        """The groups whose part of the offsets log this node led."""
        return [group for group in GROUPS if self.leads[partition_for(group, LOG_PARTITIONS)] == node]

    def run(self, *arguments: str, where: tuple[str, ...] | None = None, status: int = 0) -> Result:
        told = CliRunner().invoke(cli, [*arguments, *(where or ("--bootstrap", self.up.bootstrap))])
        assert told.exit_code == status, (told.output, told.exception)
        return told


def until(holds: Callable[[], object], what: str) -> None:
    wait_until(holds, what, timeout_s=WAIT_S)


def leaders(bootstrap: str, topic: str) -> dict[int, int]:
    """The leader of each partition, -1 for none; nothing if the node that was asked is the one that is down."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        [found] = admin.describe_topics([topic])
        return {each["partition_index"]: each["leader_id"] for each in found["partitions"]}
    except KafkaError:
        return {}
    finally:
        admin.close()


def second_broker(up: KafkaBroker, directory: Path, settings: dict[str, str]) -> KafkaBroker:
    """Another node of the cluster, which is no controller."""
    given = dict(line.split("=", 1) for line in up.properties_file.read_text().splitlines())
    port = free_port()
    overrides = settings | {
        "process.roles": "broker",
        "node.id": "1",
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.quorum.voters": given["controller.quorum.voters"],
    }
    prepared = prepare_broker(up.libs, directory, overrides)
    prepared.port = port
    prepared.format()
    return prepared.launch()


def _text(value: str) -> bytes:
    """A string of Kafka's flexible versions that is shorter than 127 bytes."""
    return bytes([len(value) + 1]) + value.encode()


NOTHING, EMPTY = b"\0", b"\1"
"""A string or an array of Kafka's flexible versions that is null, or an array without elements."""
NO_TAGS = b"\0"


def join_share_group(port: int, group: str) -> None:
    """One ShareGroupHeartbeat (KIP-932), v1, by its bytes: no Python client has share groups."""
    member = _text(group) + _text("AAAAAAAAAAAAAAAAAAAAAQ") + struct.pack(">i", 0)
    _heartbeat(port, 76, 1, member + NOTHING + bytes([2]) + _text("orders") + NO_TAGS)


def join_streams_group(port: int, group: str) -> None:
    """One StreamsGroupHeartbeat (KIP-1071), v0, by its bytes, of a topology with one subtopology that reads orders."""
    member = _text(group) + _text("AAAAAAAAAAAAAAAAAAAAAQ") + struct.pack(">ii", 0, 0) + NOTHING + NOTHING
    subtopology = _text("0") + bytes([2]) + _text("orders") + 5 * EMPTY + NO_TAGS
    topology = b"\1" + struct.pack(">i", 0) + bytes([2]) + subtopology + NO_TAGS
    tasks, endpoint, tags, ends = 3 * EMPTY, b"\xff", EMPTY, 2 * NOTHING
    rest = tasks + _text("process") + endpoint + tags + ends + b"\0" + NO_TAGS
    _heartbeat(port, 88, 0, member + struct.pack(">i", 60_000) + topology + rest)


def _heartbeat(port: int, api_key: int, version: int, body: bytes) -> None:
    frame = struct.pack(">hhih", api_key, version, 7, 4) + b"test" + NO_TAGS + body
    deadline_s = time.monotonic() + WAIT_S
    while True:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            connection.sendall(struct.pack(">i", len(frame)) + frame)
            answer = connection.recv(4096)
        code = struct.unpack(">h", answer[13:15])[0]  # after size, correlation id, tags and throttle time
        if code not in (14, 15, 16):  # the coordinator loads, or is not there yet
            assert code == 0, answer
            return
        assert time.monotonic() < deadline_s
        time.sleep(0.3)


@pytest.fixture(scope="module")
def outage(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outage]:
    directory = tmp_path_factory.mktemp("outage")
    settings = {"offsets.topic.num.partitions": str(LOG_PARTITIONS), "broker.session.timeout.ms": "6000"}
    with running_broker(kafka_libs, directory / "one", settings) as up:
        down = second_broker(up, directory / "two", settings)
        try:
            assert wait_until_serving(down), down.log_tail()
            up.tool("TopicCommand", "--create", "--topic", "orders", "--replica-assignment", "0,1,0")
            producer = KafkaProducer(bootstrap_servers=up.bootstrap)
            for number in range(3 * RECORDS):
                producer.send("orders", b"x", partition=number % 3).get(timeout=60)
            producer.close()
            for group in GROUPS:
                consumer = KafkaConsumer(group_id=group, bootstrap_servers=up.bootstrap, enable_auto_commit=False)
                places = (TopicPartition("orders", number) for number in range(3))
                consumer.commit({place: OffsetAndMetadata(5, "", -1) for place in places})
                consumer.close()
            leads = leaders(up.bootstrap, "__consumer_offsets")
            assert set(leads.values()) == {0, 1}
            sharers, streams = (
                next(name for name in names if leads[partition_for(name, LOG_PARTITIONS)] == 0)
                for names in (SHARERS, STREAMS)
            )
            join_share_group(up.port, sharers)
            join_streams_group(up.port, streams)
            down.stop(kill=True)
            until(lambda: leaders(up.bootstrap, "orders").get(1) == -1, "orders-1 has a leader")
            yield Outage(up, leads, sharers, streams)
        finally:
            down.stop(kill=True)


def test_lag_shows_what_can_be_known(outage: Outage) -> None:
    told = outage.run("lag", "--json")
    rows = {(row["group_id"], row["partition"]): row for row in json.loads(told.stdout)}
    assert {group for group, _ in rows} == set(outage.groups_of(0)) != set(GROUPS)
    for (_, number), row in rows.items():
        expected = (None, None, "unknown") if number == 1 else (RECORDS, RECORDS - 5, "behind")
        assert (row["end_offset"], row["lag"], row["status"]) == expected
    lost = ", ".join(f"__consumer_offsets-{number}" for number, node in sorted(outage.leads.items()) if node == 1)
    assert lost in told.stderr
    assert "the groups of that part of the log are missing here" in told.stderr
    assert "orders-1 has no leader now: what is unread there is not known" in told.stderr


def test_lag_of_one_group(outage: Outage) -> None:
    """Of one group only its partition is read: others without a leader are no matter."""
    group = outage.groups_of(0)[0]
    told = outage.run("lag", group, "--json")
    assert {row["group_id"] for row in json.loads(told.stdout)} == {group}
    assert "__consumer_offsets" not in told.stderr
    gone = outage.groups_of(1)[0]
    lost = partition_for(gone, LOG_PARTITIONS)
    assert f"__consumer_offsets-{lost} has no leader now." in outage.run("lag", gone, status=2).output


def test_what_pipeline_run_reads(outage: Outage) -> None:
    """The ends of all partitions that have a leader; the log goes on later where it cannot be read now."""
    endings = from_broker(outage.up.bootstrap, 0, None)
    assert {(each.partition, each.end_offset) for each in endings if each.topic == "orders"} == {
        (0, RECORDS),
        (2, RECORDS),
    }
    tail = BrokerTail(read_options({"bootstrap": outage.up.bootstrap}))
    ends = tail.ends()
    lost = {f"__consumer_offsets-{number}" for number, node in outage.leads.items() if node == 1}
    assert tail.absent == lost
    assert ends.keys() == tail.begins().keys() == {f"__consumer_offsets-{n}" for n in outage.leads} - lost
    start = {**dict.fromkeys(lost, 3), **ends}
    assert check_kept(start, ends, True, tail.absent) == start


def test_a_partition_without_a_leader_is_named(outage: Outage) -> None:
    group = outage.groups_of(0)[0]
    told = outage.run("groups", "reset-offsets", group, "--topic", "orders", "--to-latest", status=1)
    assert told.stderr == "coordinatord: orders-1: there is no leader now.\n"


@pytest.mark.parametrize("kind", ["share", "streams"])
def test_a_group_of_another_type(outage: Outage, kind: str) -> None:
    group = outage.sharers if kind == "share" else outage.streams
    assert f"{group}  {kind}" in outage.run("groups", "list").stdout
    for command in ("describe", "members"):
        told = outage.run("groups", command, group).stdout
        assert told.startswith(f"Group {group} is ")
        assert ": 1 member in epoch " in told
        assert f" ({kind} protocol, node " in told
    assert f"group {group} is " in outage.run("groups", "delete", group, status=1).stderr
    if kind == "share":
        assert f"Share group {group} is Stable: 1 member." in outage.run("groups", "why", group).stdout
        assert f"{group}  no offsets" in outage.run("lag", group).stdout
    else:
        assert "nothing records why it rebalances" in outage.run("groups", "why", group, status=1).stderr
        assert "is a streams group that has committed no offset." in outage.run("lag", group, status=1).stderr


def test_why_on_a_plain_kafka(outage: Outage) -> None:
    told = outage.run("groups", "why", outage.groups_of(0)[0]).stdout
    assert "A plain Kafka records no causes of rebalances" in told


def test_a_live_directory_is_read_as_far_as_there_are_entries(outage: Outage) -> None:
    """A broker gives the indexes of each active segment 10 MiB at once, nearly all of it zeros."""
    directory = outage.up.data_dir
    indexes = [*directory.glob("orders-*/*.index"), *directory.glob("__consumer_offsets-*/*.timeindex")]
    assert min(path.stat().st_size for path in indexes) > INDEX_BYTES - 16, "whole entries of 8 and of 12 bytes"
    source = ("--source", str(directory))
    outage.run("lag", "--json", where=source)  # reads the modules of the command, too
    before = bytes_read()
    rows = json.loads(outage.run("lag", "--json", where=source).stdout)
    assert bytes_read() - before < INDEX_BYTES
    shared = [row for row in rows if row["group_id"] == outage.sharers]
    committed = [row for row in rows if row not in shared]
    expected = {(group, number) for group in outage.groups_of(0) for number in range(3)}
    assert {(row["group_id"], row["partition"]) for row in committed} == expected
    assert {row["lag"] for row in committed if row["partition"] != 1} == {RECORDS - 5}
    assert {row["status"] for row in shared} <= {"unknown"}, (
        "the state of a partition may lie on the broker that is away"
    )


def bytes_read() -> int:
    """What this process has read so far, from whatever."""
    return int(Path("/proc/self/io").read_text().split("rchar:")[1].split()[0])
