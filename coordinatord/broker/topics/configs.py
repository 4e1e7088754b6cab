"""Settings of a topic: its own, the inherited ones, and the resulting values for its log and its producers.

`parse` parses one value; `Configs` is a topic's whole set. A topic stores only its own settings, as text, as Kafka
does; so after a restart its inherited values follow the broker's settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import dropwhile
from typing import NamedTuple

from coordinatord.base.config import TABLE as BROKER_TABLE
from coordinatord.base.config import Settings
from coordinatord.broker.log.config import LogConfig
from coordinatord.broker.topics.config_table import (
    INT_MAX,
    INTERNAL_SEGMENT_BYTES,
    LONG_MAX,
    TABLE,
    ConfigSource,
    ConfigType,
    InvalidConfig,
    TopicConfig,
    Value,
)
from kafka_wire.records.compression import Compression
from kafka_wire.records.produced import Limits

LARGEST = {ConfigType.SHORT: (1 << 15) - 1, ConfigType.INT: INT_MAX, ConfigType.LONG: LONG_MAX}
"""Largest number of a type."""

MAX_VALUE_CHARACTERS = 32_767
"""Longest value in characters; Kafka's controller rejects longer ones (`Short.MAX_VALUE`)."""

CODECS = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


class Synonym(NamedTuple):
    """One of the possible origins of a value."""

    name: str
    value: str | None
    source: ConfigSource


def text_of(value: object) -> str:
    """Return a value in the notation of Kafka's ConfigDef."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (tuple, list)):
        return ",".join(":".join(item) if isinstance(item, tuple) else str(item) for item in value)
    return str(value).replace("e+", "E") if isinstance(value, float) else str(value)


def row_of(name: str) -> TopicConfig:
    """Return the row of a topic setting. Raises InvalidConfig for an unknown name."""
    row = TABLE.get(name)
    if row is None:
        if name == INTERNAL_SEGMENT_BYTES.name:
            return INTERNAL_SEGMENT_BYTES
        raise InvalidConfig(f"Unknown topic config name: {name}")
    return row


def parse(row: TopicConfig, text: str) -> Value:
    """Return a setting's value from its text. Raises InvalidConfig with the message of Kafka's ConfigDef."""
    value = _typed(row, text)
    if row.allowed:
        for item in value if isinstance(value, tuple) else (str(value),):
            if not item:
                raise InvalidConfig(f"Configuration '{row.name}' values must not be empty.")
            if item not in row.allowed:
                raise InvalidConfig(
                    f"Invalid value {item} for configuration {row.name}: "
                    f"String must be one of: {', '.join(row.allowed)}"
                )
    if isinstance(value, (int, float)):
        if row.minimum is not None and value < row.minimum:
            raise _invalid(row, text_of(value), f"Value must be at least {row.minimum}")
        if row.maximum is not None and value > row.maximum:
            raise _invalid(row, text_of(value), f"Value must be no more than {row.maximum}")
    if row.check is not None:
        row.check(row.name, value)
    return value


def _invalid(row: TopicConfig, text: str, why: str) -> InvalidConfig:
    return InvalidConfig(f"Invalid value {text} for configuration {row.name}: {why}")


def _typed(row: TopicConfig, text: str) -> Value:
    stripped = text.strip()
    if row.type in (ConfigType.STRING, ConfigType.PASSWORD, ConfigType.CLASS):
        return stripped
    if row.type is ConfigType.LIST:
        # Duplicates in a list are removed, as in Kafka.
        return tuple(dict.fromkeys(item.strip() for item in stripped.split(","))) if stripped else ()
    if row.type is ConfigType.BOOLEAN:
        if stripped.lower() not in ("true", "false"):
            raise _invalid(row, text, "Expected value to be either true or false")
        return stripped.lower() == "true"
    if row.type is ConfigType.DOUBLE:
        try:
            number = float(stripped)
        except ValueError:
            number = float("nan")
        if number != number:
            raise _invalid(row, text, "Not a number of type DOUBLE")
        return number
    digits = stripped[1:] if stripped[:1] in ("-", "+") else stripped
    largest = LARGEST[row.type]
    if digits.isascii() and digits.isdigit() and len(digits) <= 40 and -largest - 1 <= int(stripped) <= largest:
        return int(stripped)
    raise _invalid(row, text, f"Not a number of type {row.type.name}")


def too_long() -> InvalidConfig:
    """Return the error for a value with more than MAX_VALUE_CHARACTERS."""
    return InvalidConfig(
        f"The configuration value cannot be added because it exceeds the maximum value size of {MAX_VALUE_CHARACTERS} "
        "bytes."
    )


class Configs:
    """All settings of one topic. `own` has the texts of the settings that the topic sets itself. Immutable; a change
    creates a new object.
    """

    __slots__ = ("_settings", "_values", "compression", "limits", "log_config", "own", "segment_bytes")

    def __init__(self, settings: Settings, own: Mapping[str, str]) -> None:
        """Parse and check the settings. Raises InvalidConfig if `own` is not valid."""
        self._settings = settings
        self.own = dict(own)
        self._values: dict[str, Value] = {}
        for name, text in self.own.items():
            row = row_of(name)
            if len(text) > MAX_VALUE_CHARACTERS:
                raise too_long()
            self._values[name] = parse(row, text)
        self._check_together()
        self._derive()

    def value(self, name: str) -> Value:
        """Return the effective value."""
        found = self._values.get(name)
        return row_of(name).inherited(self._settings) if found is None else found

    def _number(self, name: str) -> int:
        return int(self.value(name))  # type: ignore[arg-type]  # the row's type is INT or LONG

    def _check_together(self) -> None:
        low, high = self._number("min.compaction.lag.ms"), self._number("max.compaction.lag.ms")
        if low > high:
            raise InvalidConfig(
                f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})"
            )
        if self.value("remote.storage.enable"):
            raise InvalidConfig(
                "Tiered Storage functionality is disabled in the broker. "
                "Topic cannot be configured with remote log storage."
            )

    def _derive(self) -> None:
        policy = self.value("cleanup.policy")
        assert isinstance(policy, tuple)
        own_segment_bytes = self._values.get(INTERNAL_SEGMENT_BYTES.name)
        self.segment_bytes = self._number("segment.bytes") if own_segment_bytes is None else int(own_segment_bytes)  # type: ignore[arg-type]  # INT
        self.log_config = LogConfig(
            segment_bytes=self.segment_bytes,
            segment_ms=self._number("segment.ms"),
            index_interval_bytes=self._number("index.interval.bytes"),
            retention_ms=self._number("retention.ms"),
            retention_bytes=self._number("retention.bytes"),
            cleanup_policy=",".join(policy),
            min_cleanable_dirty_ratio=float(self.value("min.cleanable.dirty.ratio")),  # type: ignore[arg-type]  # DOUBLE
            min_compaction_lag_ms=self._number("min.compaction.lag.ms"),
            max_compaction_lag_ms=self._number("max.compaction.lag.ms"),
            delete_retention_ms=self._number("delete.retention.ms"),
            segment_index_bytes=self._number("segment.index.bytes"),
        )
        self.limits = Limits(
            max_message_bytes=self._number("max.message.bytes"),
            compacted="compact" in policy,
            log_append_time=self.value("message.timestamp.type") == "LogAppendTime",
            timestamp_before_max_ms=self._number("message.timestamp.before.max.ms"),
            timestamp_after_max_ms=self._number("message.timestamp.after.max.ms"),
            max_decompressed_message_bytes=self._number("max.decompressed.message.bytes"),
        )
        self.compression: Compression | None = CODECS.get(str(self.value("compression.type")))

    # Describing

    @property
    def rows(self) -> list[TopicConfig]:
        """The settings that a response describes: as on Kafka, an internal one only if the topic sets it itself."""
        return [*TABLE.values(), *(INTERNAL_SEGMENT_BYTES for name in self.own if name == INTERNAL_SEGMENT_BYTES.name)]

    def source(self, row: TopicConfig) -> ConfigSource:
        """Return the origin of the effective value."""
        synonyms = self.synonyms(row)
        return synonyms[0].source if synonyms else ConfigSource.DEFAULT

    def synonyms(self, row: TopicConfig) -> list[Synonym]:
        """Return the possible origins of the value, the effective one first."""
        inherited = broker_synonyms(self._settings, row.broker_names, row.default)
        # As in Kafka, broker settings that precede the one the topic setting is named after are not shown.
        while inherited and inherited[0].name != row.broker_names[0]:
            del inherited[0]
        if row.name in self.own:
            inherited.insert(0, Synonym(row.name, text_of(self.value(row.name)), ConfigSource.TOPIC))
        return inherited


def is_set(settings: Settings, broker_name: str) -> bool:
    """Return whether a broker setting had a value other than its default when the broker started."""
    row = BROKER_TABLE.get(broker_name)
    return row is not None and _static(settings, row.attribute) != row.default


def _static(settings: Settings, attribute: str) -> object:
    """Return a setting's value at the start of the broker."""
    value = getattr(settings, attribute)
    return value if settings.overrides is None else settings.overrides.static.get(attribute, value)


def broker_synonyms(settings: Settings, names: tuple[str, ...], otherwise: Value | None = None) -> list[Synonym]:
    """Return the broker settings of these names: those that were changed for this broker, for all brokers, those that
    are set, then all defaults. `otherwise` is Kafka's default for a name that is not a setting here.
    """
    found = []
    changed = settings.overrides
    if changed is not None:
        for own, source in (
            (changed.broker, ConfigSource.DYNAMIC_BROKER),
            (changed.default, ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ):
            found += [Synonym(name, own[name], source) for name in names if name in own]
    for name in names:
        if is_set(settings, name):
            value = _static(settings, BROKER_TABLE[name].attribute)
            found.append(Synonym(name, text_of(value), ConfigSource.STATIC_BROKER))
    for name in names:
        row = BROKER_TABLE.get(name)
        default = row.default if row is not None else otherwise
        if default is not None:
            found.append(Synonym(name, text_of(default), ConfigSource.DEFAULT))
    return found


def own_synonyms(settings: Settings, name: str) -> list[Synonym]:
    """Return the synonyms of a broker setting, with the settings that replace it if it is not set: hours for
    milliseconds.
    """
    names = next((row.broker_names for row in TABLE.values() if name in row.broker_names), (name,))
    return list(dropwhile(lambda each: each.name != name, broker_synonyms(settings, names)))
