"""Settings of single groups: described, changed, kept, and how long their offsets stay for it."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from coordinatord.base.observe.logger import captured
from coordinatord.broker.log import LogDamaged, disk
from coordinatord.broker.topics.group_configs import NEVER_MS, GroupConfigs
from coordinatord.transport.cluster.shared import Shared
from kafka_wire.api import alter_configs, incremental_alter_configs
from kafka_wire.api.alter_configs import AlterConfigsRequest
from kafka_wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafka_wire.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from kafka_wire.errors import ErrorCode
from tests.broker.topics.world import PATH, World

GROUP = 32
SET, DELETE, APPEND, SUBTRACT = range(4)
RETENTION = "offsets.retention.minutes"
MINUTE_MS = 60_000


@pytest.fixture
def world() -> World:
    return World(offsets_retention_minutes=100, max_groups=3, group_id_max_bytes=10)


def described(world: World, group: str, *names: str, **options: bool) -> Any:
    request = DescribeConfigsRequest([DescribeConfigsResource(GROUP, group, list(names) or None)], **options)
    [result] = world.call(32, 4, request).results
    assert (result.resource_type, result.resource_name) == (GROUP, group)
    return result


def change(
    world: World, group: str, *changes: tuple[str, int, str | None], dry_run: bool = False
) -> tuple[int, str | None]:
    resource = incremental_alter_configs.AlterConfigsResource(
        GROUP, group, [incremental_alter_configs.AlterableConfig(*each) for each in changes]
    )
    [result] = world.call(44, 1, IncrementalAlterConfigsRequest([resource], dry_run)).responses
    assert (result.resource_type, result.resource_name) == (GROUP, group)
    return result.error_code, result.error_message


def replace(world: World, group: str, **own: str) -> tuple[int, str | None]:
    configs = [alter_configs.AlterableConfig(name.replace("_", "."), value) for name, value in own.items()]
    request = AlterConfigsRequest([alter_configs.AlterConfigsResource(GROUP, group, configs)], False)
    [result] = world.call(33, 2, request).responses
    return result.error_code, result.error_message


def retention_ms(world: World, group: str) -> int:
    return world.topics.group_configs.retention_ms(group)


def test_a_group_inherits_the_brokers_retention(world: World) -> None:
    [config] = described(world, "g", RETENTION, include_synonyms=True, include_documentation=True).configs
    assert (config.name, config.value, config.config_source, config.config_type) == (RETENTION, "100", 4, 3)
    assert not config.read_only
    assert config.documentation
    assert [(each.value, each.source) for each in config.synonyms] == [("100", 4), ("10080", 5)]
    assert described(world, "g", "no.such").configs == []
    assert retention_ms(world, "g") == 100 * MINUTE_MS


def test_a_group_has_its_own_over_a_restart(world: World) -> None:
    assert change(world, "g", (RETENTION, SET, "-1")) == (0, None)
    assert change(world, "h", (RETENTION, SET, " 5 ")) == (0, None)
    for _ in range(2):
        [config] = described(world, "g", RETENTION, include_synonyms=True).configs
        assert (config.value, config.config_source) == ("-1", 8)
        first = config.synonyms[0]
        assert (first.name, first.value, first.source) == (RETENTION, "-1", 8)
        assert [retention_ms(world, group) for group in "ghi"] == [NEVER_MS, 5 * MINUTE_MS, 100 * MINUTE_MS]
        world.crash("power")
        world.open()
    assert change(world, "g", (RETENTION, DELETE, None)) == (0, None)
    assert retention_ms(world, "g") == 100 * MINUTE_MS
    assert len(world.topics.group_configs) == 1


def test_alter_configs_replaces_all(world: World) -> None:
    assert replace(world, "g", offsets_retention_minutes="7") == (0, None)
    assert retention_ms(world, "g") == 7 * MINUTE_MS
    assert replace(world, "g") == (0, None)
    assert retention_ms(world, "g") == 100 * MINUTE_MS


def test_settings_of_streams_groups_are_kept(world: World) -> None:
    name, synonym = "streams.num.standby.replicas", "group.streams.num.standby.replicas"
    [default] = described(world, "g", name, include_synonyms=True).configs
    assert [(each.name, each.value, each.source) for each in default.synonyms] == [(synonym, "0", 5)]
    assert change(world, "g", (name, SET, "1")) == (0, None)
    world.stop()
    world.open()
    [kept] = described(world, "g", name, include_documentation=True).configs
    assert (kept.value, kept.documentation.endswith("Stored, without effect here.")) == ("1", True)


@pytest.mark.parametrize(
    ("group", "changes", "error", "message"),
    [
        ("g", [("no.such", SET, "1")], ErrorCode.INVALID_CONFIG, "Unknown group config name: no.such"),
        (
            "g",
            [("streams.num.standby.replicas", SET, "3")],
            ErrorCode.INVALID_CONFIG,
            "streams.num.standby.replicas must be in the range 0 to 2 inclusive.",
        ),
        (
            "g",
            [("consumer.session.timeout.ms", SET, "44999")],
            ErrorCode.INVALID_CONFIG,
            "consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive.",
        ),
        (
            "g",
            [("consumer.heartbeat.interval.ms", SET, "15001")],
            ErrorCode.INVALID_CONFIG,
            "consumer.heartbeat.interval.ms must be in the range 5000 to 15000 inclusive.",
        ),
        (
            "g",
            [("consumer.assignment.interval.ms", SET, "-1")],
            ErrorCode.INVALID_CONFIG,
            "Invalid value -1 for configuration consumer.assignment.interval.ms",
        ),
        (
            "g",
            [("share.session.timeout.ms", SET, "60001")],
            ErrorCode.INVALID_CONFIG,
            "share.session.timeout.ms must be in the range 45000 to 60000 inclusive.",
        ),
        (
            "g",
            [("share.delivery.count.limit", SET, "11")],
            ErrorCode.INVALID_CONFIG,
            "share.delivery.count.limit must be in the range 2 to 10 inclusive.",
        ),
        (
            "g",
            [("share.auto.offset.reset", SET, "by_duration:-PT1H")],
            ErrorCode.INVALID_CONFIG,
            "Invalid value by_duration:-PT1H for configuration share.auto.offset.reset: Invalid value",
        ),
        ("g", [("share.isolation.level", SET, "dirty")], ErrorCode.INVALID_CONFIG, "Invalid value dirty for"),
        ("g", [(RETENTION, SET, "0")], ErrorCode.INVALID_CONFIG, "Invalid value 0 for configuration"),
        ("g", [(RETENTION, SET, "-2")], ErrorCode.INVALID_CONFIG, "Invalid value -2 for configuration"),
        ("g", [(RETENTION, SET, "soon")], ErrorCode.INVALID_CONFIG, "Invalid value soon for configuration"),
        ("g", [(RETENTION, APPEND, "1")], ErrorCode.INVALID_CONFIG, "Can't APPEND to key offsets.retention.minutes"),
        ("", [(RETENTION, SET, "1")], ErrorCode.INVALID_REQUEST, "Default group resources are not allowed."),
        ("g" * 11, [(RETENTION, SET, "1")], ErrorCode.INVALID_REQUEST, "The group id has more than 10 bytes."),
    ],
)
def test_what_is_refused(
    world: World, group: str, changes: list[tuple[str, int, str | None]], error: ErrorCode, message: str
) -> None:
    code, why = change(world, group, *changes)
    assert code == error
    assert why is not None
    assert why.startswith(message)
    assert not world.disk.exists(f"{PATH}/groups.json")


def test_what_is_only_tried_is_not_kept(world: World) -> None:
    assert change(world, "g", (RETENTION, SET, "5"), dry_run=True) == (0, None)
    assert change(world, "g", (RETENTION, SET, "0"), dry_run=True)[0] == ErrorCode.INVALID_CONFIG
    assert retention_ms(world, "g") == 100 * MINUTE_MS


def test_there_is_a_limit_to_groups_with_settings(world: World) -> None:
    for group in "abc":
        assert change(world, group, (RETENTION, SET, "5")) == (0, None)
    assert change(world, "d", (RETENTION, SET, "5"))[0] == ErrorCode.POLICY_VIOLATION
    assert change(world, "c", (RETENTION, SET, "6")) == (0, None)


def test_one_worker_sees_what_another_has_changed(world: World) -> None:
    shared = Shared(2, f"{PATH}/.lock")
    told: list[None] = []
    shared.on_change = lambda: told.append(None)
    one, other = (GroupConfigs(world.settings, world.disk, PATH, shared) for _ in range(2))
    for write in one.configure({"g": {RETENTION: "5"}}):
        write()
        assert not told
    assert len(told) == 1
    assert (other.retention_ms("g"), other.changes) == (100 * MINUTE_MS, 0)
    other.refresh()
    assert (other.retention_ms("g"), other.changes) == (5 * MINUTE_MS, 1)
    other.refresh()
    assert other.changes == 1


def test_one_worker_sees_what_another_has_changed_of_the_brokers(world: World) -> None:
    """The change counts, because groups take their settings from the broker's again when the count has changed."""
    shared = Shared(2, f"{PATH}/.lock")
    one, other = (GroupConfigs(world.settings, world.disk, PATH, shared) for _ in range(2))
    for write in one.configure_brokers({"": {"min.insync.replicas": "1", "log.retention.ms": "5000"}}):
        write()
    assert (one.brokers.settings.log_retention_ms, one.changes) == (5000, 1)
    assert (other.brokers.settings.log_retention_ms, other.changes) == (None, 0)
    other.refresh()
    assert (other.brokers.settings.log_retention_ms, other.changes) == (5000, 1)


def test_the_file_is_read_again_only_when_it_has_changed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = Shared(2, f"{PATH}/.lock")
    one, other = (GroupConfigs(world.settings, world.disk, PATH, shared) for _ in range(2))
    reads = []
    inner = GroupConfigs._read
    monkeypatch.setattr(GroupConfigs, "_read", lambda self: reads.append(self) or inner(self))
    for minutes in ("5", "6"):
        for write in one.configure({"g": {RETENTION: minutes}, "h": {RETENTION: "7"}}):
            write()
        for configs in (one, other, one, other):
            configs.refresh()
    assert reads == [other, other]
    for write in other.configure({"h": {}}):
        write()
    one.refresh()
    assert [one.retention_ms(group) for group in "gh"] == [6 * MINUTE_MS, 100 * MINUTE_MS]


def test_a_worker_that_died_before_it_told_the_others_has_told_them_when_it_is_back(
    world: World, tmp_path: Path
) -> None:
    shared = Shared(2, str(tmp_path / "lock"))
    one, other = (GroupConfigs(world.settings, world.disk, PATH, shared) for _ in range(2))
    for write in one.configure({"g": {RETENTION: "5"}}):
        write()
        break  # SIGKILL
    other.refresh()
    assert other.retention_ms("g") == 100 * MINUTE_MS
    holder = Shared(2, str(tmp_path / "lock"))
    with holder.lock():
        assert not shared.worker_started(0)
    assert shared.worker_started(0)
    other.refresh()
    assert other.retention_ms("g") == 5 * MINUTE_MS


def test_there_is_a_limit_to_the_files_size(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for group in "ab":
        assert change(world, group, (RETENTION, SET, "5")) == (0, None)
    size = len(world.disk.content(f"{PATH}/groups.json"))
    monkeypatch.setattr(disk, "MOST_JSON_BYTES", size)
    error, message = change(world, "c", (RETENTION, SET, "5"))
    assert error == ErrorCode.KAFKA_STORAGE_ERROR
    assert re.search(rf"groups\.json would have \d+ bytes, {size} is the most", message or "")
    assert change(world, "a", (RETENTION, SET, "6")) == (0, None)
    world.stop()
    world.open()
    assert [retention_ms(world, group) // MINUTE_MS for group in "abc"] == [6, 5, 100]


def test_a_larger_file_of_an_earlier_version_is_read_and_may_become_smaller(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for group in "abc":
        assert change(world, group, (RETENTION, SET, "5")) == (0, None)
    monkeypatch.setattr(disk, "MOST_JSON_BYTES", 80)
    world.stop()
    world.open()
    assert change(world, "a", (RETENTION, SET, "10"))[0] == ErrorCode.KAFKA_STORAGE_ERROR
    assert change(world, "a", (RETENTION, DELETE, None)) == (0, None)
    assert [retention_ms(world, group) // MINUTE_MS for group in "abc"] == [100, 5, 5]


def test_a_nameless_group_has_none_to_describe(world: World) -> None:
    result = described(world, "")
    assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REQUEST, "Group name must not be empty")


@pytest.mark.parametrize(
    "text",
    ["{", '{"version": 1}', '{"version": 1, "groups": {"g": {"offsets.retention.minutes": "0"}}}'],
)
def test_a_file_that_cannot_be_understood_stops_the_start(world: World, text: str) -> None:
    change(world, "g", (RETENTION, SET, "5"))
    world.stop()
    world.disk.content(f"{PATH}/groups.json")[:] = text.encode()
    with pytest.raises(LogDamaged, match=r"groups\.json is damaged at byte 0: not a list of groups' settings"):
        world.open()


def test_settings_of_the_consumer_protocol_are_the_groups_own() -> None:
    world = World(
        group_consumer_min_session_timeout_ms=1, group_consumer_min_heartbeat_interval_ms=1, group_id_max_bytes=10
    )
    session, interval = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
    why = f"{session} must be greater than {interval}"
    assert change(world, "g", (session, SET, "3000")) == (ErrorCode.INVALID_CONFIG, why)
    assert change(world, "g", (session, SET, "3000"), (interval, SET, "200")) == (0, None)
    for _ in range(2):
        configs = world.topics.group_configs
        assert [configs.number("g", name, 7) for name in (session, interval)] == [3_000, 200]
        assert configs.number("g", "consumer.assignment.interval.ms", 7) == 7
        assert configs.number("h", session, 7) == 7
        world.crash("power")
        world.open()
    assert change(world, "g", (session, DELETE, None), (interval, DELETE, None)) == (0, None)
    assert world.topics.group_configs.number("g", session, 7) == 7


def test_settings_beyond_later_bounds_are_capped_and_shown_as_they_were_set() -> None:
    world = World(group_id_max_bytes=10)
    session = "consumer.session.timeout.ms"
    assert change(world, "g", (session, SET, "60000")) == (0, None)
    world.stop()
    world.settings = dataclasses.replace(world.settings, group_consumer_max_session_timeout_ms=50_000)
    with captured() as lines:
        world.open()
    assert world.topics.group_configs.number("g", session, 7) == 50_000
    assert described(world, "g", session).configs[0].value == "60000"
    [line] = [line for line in lines if "capped" in line["event"]]
    told = {name: line[name] for name in ("settings", "group", "name", "value", "capped_to")}
    assert told == {"settings": 1, "group": "g", "name": session, "value": "60000", "capped_to": 50_000}
    assert change(world, "g", (session, SET, "60001"))[0] == ErrorCode.INVALID_CONFIG
    assert change(world, "g", (RETENTION, SET, "5"))[0] == ErrorCode.INVALID_CONFIG, (
        "all of them are checked, as in Kafka"
    )
    assert change(world, "g", (RETENTION, SET, "5"), (session, DELETE, None)) == (0, None)
