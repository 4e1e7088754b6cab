"""Settings of brokers that are changed while they run (KIP-226): their effects, their store, and what has no effect."""

from __future__ import annotations

import json
from typing import Any

import pytest

from coordinatord.base.config import TABLE, Settings
from coordinatord.base.config.table import FIXED
from coordinatord.broker.log.disk import read_text
from coordinatord.broker.topics.broker_config_table import DYNAMIC, PER_BROKER
from coordinatord.broker.topics.broker_configs import BrokerConfigs, UnacceptableChange
from kafka_wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafka_wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafka_wire.errors import ErrorCode
from tests.broker.topics.world import PATH, World

TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1


def change(world: World, node: str, name: str, value: str | None) -> int:
    config = AlterableConfig(name, DELETE if value is None else SET, value)
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(BROKER, node, [config])])
    [result] = world.call(44, 1, request).responses
    return int(result.error_code)


def described(world: World, kind: int, name: str, config: str) -> list[tuple[str, str | None, int]]:
    """The synonyms of a setting, the effective one first."""
    request = DescribeConfigsRequest([DescribeConfigsResource(kind, name, [config])], include_synonyms=True)
    [result] = world.call(32, 4, request).results
    return [(each.name, each.value, each.source) for each in result.configs[0].synonyms]


@pytest.fixture
def world() -> World:
    made = World(log_retention_hours=2)
    made.create("orders")
    made.create("kept", retention_ms="7")
    return made


def retention_ms(world: World, topic: str) -> int:
    [partition] = world.topics.catalogue.by_name[topic].partitions
    return partition.log.config.retention_ms


def test_topics_that_inherit_a_changed_setting_use_it(world: World) -> None:
    assert change(world, "", "log.retention.ms", "5000") == 0
    assert change(world, "0", "log.retention.ms", "6000") == 0
    assert (retention_ms(world, "orders"), retention_ms(world, "kept")) == (6000, 7)
    assert described(world, TOPIC, "orders", "retention.ms") == [
        ("log.retention.ms", "6000", 2), ("log.retention.ms", "5000", 3), ("log.retention.hours", "2", 4),
        ("log.retention.hours", "168", 5),
    ]  # fmt: skip
    assert change(world, "0", "log.retention.ms", None) == 0
    assert retention_ms(world, "orders") == 5000
    assert change(world, "", "log.retention.ms", None) == 0
    assert retention_ms(world, "orders") == 2 * 3_600_000


def test_a_new_topic_inherits_a_changed_setting(world: World) -> None:
    assert change(world, "", "log.retention.ms", "5000") == 0
    world.create("later")
    assert retention_ms(world, "later") == 5000


def test_changes_survive_a_restart(world: World) -> None:
    assert change(world, "", "log.retention.ms", "5000") == 0
    assert change(world, "0", "sasl.kerberos.service.name", "kafka") == 0
    world.crash("power")
    world.open()
    assert retention_ms(world, "orders") == 5000
    assert described(world, BROKER, "0", "sasl.kerberos.service.name") == [("sasl.kerberos.service.name", "kafka", 2)]
    stored = json.loads(read_text(world.disk, f"{PATH}/groups.json") or "")
    assert stored["brokers"] == {
        "": {"min.insync.replicas": "1", "log.retention.ms": "5000"}, "0": {"sasl.kerberos.service.name": "kafka"},
    }  # fmt: skip


def test_a_rejected_change_changes_nothing(world: World) -> None:
    assert change(world, "", "log.retention.ms", "x") == ErrorCode.INVALID_REQUEST
    assert change(world, "0", "num.partitions", "3") == ErrorCode.INVALID_REQUEST
    assert retention_ms(world, "orders") == 2 * 3_600_000
    assert not world.disk.exists(f"{PATH}/groups.json")


@pytest.mark.parametrize(
    ("threads", "buffer", "error"),
    [(2, (2 << 20) + 2, 0), (2, 2 << 20, ErrorCode.INVALID_REQUEST), (1, (1 << 20) + 1, 0), (0, 2 << 20, 0)],
)
def test_the_threads_of_the_log_cleaner_need_more_than_a_mebibyte_each(threads: int, buffer: int, error: int) -> None:
    world = World(log_cleaner_dedupe_buffer_size=buffer)
    assert change(world, "", "log.cleaner.threads", str(threads)) == error
    if not error:
        assert change(world, "", "log.cleaner.dedupe.buffer.size", str(1 << 20)) == ErrorCode.INVALID_REQUEST


def test_values_of_secrets_are_not_shown(world: World) -> None:
    name = "listener.name.client.ssl.keystore.password"
    assert change(world, "0", name, "secret") == 0
    assert described(world, BROKER, "0", name) == [(name, None, 2)]


def test_idle_producers_expire_by_the_changed_time(world: World) -> None:
    assert change(world, "", "producer.id.expiration.ms", "1") == 0
    assert world.topics.settings.producer_id_expiration_ms == 1


def test_every_setting_that_kafka_changes_at_run_time_changes_here() -> None:
    """But for what needs a restart here: listeners, and their certificates, which are read again when files change."""
    restart = {name for name in TABLE if name in DYNAMIC and name in PER_BROKER}
    values = {"log.cleanup.policy": "compact", "log.message.timestamp.type": "LogAppendTime",
              "transaction.partition.verification.enable": "false", "max.connections.per.ip.overrides": "10.0.0.1:7",
              "log.cleaner.min.cleanable.ratio": "0.25",
              "errors.deadletterqueue.auto.create.topics.enable": "true"}  # fmt: skip
    for name in sorted(TABLE.keys() & DYNAMIC.keys() - restart):
        configs = BrokerConfigs(Settings())
        own = {name: values.get(name, "2000000")}
        configs.check("0", own)
        configs.take({"0": own})
        assert getattr(configs.settings, TABLE[name].attribute) != TABLE[name].default, name


def test_no_name_needs_a_restart_and_does_not() -> None:
    assert not FIXED & DYNAMIC.keys()
    assert DYNAMIC.keys() >= PER_BROKER


@pytest.mark.parametrize("many", [501])
def test_the_number_of_kept_names_has_a_limit(many: int) -> None:
    own: dict[str, Any] = {f"made.up.{number}": "1" for number in range(many)}
    with pytest.raises(UnacceptableChange, match="501 settings"):
        BrokerConfigs(Settings()).check("0", own)
