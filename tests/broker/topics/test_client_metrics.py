"""Settings of client metrics subscriptions (KIP-714): changed, described, listed and kept."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_wire.api import alter_configs
from kafka_wire.api.alter_configs import AlterConfigsRequest
from kafka_wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafka_wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafka_wire.api.list_config_resources import ListConfigResourcesRequest
from kafka_wire.errors import ErrorCode
from tests.broker.topics.world import PATH, World

CLIENT_METRICS = 16
SET, DELETE, APPEND, SUBTRACT = range(4)
DEFAULT, OWN = 5, 7
DEFAULTS = {"metrics": ("", DEFAULT), "interval.ms": ("300000", DEFAULT), "match": ("", DEFAULT)}


@pytest.fixture
def world() -> World:
    return World()


def described(world: World, name: str, **options: bool) -> Any:
    request = DescribeConfigsRequest([DescribeConfigsResource(CLIENT_METRICS, name, None)], **options)
    [result] = world.call(32, 4, request).results
    return result


def values(world: World, name: str) -> dict[str, tuple[str, int]]:
    return {each.name: (each.value, each.config_source) for each in described(world, name).configs}


def change(world: World, name: str, *changes: tuple[str, int, str | None]) -> tuple[int, str | None]:
    resource = AlterConfigsResource(CLIENT_METRICS, name, [AlterableConfig(*each) for each in changes])
    [result] = world.call(44, 1, IncrementalAlterConfigsRequest([resource])).responses
    assert (result.resource_type, result.resource_name) == (CLIENT_METRICS, name)
    return result.error_code, result.error_message


def listed(world: World) -> list[str]:
    return [each.resource_name for each in world.call(74, 0, ListConfigResourcesRequest([])).config_resources]


def test_a_subscription_is_set_described_listed_kept_and_deleted(world: World) -> None:
    assert (values(world, "cm"), listed(world)) == (DEFAULTS, [])
    assert change(world, "cm", ("metrics", SET, "org.apache"), ("interval.ms", SET, "6000")) == (0, None)
    told = {**DEFAULTS, "metrics": ("org.apache", OWN), "interval.ms": ("6000", OWN)}
    assert (values(world, "cm"), listed(world)) == (told, ["cm"])
    world.stop()
    world.open()
    assert (values(world, "cm"), listed(world)) == (told, ["cm"])
    assert change(world, "cm", ("metrics", DELETE, None), ("interval.ms", DELETE, None)) == (0, None)
    assert (values(world, "cm"), listed(world)) == (DEFAULTS, [])


def test_other_settings_of_the_file_stay(world: World) -> None:
    group = AlterConfigsResource(32, "g", [AlterableConfig("offsets.retention.minutes", SET, "5")])
    broker = AlterConfigsResource(4, "", [AlterableConfig("log.retention.ms", SET, "7")])
    subscription = AlterConfigsResource(CLIENT_METRICS, "cm", [AlterableConfig("metrics", SET, "*")])
    for each in ([group, broker, subscription], [subscription], [group], [broker]):
        responses = world.call(44, 1, IncrementalAlterConfigsRequest(each)).responses
        assert [response.error_code for response in responses] == [0] * len(each)
    world.stop()
    world.open()
    assert values(world, "cm")["metrics"] == ("*", OWN)
    assert world.topics.group_configs.retention_ms("g") == 5 * 60_000
    assert world.topics.settings.log_retention_ms == 7


def test_a_description_has_the_value_as_its_only_synonym_and_the_text_of_kafka(world: World) -> None:
    change(world, "cm", ("match", SET, "client_id=a.*"))
    entries = {each.name: each for each in described(world, "cm", include_synonyms=True).configs}
    [synonym] = entries["match"].synonyms
    assert (synonym.name, synonym.value, synonym.source) == ("match", "client_id=a.*", OWN)
    assert entries["interval.ms"].synonyms == []
    documented = described(world, "cm", include_documentation=True).configs
    assert [each.documentation for each in documented] == [
        "Telemetry metric name prefix list", "Metrics push interval in milliseconds", "Client match criteria",
    ]  # fmt: skip


def test_lists_are_added_to_and_taken_from(world: World) -> None:
    assert change(world, "cm", ("metrics", APPEND, "a,b")) == (0, None)
    assert change(world, "cm", ("metrics", SUBTRACT, "a")) == (0, None)
    assert values(world, "cm")["metrics"] == ("b", OWN)
    error, _ = change(world, "cm", ("interval.ms", APPEND, "1"))
    assert error == ErrorCode.INVALID_CONFIG
    assert change(world, "cm", ("metrics", APPEND, "c" * 32_767)) == (
        ErrorCode.INVALID_CONFIG,
        "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes.",
    )


def test_alter_configs_replaces_all_settings(world: World) -> None:
    change(world, "cm", ("metrics", SET, "a"), ("interval.ms", SET, "6000"))
    configs = [alter_configs.AlterableConfig("metrics", "b")]
    resource = alter_configs.AlterConfigsResource(CLIENT_METRICS, "cm", configs)
    assert world.call(33, 2, AlterConfigsRequest([resource], False)).responses[0].error_code == 0
    assert values(world, "cm") == {**DEFAULTS, "metrics": ("b", OWN)}


@pytest.mark.parametrize(
    ("name", "setting", "value", "error", "message"),
    [
        ("", "metrics", "a", ErrorCode.INVALID_REQUEST, "Subscription name can't be empty"),
        ("n" * 250, "metrics", "a", ErrorCode.INVALID_REQUEST, "The name has more than 249 characters."),
        ("cm", "x", "a", ErrorCode.INVALID_REQUEST, "Unknown client metrics configuration: x"),
        (
            "cm", "interval.ms", "99", ErrorCode.INVALID_REQUEST,
            "Invalid value 99 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        ),
        ("cm", "match", "client_name=a", ErrorCode.INVALID_CONFIG, "Illegal client matching pattern: client_name=a"),
        ("cm", "match", "client_id", ErrorCode.INVALID_CONFIG, "Illegal client matching pattern: client_id"),
        ("cm", "match", "client_id=a=b", ErrorCode.INVALID_CONFIG, "Illegal client matching pattern: client_id=a=b"),
    ],
)  # fmt: skip
def test_what_is_refused(world: World, name: str, setting: str, value: str, error: ErrorCode, message: str) -> None:
    assert change(world, name, (setting, SET, value)) == (error, message)
    assert (listed(world), world.disk.exists(f"{PATH}/groups.json")) == ([], False)


def test_a_description_needs_a_name(world: World) -> None:
    result = described(world, "")
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert result.error_message == "Client metrics subscription name must not be empty"


def test_the_number_of_subscriptions_is_limited(world: World) -> None:
    metrics = [AlterableConfig("metrics", SET, "a")]
    resources = [AlterConfigsResource(CLIENT_METRICS, f"cm{number}", metrics) for number in range(101)]
    responses = world.call(44, 1, IncrementalAlterConfigsRequest(resources)).responses
    assert [each.error_code for each in responses] == [0] * 100 + [ErrorCode.POLICY_VIOLATION]
    assert change(world, "cm0", ("metrics", DELETE, None), ("metrics2", DELETE, None)) == (0, None)
    assert change(world, "another", ("metrics", SET, "a")) == (0, None)
