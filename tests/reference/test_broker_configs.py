"""Settings of brokers that change at run time (KIP-226): the same responses from Kafka and here, expected by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from coordinatord.testing.wire import Wire
from kafka_wire.api import alter_configs, incremental_alter_configs
from kafka_wire.api.alter_configs import AlterConfigsRequest
from kafka_wire.api.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafka_wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafka_wire.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from kafka_wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import build_batch
from kafka_wire.records.compression import Compression
from tests.daemon import HOST, Daemon
from tests.reference.broker import kafka_libs, prepare_broker
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)

BROKER = 4
SET, DELETE, APPEND, SUBTRACT = range(4)
DYNAMIC_BROKER, DYNAMIC_DEFAULT, STATIC, DEFAULT = 2, 3, 4, 5
INVALID, CONFIG = ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG


class Change(NamedTuple):
    """A change of one setting, and the expected error with the beginning of its message. `node`: the broker's id, or
    empty for the cluster.
    """

    node: str
    name: str
    operation: int
    value: str | None
    error: int = ErrorCode.NONE
    message: str | None = None


CHANGES = [
    Change("", "log.retention.ms", SET, "5000"),
    Change("0", "log.retention.ms", SET, "6000"),
    Change(
        "0", "log.retention.ms", SET, "x", INVALID, "Invalid value x for configuration log.retention.ms: Not a number"
    ),
    Change("0", "log.retention.ms", APPEND, "1", CONFIG, "Config value append is not allowed for config key: log."),
    Change("0", "log.cleanup.policy", APPEND, "compact"),
    Change("0", "log.cleanup.policy", SUBTRACT, "delete"),
    Change("0", "log.cleanup.policy", DELETE, None),
    Change("0", "num.partitions", SET, "3", INVALID, "Cannot update these configs dynamically: [num.partitions]"),
    Change("0", "num.partitions", DELETE, None),
    Change("", "node.id", SET, "3", INVALID, "Cannot update these configs dynamically: [node.id]"),
    Change("0", "made.up", SET, "3"),
    Change("", "sasl.kerberos.service.name", SET, "kafka", INVALID, "Cannot update these configs at default cluster"),
    Change("0", "sasl.kerberos.service.name", SET, "kafka"),
    Change(
        "0", "ssl.keystore.password", SET, "x", INVALID, "These security configs can be dynamically updated only per"
    ),
    Change("0", "num.io.threads", SET, "16"),
    Change("0", "num.io.threads", SET, "33", INVALID, "Invalid value org.apache.kafka.common.config.ConfigException: "),
    Change(
        "", "min.insync.replicas", DELETE, None, CONFIG, "Cluster-level min.insync.replicas cannot be removed while"
    ),
    Change("0", "min.insync.replicas", SET, "1", CONFIG, "Broker-level min.insync.replicas cannot be altered while"),
    Change("", "min.insync.replicas", SET, "1"),
    Change("7", "log.retention.ms", SET, "1", INVALID, "Unexpected broker id, expected 0"),
    Change("", "message.max.bytes", SET, "-1", INVALID, "Invalid value -1 for configuration message.max.bytes: Value"),
    Change("", "message.max.bytes", SET, "2000000"),
    Change("", "compression.type", SET, "brotli", INVALID, "Invalid value brotli for configuration compression.type"),
    Change("", "max.connections", SET, "1000"),
]


class Client:
    """A connection that changes and describes settings of brokers."""

    def __init__(self, port: int) -> None:
        self.wire = Wire(lambda: (HOST, port))

    def alter(self, change: Change) -> tuple[int, str | None]:
        config = incremental_alter_configs.AlterableConfig(change.name, change.operation, change.value)
        resource = incremental_alter_configs.AlterConfigsResource(BROKER, change.node, [config])
        [result] = self.wire.ask(IncrementalAlterConfigsRequest([resource]), 1).responses
        return result.error_code, result.error_message

    def replace(self, node: str, **configs: str) -> int:
        named = [alter_configs.AlterableConfig(name.replace("_", "."), value) for name, value in configs.items()]
        resource = alter_configs.AlterConfigsResource(BROKER, node, named)
        [result] = self.wire.ask(AlterConfigsRequest([resource]), 2).responses
        return int(result.error_code)

    def describe(self, node: str, *names: str) -> dict[str, tuple[Any, ...]]:
        """By name: value, source, whether it needs a restart, and the synonyms as (name, value, source)."""
        resource = DescribeConfigsResource(BROKER, node, list(names) or None)
        [result] = self.wire.ask(DescribeConfigsRequest([resource], include_synonyms=True), 4).results
        assert result.error_code == 0, result
        return {
            each.name: (
                each.value, each.config_source, each.read_only,
                [(synonym.name, synonym.value, synonym.source) for synonym in each.synonyms],
            )
            for each in result.configs
        }  # fmt: skip


@pytest.fixture(
    scope="module",
    params=[pytest.param("kafka", marks=pytest.mark.reference), pytest.param("ours", marks=pytest.mark.slow)],
)
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    directory: Path = tmp_path_factory.mktemp("configs")
    if request.param == "ours":
        daemon = Daemon(directory, {})
        daemon.start()
        yield Client(daemon.port)
        daemon.kill()
        return
    prepared = prepare_broker(kafka_libs(), directory, {"num.io.threads": "8"})
    prepared.format()
    running = prepared.start()
    yield Client(prepared.port)
    running.stop(kill=True)


def test_changes_have_kafkas_errors_and_are_described(client: Client) -> None:
    for change in CHANGES:
        error, message = client.alter(change)
        assert (error, (message or "")[: len(change.message or "")]) == (change.error, change.message or ""), (
            change, error, message,
        )  # fmt: skip
    default = {
        "log.retention.ms": ("5000", DYNAMIC_DEFAULT, False, [("log.retention.ms", "5000", DYNAMIC_DEFAULT)]),
        "max.connections": ("1000", DYNAMIC_DEFAULT, False, [("max.connections", "1000", DYNAMIC_DEFAULT)]),
        "message.max.bytes": ("2000000", DYNAMIC_DEFAULT, False, [("message.max.bytes", "2000000", DYNAMIC_DEFAULT)]),
        "min.insync.replicas": ("1", DYNAMIC_DEFAULT, False, [("min.insync.replicas", "1", DYNAMIC_DEFAULT)]),
    }
    wait_until(lambda: client.describe("") == default, "the cluster's settings are applied")
    described = client.describe("0", "log.retention.ms", "made.up", "sasl.kerberos.service.name", "num.partitions")
    assert described["log.retention.ms"] == (
        "6000", DYNAMIC_BROKER, False,
        [("log.retention.ms", "6000", DYNAMIC_BROKER), ("log.retention.ms", "5000", DYNAMIC_DEFAULT),
         ("log.retention.hours", "168", DEFAULT)],
    )  # fmt: skip
    assert described["made.up"][1:3] == (DYNAMIC_BROKER, True)
    assert described["sasl.kerberos.service.name"][:3] == ("kafka", DYNAMIC_BROKER, False)
    assert described["num.partitions"][2]


def test_a_request_for_all_settings_of_a_broker_replaces_them(client: Client) -> None:
    def sources(expected: dict[str, bool]) -> bool:
        """Compare which settings have a value of this broker. Kafka's brokers apply a change after their response."""
        found = client.describe("0", *expected)
        return {name: found[name][1] == DYNAMIC_BROKER for name in expected} == expected

    assert client.alter(Change("0", "log.retention.ms", SET, "6000")) == (0, None)
    assert client.replace("0", log_roll_ms="60000") == 0
    wait_until(lambda: sources({"log.retention.ms": False, "log.roll.ms": True}), "the settings were replaced")
    assert client.replace("0") == 0
    wait_until(lambda: sources({"log.retention.ms": False, "log.roll.ms": False}), "the settings were removed")
    assert client.replace("") == CONFIG


def test_the_largest_record_after_decompression(client: Client) -> None:
    """The limit is that of a record, not of its batch, and not of a batch that is not compressed."""
    topic = CreatableTopic("large", 1, 1, configs=[CreatableTopicConfig("max.decompressed.message.bytes", "1000")])
    assert client.wire.ask(CreateTopicsRequest([topic]), 5).topics[0].error_code == 0

    def produced(sizes: list[int], compression: Compression) -> int:
        records = build_batch([(None, bytes(size)) for size in sizes], 1_000, compression=compression)
        data = TopicProduceData("large", partition_data=[PartitionProduceData(0, bytes(records))])
        answer = client.wire.ask(ProduceRequest(None, -1, 30_000, [data]), 9)
        return int(answer.responses[0].partition_responses[0].error_code)

    wait_until(lambda: produced([1], Compression.NONE) == 0, "the partition has a leader")
    for compression in (Compression.GZIP, Compression.ZSTD):
        assert produced([990] * 3, compression) == 0  # a record has some bytes more than its value
        assert produced([1, 1_001, 1], compression) == ErrorCode.INVALID_RECORD
    assert produced([1_001], Compression.NONE) == 0

    def is_limit(value: str) -> bool:
        [found] = client.describe("0", "max.decompressed.message.bytes").values()
        return bool(found[0] == value)

    assert client.alter(Change("", "max.decompressed.message.bytes", SET, "0"))[0] == INVALID
    assert client.alter(Change("", "max.decompressed.message.bytes", SET, "500")) == (0, None)
    wait_until(lambda: is_limit("500"), "the cluster's limit is applied")
    assert client.alter(Change("", "max.decompressed.message.bytes", DELETE, None)) == (0, None)
    wait_until(lambda: is_limit(str(2**31 - 9)), "the cluster's limit was removed")
