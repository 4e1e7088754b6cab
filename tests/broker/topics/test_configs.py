"""Topics' and the broker's settings: parsed, described, changed."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from coordinatord.base.config import Settings
from coordinatord.broker.log.simulated_disk import SimulatedDisk
from coordinatord.broker.topics.config_table import TABLE, InvalidConfig
from coordinatord.broker.topics.configs import Configs, parse, text_of
from kafka_wire.api import alter_configs, incremental_alter_configs
from kafka_wire.api.alter_configs import AlterConfigsRequest
from kafka_wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafka_wire.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from kafka_wire.errors import ErrorCode
from tests.broker.topics.world import World, batch

TOPIC, BROKER, GROUP = 2, 4, 32
SET = 0


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("retention.ms", " 1000 ", 1000),
        ("retention.ms", "+5", 5),
        ("cleanup.policy", "compact, delete", ("compact", "delete")),
        ("cleanup.policy", "", ()),
        ("cleanup.policy", "delete,delete", ("delete",)),
        ("preallocate", "TRUE", True),
        ("min.cleanable.dirty.ratio", "0.25", 0.25),
        ("message.timestamp.type", "LogAppendTime", "LogAppendTime"),
        ("retention.bytes", str(2**63 - 1), 2**63 - 1),
    ],
)
def test_values(name: str, text: str, value: object) -> None:
    assert parse(TABLE[name], text) == value


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        # As Kafka's ConfigDef words them.
        ("retention.ms", "-2", "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        ("retention.ms", "1e3", "Invalid value 1e3 for configuration retention.ms: Not a number of type LONG"),
        ("retention.ms", "1_0", "Invalid value 1_0 for configuration retention.ms: Not a number of type LONG"),
        ("max.message.bytes", str(2**31), f"Invalid value {2**31} for configuration max.message.bytes: Not a number"),
        ("segment.bytes", "1000", "Invalid value 1000 for configuration segment.bytes: Value must be at least 1048576"),
        ("cleanup.policy", "shrink", "Invalid value shrink for configuration cleanup.policy: String must be one of"),
        ("cleanup.policy", "delete,", "Configuration 'cleanup.policy' values must not be empty."),
        ("preallocate", "yes", "Invalid value yes for configuration preallocate: Expected value to be either true or"),
        (
            "min.cleanable.dirty.ratio",
            "1.5",
            "Invalid value 1.5 for configuration min.cleanable.dirty.ratio: Value must",
        ),
        ("min.cleanable.dirty.ratio", "nan", "Invalid value nan for configuration min.cleanable.dirty.ratio: Not a"),
        (
            "compression.gzip.level",
            "0",
            "Invalid value 0 for configuration compression.gzip.level: Value must be between",
        ),
    ],
)
def test_values_that_are_refused(name: str, text: str, message: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        parse(TABLE[name], text)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "own",
    [
        {"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"},
        {"remote.storage.enable": "true"},
        {"retention.ms": "1" * 32_768},
    ],
)
def test_settings_that_cannot_be_together(own: dict[str, str]) -> None:
    with pytest.raises(InvalidConfig):
        Configs(Settings(), own)


def test_topics_inherit_the_brokers_settings() -> None:
    settings = dataclasses.replace(
        Settings(), log_retention_hours=2, log_cleanup_policy=("compact", "delete"), message_max_bytes=5000
    )
    configs = Configs(settings, {"max.message.bytes": "6000"})
    assert configs.log_config.retention_ms == 7_200_000
    assert configs.log_config.cleanup_policy == "compact,delete"
    assert configs.limits.compacted
    assert configs.limits.max_message_bytes == 6000
    assert {name: text_of(configs.value(name)) for name in ("retention.ms", "cleanup.policy")} == {
        "retention.ms": "7200000",
        "cleanup.policy": "compact,delete",
    }


# Described


@pytest.fixture
def world() -> World:
    made = World(log_segment_bytes=2 << 20)
    made.create("orders", retention_ms="1000")
    return made


def describe(world: World, resource_type: int, name: str, *names: str, version: int = 4, **fields: bool) -> Any:
    resource = DescribeConfigsResource(resource_type, name, list(names) or None)
    [result] = world.call(32, version, DescribeConfigsRequest([resource], **fields)).results
    assert (result.resource_type, result.resource_name) == (resource_type, name)
    return result


@pytest.mark.parametrize("version", range(1, 5))
def test_a_topics_settings(world: World, version: int) -> None:
    result = describe(world, TOPIC, "orders", version=version, include_synonyms=True)
    assert result.error_code == 0
    shown = {config.name: config for config in result.configs}
    assert list(shown) == list(TABLE)
    own, static, default = shown["retention.ms"], shown["segment.bytes"], shown["max.message.bytes"]
    assert (own.value, own.config_source, own.read_only, own.is_sensitive) == ("1000", 1, False, False)
    assert [(each.name, each.value, each.source) for each in own.synonyms] == [("retention.ms", "1000", 1)]
    assert (static.value, static.config_source) == ("2097152", 4)
    assert [(each.name, each.value, each.source) for each in static.synonyms] == [
        ("log.segment.bytes", "2097152", 4),
        ("log.segment.bytes", "1073741824", 5),
    ]
    assert (default.value, default.config_source) == ("1048588", 5)
    assert default.config_type == (3 if version >= 3 else 0)
    assert default.documentation == (None if version >= 3 else "")


def test_some_of_them_with_documentation(world: World) -> None:
    names = ("cleanup.policy", "no.such.setting", "min.insync.replicas")
    result = describe(world, TOPIC, "orders", *names, include_documentation=True)
    assert [config.name for config in result.configs] == ["cleanup.policy", "min.insync.replicas"]
    assert [config.config_type for config in result.configs] == [7, 3]
    assert all(config.documentation and not config.synonyms for config in result.configs)


def test_the_brokers_settings(world: World) -> None:
    result = describe(world, BROKER, "0", "log.segment.bytes", "num.partitions", "auto.create.topics.enable")
    shown = {config.name: (config.value, config.config_source, config.config_type) for config in result.configs}
    assert shown == {
        "log.segment.bytes": ("2097152", 4, 3),
        "num.partitions": ("1", 5, 3),
        "auto.create.topics.enable": ("true", 5, 1),
    }
    assert [config.name for config in result.configs if not config.read_only] == ["log.segment.bytes"]
    everything = describe(world, BROKER, "0").configs
    assert len(everything) > 80
    assert not [config.name for config in everything if "(" in (config.value or "")]
    assert [config.name for config in describe(world, BROKER, "").configs] == ["min.insync.replicas"]  # as on Kafka


def test_a_setting_in_milliseconds_tells_of_what_stands_in_for_it() -> None:
    """Kafka's order; those before the setting itself are left out."""
    names = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
    result = describe(World(log_retention_ms=5, log_retention_hours=1), BROKER, "0", *names, include_synonyms=True)
    told = {entry.name: [(each.name, each.value, each.source) for each in entry.synonyms] for entry in result.configs}
    hours = [("log.retention.hours", "1", 4), ("log.retention.hours", "168", 5)]
    assert told == {
        "log.retention.ms": [("log.retention.ms", "5", 4), *hours],
        "log.retention.minutes": [],
        "log.retention.hours": hours,
    }


@pytest.mark.parametrize(
    ("resource_type", "name", "error"),
    [
        (TOPIC, "missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "no such name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "1", ErrorCode.INVALID_REQUEST),
        (BROKER, "zero", ErrorCode.INVALID_REQUEST),
        (99, "orders", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_described(world: World, resource_type: int, name: str, error: ErrorCode) -> None:
    result = describe(world, resource_type, name)
    assert (result.error_code, result.configs) == (error, [])


# Changed


def change(
    world: World, name: str, *changes: tuple[str, int, str | None], dry_run: bool = False
) -> tuple[int, str | None]:
    resource = incremental_alter_configs.AlterConfigsResource(
        TOPIC, name, [incremental_alter_configs.AlterableConfig(*each) for each in changes]
    )
    [result] = world.call(44, 1, IncrementalAlterConfigsRequest([resource], dry_run)).responses
    assert (result.resource_type, result.resource_name) == (TOPIC, name)
    return result.error_code, result.error_message


def own(world: World) -> dict[str, str]:
    return world.topics.catalogue.by_name["orders"].configs.own


SET, DELETE, APPEND, SUBTRACT = range(4)


def test_single_settings_are_changed_at_once_and_for_good(world: World) -> None:
    assert change(world, "orders", ("max.message.bytes", SET, "100"), ("retention.ms", DELETE, None)) == (0, None)
    assert own(world) == {"max.message.bytes": "100"}
    assert world.produce("orders", batch(b"x" * 100)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    log = world.topics.catalogue.by_name["orders"].partitions[0].log
    assert log.config.retention_ms == 604_800_000
    world.stop()
    world.open()
    assert own(world) == {"max.message.bytes": "100"}


def test_lists_are_added_to_and_taken_from(world: World) -> None:
    assert change(world, "orders", ("cleanup.policy", APPEND, "compact")) == (0, None)
    assert own(world)["cleanup.policy"] == "delete,compact"
    assert change(world, "orders", ("cleanup.policy", SUBTRACT, "delete,other")) == (0, None)
    assert own(world)["cleanup.policy"] == "compact"


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ([("no.such", SET, "1")], ErrorCode.INVALID_CONFIG, "Unknown topic config name: no.such"),
        (
            [("retention.ms", APPEND, "1")],
            ErrorCode.INVALID_CONFIG,
            "Can't APPEND to key retention.ms because its type",
        ),
        ([("retention.ms", SET, "x")], ErrorCode.INVALID_CONFIG, "Invalid value x for configuration retention.ms"),
        ([("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST, "Null value not supported for : retention.ms"),
        ([("a", SET, "1"), ("a", SET, "2")], ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys"),
        ([("retention.ms", 4, "1")], ErrorCode.INVALID_REQUEST, "Unknown operations type 4"),
        (
            [(f"no.such.{number}", SET, "1") for number in range(1_001)],
            ErrorCode.INVALID_REQUEST,
            "1001 changes of one resource, which has fewer settings.",
        ),
    ],
)
def test_changes_that_are_refused(
    world: World, changes: list[tuple[str, int, str | None]], error: ErrorCode, message: str
) -> None:
    found, told = change(world, "orders", *changes)
    assert ErrorCode(found) is error
    assert (told or "").startswith(message)
    assert own(world) == {"retention.ms": "1000"}


def test_a_list_does_not_grow_beyond_what_a_value_may_have(world: World) -> None:
    first, more = (",".join(f"{number}:1" for number in numbers) for numbers in (range(3_000), range(3_000, 6_000)))
    name = "leader.replication.throttled.replicas"
    assert change(world, "orders", (name, SET, first)) == (0, None)
    assert change(world, "orders", (name, APPEND, more)) == (
        ErrorCode.INVALID_CONFIG,
        "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes.",
    )
    assert own(world)[name] == first


def test_changes_of_what_there_is_not(world: World) -> None:
    change_to = ("retention.ms", SET, "1")
    assert change(world, "missing", change_to) == (3, "The topic 'missing' does not exist.")
    assert change(world, "no such name", change_to)[0] == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_validate_only_changes_nothing(world: World) -> None:
    assert change(world, "orders", ("retention.ms", SET, "1"), dry_run=True) == (0, None)
    assert own(world) == {"retention.ms": "1000"}


@pytest.mark.parametrize("version", range(3))
def test_replacing_all_settings(world: World, version: int) -> None:
    resource = alter_configs.AlterConfigsResource(TOPIC, "orders", [alter_configs.AlterableConfig("segment.ms", "5")])
    [result] = world.call(33, version, AlterConfigsRequest([resource])).responses
    assert result.error_code == 0
    assert own(world) == {"segment.ms": "5"}


def test_the_same_resource_twice_and_other_kinds(world: World) -> None:
    def alter(*resources: tuple[int, str]) -> list[int]:
        asked = [
            alter_configs.AlterConfigsResource(*each, [alter_configs.AlterableConfig("segment.ms", "5")])
            for each in resources
        ]
        return [result.error_code for result in world.call(33, 2, AlterConfigsRequest(asked)).responses]

    assert alter((TOPIC, "orders"), (TOPIC, "orders")) == [ErrorCode.INVALID_REQUEST] * 2
    assert alter((BROKER, "x"), (BROKER, "7"), (99, "x")) == [ErrorCode.INVALID_REQUEST] * 3
    assert own(world) == {"retention.ms": "1000"}


class CountingDisk(SimulatedDisk):
    """Counts how often a file is replaced."""

    def __init__(self) -> None:
        super().__init__()
        self.replaced: list[str] = []

    def rename(self, source: str, target: str) -> None:
        self.replaced.append(target.rpartition("/")[2])
        super().rename(source, target)


def test_a_request_writes_each_file_once() -> None:
    """Whatever the number of its topics and groups."""
    disk = CountingDisk()
    world = World(disk, max_groups=100)
    topics = [f"t{number}" for number in range(60)]
    for topic in topics:
        world.create(topic)
    disk.replaced.clear()
    flushes = disk.datasyncs
    alter = incremental_alter_configs
    resources = [
        alter.AlterConfigsResource(kind, name, [alter.AlterableConfig(config, SET, value)])
        for names, kind, config, value in [
            (topics, TOPIC, "retention.ms", "5000"),
            ([*topics, "refused"], GROUP, "offsets.retention.minutes", "5"),
        ]
        for name in names
    ]
    resources[-1].configs[0].value = "0"
    response = world.call(44, 1, IncrementalAlterConfigsRequest(resources, False))
    assert [each.error_code for each in response.responses] == [0] * 120 + [ErrorCode.INVALID_CONFIG]
    assert [(each.resource_type, each.resource_name) for each in response.responses] == [
        (each.resource_type, each.resource_name) for each in resources
    ]
    assert disk.replaced == ["topics.json", "groups.json"]
    assert disk.datasyncs - flushes == 2
    world.crash("power")
    world.open()
    assert all(world.topics.catalogue.by_name[topic].configs.own == {"retention.ms": "5000"} for topic in topics)
    assert len(world.topics.group_configs) == 60

    disk.replaced.clear()
    emptied = [alter_configs.AlterConfigsResource(TOPIC, name, []) for name in topics]
    assert not any(each.error_code for each in world.call(33, 2, AlterConfigsRequest(emptied, False)).responses)
    assert disk.replaced == ["topics.json"]
    assert not any(world.topics.catalogue.by_name[topic].configs.own for topic in topics)


def test_a_failed_write_is_the_outcome_of_each_change_in_it() -> None:
    world = World()
    world.create("t")
    world.create("u")
    world.disk.datasyncs_left = 1  # that of topics.json
    alter = incremental_alter_configs
    resources = [
        alter.AlterConfigsResource(GROUP, "g", [alter.AlterableConfig("offsets.retention.minutes", SET, "5")]),
        alter.AlterConfigsResource(TOPIC, "t", [alter.AlterableConfig("retention.ms", SET, "5000")]),
        alter.AlterConfigsResource(GROUP, "h", []),
        alter.AlterConfigsResource(TOPIC, "u", [alter.AlterableConfig("retention.ms", SET, "5000")]),
    ]
    response = world.call(44, 1, IncrementalAlterConfigsRequest(resources, False))
    assert [each.error_code for each in response.responses] == [ErrorCode.KAFKA_STORAGE_ERROR, 0, 0, 0]
    assert len(world.topics.group_configs) == 0
    assert world.topics.catalogue.by_name["u"].configs.own == {"retention.ms": "5000"}
