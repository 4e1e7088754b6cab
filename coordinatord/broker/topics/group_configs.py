"""Settings of individual groups, and the small file that stores them and those of brokers and client metrics across
restarts.

Each request's changes replace `<data>/groups.json` once, whole and durably, as with topics.json. As in Kafka, a group
need not exist to have settings, and keeps them when it is deleted. Of Kafka's group settings, those of the consumer
protocol and of share groups are served, and the numbers of streams groups are kept, for tools and tests that set them
without asking which protocol the group will use; `offsets.retention.minutes` is our addition: in Kafka it is a broker
setting only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any

import orjson

from coordinatord.base.config import Settings
from coordinatord.base.observe.logger import get_logger
from coordinatord.broker.log.disk import Disk, read_text, replace_json
from coordinatord.broker.log.errors import LogDamaged, other_version
from coordinatord.broker.topics.broker_configs import BrokerConfigs
from coordinatord.broker.topics.config_table import (
    INT_MAX,
    ConfigSource,
    ConfigType,
    InvalidConfig,
    TopicConfig,
    Value,
)
from coordinatord.broker.topics.configs import Synonym, broker_synonyms, parse, text_of
from coordinatord.transport.cluster.shared import Sharing

log = get_logger("coordinatord.broker.topics")

Steps = Generator[Callable[[], object], Any, None]

FILE = "groups.json"
VERSION = 1

NEVER_MS = 1 << 62
"""Value for an unlimited retention."""

RETENTION = "offsets.retention.minutes"
SESSION_TIMEOUT = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL = "consumer.assignment.interval.ms"
SHARE_SESSION_TIMEOUT = "share.session.timeout.ms"
SHARE_HEARTBEAT_INTERVAL = "share.heartbeat.interval.ms"
SHARE_ASSIGNMENT_INTERVAL = "share.assignment.interval.ms"
SHARE_RECORD_LOCK_DURATION = "share.record.lock.duration.ms"
SHARE_DELIVERY_COUNT_LIMIT = "share.delivery.count.limit"
SHARE_PARTITION_MAX_RECORD_LOCKS = "share.partition.max.record.locks"
SHARE_AUTO_OFFSET_RESET = "share.auto.offset.reset"
SHARE_ISOLATION_LEVEL = "share.isolation.level"
SHARE_RENEW_ACKNOWLEDGE = "share.renew.acknowledge.enable"
DEAD_LETTER_TOPIC = "errors.deadletterqueue.topic.name"
DEAD_LETTER_COPY = "errors.deadletterqueue.copy.record.enable"
NO_RETENTION = -1

_DURATION = re.compile(
    r"P(?=.)(?:(\d+)D)?(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{0,9}))?S)?)?", re.IGNORECASE | re.ASCII
)
_DAY_MS, _HOUR_MS, _MINUTE_MS = 86_400_000, 3_600_000, 60_000


def _not_zero(name: str, minutes: Value) -> None:
    if minutes == 0:
        raise InvalidConfig(f"Invalid value 0 for configuration {name}: Value must be at least 1, or -1 for never")


def reset_duration_ms(text: str) -> int | None:
    """Return the duration of a share.auto.offset.reset of `by_duration:PnDTnHnMn.nS` in ms; None if it has none. Raises
    ValueError for a value that is not valid.
    """
    if text in ("earliest", "latest"):
        return None
    found = _DURATION.fullmatch(text.removeprefix("by_duration:")) if text.startswith("by_duration:") else None
    if found is None:
        raise ValueError(text)
    days, hours, minutes, seconds = (int(each or 0) for each in found.groups()[:4])
    fraction_ms = int((found[5] or "").ljust(9, "0")) // 1_000_000
    return days * _DAY_MS + hours * _HOUR_MS + minutes * _MINUTE_MS + seconds * 1_000 + fraction_ms


def _is_reset(name: str, value: Value) -> None:
    try:
        reset_duration_ms(str(value))
    except ValueError:
        raise InvalidConfig(
            f"Invalid value {value} for configuration {name}: Invalid value `{value}` for configuration {name}. "
            "The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
        ) from None


def _is_not_internal(name: str, value: Value) -> None:
    if str(value).startswith("__"):
        raise InvalidConfig(f"{name}: DLQ topic name must not start with '__'")


def _of_groups(name: str, default: int, minimum: int, doc: str) -> TopicConfig:
    """Return the row of a setting of a protocol: `consumer.…` of a group, `group.consumer.…` of the broker."""
    attribute = f"group.{name}".replace(".", "_")
    return TopicConfig(
        name, ConfigType.INT, default, doc, minimum=minimum, broker_names=(f"group.{name}",),
        from_settings=lambda settings: int(getattr(settings, attribute)),
    )  # fmt: skip


def _of_streams(name: str, default: int, least: int, most: int, doc: str) -> TopicConfig:
    """Return the row of a setting of streams groups (KIP-1071), with Kafka's default and bounds."""

    def check(name: str, value: Value) -> None:
        if not least <= int(str(value)) <= most:
            raise InvalidConfig(f"{name} must be in the range {least} to {most} inclusive.")

    return TopicConfig(
        name, ConfigType.INT, default, doc, broker_names=(f"group.{name}",), has_effect=False, check=check
    )


_ROWS = [
    _of_groups(
        SESSION_TIMEOUT, 45_000, 1, "The timeout to detect client failures when using the consumer group protocol."
    ),
    _of_groups(HEARTBEAT_INTERVAL, 5_000, 1, "The heartbeat interval given to the members of a consumer group."),
    _of_groups(ASSIGNMENT_INTERVAL, 1_000, 0, "The interval between assignment updates for a consumer group."),
    _of_groups(
        SHARE_SESSION_TIMEOUT, 45_000, 1, "The timeout to detect client failures when using the share group protocol."
    ),
    _of_groups(SHARE_HEARTBEAT_INTERVAL, 5_000, 1, "The heartbeat interval given to the members of a share group."),
    _of_groups(SHARE_ASSIGNMENT_INTERVAL, 1_000, 0, "The interval between assignment updates for a share group."),
    _of_groups(
        SHARE_RECORD_LOCK_DURATION, 30_000, 1_000,
        "The record acquisition lock duration in milliseconds for share groups.",
    ),
    _of_groups(
        SHARE_DELIVERY_COUNT_LIMIT, 5, 2,
        "The maximum number of delivery attempts for a record delivered to a share group.",
    ),
    _of_groups(SHARE_PARTITION_MAX_RECORD_LOCKS, 2_000, 100, "Share-group record lock limit per share-partition."),
    TopicConfig(
        SHARE_AUTO_OFFSET_RESET, ConfigType.STRING, "latest",
        "The start offset of a share partition: earliest, latest, or by_duration:PnDTnHnMn.nS before now.",
        check=_is_reset,
    ),
    TopicConfig(
        SHARE_ISOLATION_LEVEL, ConfigType.STRING, "read_uncommitted",
        "Whether a share group gets records of transactions that were aborted or are open.",
        allowed=("read_committed", "read_uncommitted"),
    ),
    TopicConfig(
        SHARE_RENEW_ACKNOWLEDGE, ConfigType.BOOLEAN, True,
        "Whether the renew acknowledge type is enabled for the share group.",
    ),
    TopicConfig(
        DEAD_LETTER_TOPIC, ConfigType.STRING, "",
        "The topic for the dead letters of the share group; empty: it has no dead letters.", check=_is_not_internal,
    ),
    TopicConfig(
        DEAD_LETTER_COPY, ConfigType.BOOLEAN, False,
        "Whether a dead letter has the key and the value of its record, besides the headers.",
    ),
    _of_streams(
        "streams.session.timeout.ms", 45_000, 45_000, 60_000,
        "The timeout to detect client failures when using the streams group protocol.",
    ),
    _of_streams(
        "streams.heartbeat.interval.ms", 5_000, 5_000, 15_000,
        "The heartbeat interval given to the members of a streams group.",
    ),
    _of_streams(
        "streams.num.standby.replicas", 0, 0, 2, "The number of standby replicas of each task of a streams group."
    ),
    _of_streams(
        "streams.initial.rebalance.delay.ms", 3_000, 0, INT_MAX,
        "The time that the first rebalance of a streams group waits for further members.",
    ),
    _of_streams(
        "streams.assignment.interval.ms", 1_000, 0, 15_000,
        "The interval between assignment updates for a streams group.",
    ),
    TopicConfig(
        RETENTION, ConfigType.INT, 10_080,
        "Minutes after which the offsets of an empty group, or of topics that it no longer reads, go. -1: never.",
        minimum=NO_RETENTION, check=_not_zero, broker_names=(RETENTION,),
        from_settings=lambda settings: settings.offsets_retention_minutes,
    ),
]  # fmt: skip

TABLE: dict[str, TopicConfig] = {row.name: row for row in _ROWS}

_FAMILIES = ((SESSION_TIMEOUT, HEARTBEAT_INTERVAL), (SHARE_SESSION_TIMEOUT, SHARE_HEARTBEAT_INTERVAL))
"""The first must be greater than the second."""

BOUNDS = {
    name: tuple(f"group.{family}.{bound}.{rest}" for bound in ("min", "max"))
    for name in (*(interval for _, interval in _FAMILIES), *TABLE)
    for family, _, rest in (name.partition("."),)
    if f"group.{name}" in TABLE[name].broker_names and TABLE[name].has_effect
}
"""Broker settings that are the bounds of a group's settings. Values that were set under other bounds are capped."""


class GroupConfigs:
    """Own settings of each group, as text; a group inherits the rest from the broker's settings."""

    def __init__(self, settings: Settings, disk: Disk, directory: str, shared: Sharing | None = None) -> None:
        """Read the file. Raises LogDamaged if the file is not valid. `shared` is set if other processes change the
        file, too.
        """
        self._shared = shared
        self._shared_change = 0 if shared is None else shared.groups_change
        self.brokers = BrokerConfigs(settings)
        self._disk = disk
        self._path = f"{directory}/{FILE}"
        self._own: dict[str, dict[str, str]] = {}
        #: own settings of client metrics subscriptions (client_metrics.py), by name
        self.client_metrics: dict[str, dict[str, str]] = {}
        self.changes = 0
        self._retention_ms: dict[str, int] = {}
        self._numbers: dict[str, dict[str, int]] = {}  # settings with bounds
        self._take(self._read())
        self._warn_of_capped()

    def __len__(self) -> int:
        return len(self._own)

    @property
    def _settings(self) -> Settings:
        return self.brokers.settings

    @property
    def group_ids(self) -> Iterable[str]:
        """The groups that have settings of their own."""
        return self._own

    def refresh(self) -> None:
        """Apply changes of other processes."""
        if self._shared is None or self._shared.groups_change == self._shared_change:
            return
        change = self._shared.groups_change  # before reading: the file may be replaced meanwhile
        before = self.brokers.settings
        self._take(self._read())
        if self.brokers.settings is not before:
            self.changes += 1
        self._shared_change = change

    def own(self, group_id: str) -> Mapping[str, str]:
        """Return the group's own settings."""
        return self._own.get(group_id, {})

    def retention_ms(self, group_id: str) -> int:
        """Return the retention of the group's unused offsets, in ms."""
        found = self._retention_ms.get(group_id)
        return self._settings.offsets_retention_ms if found is None else found

    def number(self, group_id: str, name: str, default: int) -> int:
        """Return a setting of the consumer protocol or of share groups; `default` if the group has no own value."""
        own = self._numbers.get(group_id)
        return default if own is None else own.get(name, default)

    def check(self, own: Mapping[str, str]) -> None:
        """Check settings for a group. Raises InvalidConfig if they are not valid."""
        for name, text in own.items():
            parse(_row(name), text)
        self._check_bounds(own)

    def _check_bounds(self, own: Mapping[str, str]) -> None:
        """Check Kafka's rules for settings with bounds: values within those of the broker, and a session timeout above
        the heartbeat interval.
        """
        values = {name: int(own[name]) for name in BOUNDS if name in own}
        for name, value in values.items():
            least, most = self._bounds(name)
            if not least <= value <= most:
                raise InvalidConfig(f"{name} must be in the range {least} to {most} inclusive.")
        for session, interval in _FAMILIES:
            session_ms, interval_ms = (
                values.get(name, getattr(self._settings, f"group.{name}".replace(".", "_")))
                for name in (session, interval)
            )
            if values.keys() & {session, interval} and session_ms <= interval_ms:
                raise InvalidConfig(f"{session} must be greater than {interval}")

    def configure_brokers(self, changes: Mapping[str, Mapping[str, str]]) -> Steps:
        """Replace the changed settings of these brokers, or of the cluster, as `configure` does for groups."""
        changed = {**self.brokers.stored, **{name: dict(own) for name, own in changes.items()}}
        yield lambda: replace_json(self._disk, self._path, _content(self._own, changed, self.client_metrics))
        self.changes += 1
        self.brokers.take(changed)
        self._publish()

    def configure_client_metrics(self, changes: Mapping[str, Mapping[str, str]]) -> Steps:
        """Replace the settings of these client metrics subscriptions, as `configure` does for groups."""
        changed = {name: dict(own) for name, own in {**self.client_metrics, **changes}.items() if own}
        yield lambda: replace_json(self._disk, self._path, _content(self._own, self.brokers.stored, changed))
        self.client_metrics = changed
        self._publish()

    def configure(self, changes: Mapping[str, Mapping[str, str]]) -> Steps:
        """Replace the own settings of these groups durably. Yields the write, for another thread
        (transport/net/cooperative_tasks.py). Raises OSError if that fails.
        """
        changed = {**self._own, **{group_id: dict(own) for group_id, own in changes.items()}}
        for group_id, own in changes.items():
            if not own:
                del changed[group_id]
        yield lambda: replace_json(self._disk, self._path, _content(changed, self.brokers.stored, self.client_metrics))
        self._own = changed
        self.changes += 1
        for group_id, own in changes.items():
            self._take_one(group_id, own)
        self._publish()

    def _publish(self) -> None:
        if self._shared is not None:
            self._shared.groups_changed()
            self._shared_change = self._shared.groups_change

    # Describing

    def value(self, group_id: str, row: TopicConfig) -> str:
        """Return the effective value, as text."""
        own = self.own(group_id).get(row.name)
        return text_of(row.inherited(self._settings) if own is None else parse(row, own))

    def synonyms(self, group_id: str, row: TopicConfig) -> list[Synonym]:
        """Return the possible origins of the value, the effective one first."""
        inherited = broker_synonyms(self._settings, row.broker_names, row.default)
        if not row.broker_names:
            inherited.append(Synonym(row.name, text_of(row.default), ConfigSource.DEFAULT))
        if row.name in self.own(group_id):
            inherited.insert(0, Synonym(row.name, self.value(group_id, row), ConfigSource.GROUP))
        return inherited

    # Internals

    def _take(self, own: dict[str, dict[str, str]]) -> None:
        before = self._own
        if own == before:
            return
        self.changes += 1
        self._own = own
        for group_id in before.keys() - own.keys():
            self._take_one(group_id, {})
        for group_id, each in own.items():
            if before.get(group_id) != each:
                self._take_one(group_id, each)

    def _take_one(self, group_id: str, own: Mapping[str, str]) -> None:
        self._retention_ms.pop(group_id, None)
        self._numbers.pop(group_id, None)
        if own:
            self._retention_ms[group_id] = self._retention_of(own)
            self._numbers[group_id] = {name: self._capped(name, own[name]) for name in BOUNDS if name in own}

    def _capped(self, name: str, text: str) -> int:
        """Return the value within the broker's bounds, which may have been others when it was set
        (GroupConfig.evaluate).
        """
        least, most = self._bounds(name)
        return max(least, min(int(text), most))

    def _bounds(self, name: str) -> tuple[int, int]:
        least, most = (getattr(self._settings, bound.replace(".", "_")) for bound in BOUNDS[name])
        return least, most

    def _warn_of_capped(self) -> None:
        capped = [
            (group_id, name, text, self._numbers[group_id][name])
            for group_id, own in self._own.items()
            for name, text in own.items()
            if name in BOUNDS and self._numbers[group_id][name] != int(text)
        ]
        if capped:
            group_id, name, text, value = capped[0]
            log.warning(
                "settings of groups are beyond the broker's bounds, and are capped",
                settings=len(capped), group=group_id, name=name, value=text, capped_to=value,
            )  # fmt: skip

    def _retention_of(self, own: Mapping[str, str]) -> int:
        if RETENTION not in own:
            return self._settings.offsets_retention_ms
        minutes = int(own[RETENTION])
        return NEVER_MS if minutes == NO_RETENTION else minutes * 60_000

    def _read(self) -> dict[str, dict[str, str]]:
        text = read_text(self._disk, self._path)
        if text is None:
            return {}
        try:
            content = orjson.loads(text)
            if content["version"] != VERSION:
                raise other_version(self._path, content["version"], VERSION)
            groups = {str(group_id): dict(own) for group_id, own in content["groups"].items()}
            for group_id, own in groups.items():
                if self._own.get(group_id) != own:
                    for name, text in own.items():
                        parse(_row(name), text)
            brokers = {str(name): dict(own) for name, own in content.get("brokers", {}).items()}
            client_metrics = {str(name): dict(own) for name, own in content.get("client_metrics", {}).items()}
        except (ValueError, KeyError, TypeError, AttributeError, InvalidConfig) as error:
            raise LogDamaged(self._path, 0, f"not a list of groups' settings: {error!r}") from None
        self.brokers.take(brokers)
        self.client_metrics = client_metrics
        return groups


_Own = Mapping[str, Mapping[str, str]]


def _content(groups: _Own, brokers: _Own, client_metrics: _Own) -> dict[str, object]:
    others = {"brokers": brokers, "client_metrics": client_metrics}
    return {"version": VERSION, "groups": groups, **{name: own for name, own in others.items() if own}}


def _row(name: str) -> TopicConfig:
    row = TABLE.get(name)
    if row is None:
        raise InvalidConfig(f"Unknown group config name: {name}")
    return row
