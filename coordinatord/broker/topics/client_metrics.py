"""Settings of client metrics subscriptions (KIP-714), as Kafka's ClientMetricsConfigs checks them.

They are kept and described, as on a Kafka broker without a plugin that receives metrics: such a broker, too, does not
serve GetTelemetrySubscriptions, and no client pushes metrics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from coordinatord.broker.topics.broker_configs import UnacceptableChange
from coordinatord.broker.topics.config_table import ConfigSource, ConfigType, InvalidConfig, TopicConfig, Value
from coordinatord.broker.topics.configs import MAX_VALUE_CHARACTERS, Synonym, parse, text_of, too_long

MAX_SUBSCRIPTIONS: Final = 100
"""Most subscriptions that have settings: all of them are in one file, which each change replaces."""

MAX_NAME_CHARACTERS: Final = 249
"""Longest name of a subscription: that of a topic. Kafka has no limit."""

_MATCHES = (
    "client_instance_id", "client_id", "client_software_name", "client_software_version",
    "client_source_address", "client_source_port",
)  # fmt: skip


def _interval(name: str, value: Value) -> None:
    if not 100 <= int(str(value)) <= 3_600_000:
        raise UnacceptableChange(f"Invalid value {value} for {name}, interval must be between 100 and 3600000 (1 hour)")


def _patterns(_name: str, value: Value) -> None:
    """Check a list of patterns, but not the syntax of their regular expressions, which is Java's."""
    assert isinstance(value, tuple)
    for each in value:
        key, _, pattern = str(each).partition("=")
        if key.strip() not in _MATCHES or not pattern.strip() or "=" in pattern:
            raise InvalidConfig(f"Illegal client matching pattern: {each}")


_ROWS = (
    TopicConfig("metrics", ConfigType.LIST, (), "Telemetry metric name prefix list"),
    TopicConfig("interval.ms", ConfigType.INT, 300_000, "Metrics push interval in milliseconds", check=_interval),
    TopicConfig("match", ConfigType.LIST, (), "Client match criteria", check=_patterns),
)
TABLE: dict[str, TopicConfig] = {row.name: row for row in _ROWS}


def row_of(name: str) -> TopicConfig:
    """Return the row of a setting. Raises UnacceptableChange for an unknown name."""
    if name not in TABLE:
        raise UnacceptableChange(f"Unknown client metrics configuration: {name}")
    return TABLE[name]


def check(own: Mapping[str, str]) -> None:
    """Check the settings of a subscription. Raises UnacceptableChange or InvalidConfig with Kafka's message."""
    for name, text in own.items():
        row = row_of(name)
        if len(text) > MAX_VALUE_CHARACTERS:
            raise too_long()
        parse(row, text)


def value(own: Mapping[str, str], row: TopicConfig) -> str:
    """Return the effective value, as text."""
    return text_of(parse(row, own[row.name]) if row.name in own else row.default)


def synonyms(own: Mapping[str, str], row: TopicConfig) -> list[Synonym]:
    """Return the subscription's own value; none if it has the default."""
    return [Synonym(row.name, value(own, row), ConfigSource.CLIENT_METRICS)] if row.name in own else []
