"""Topic-level settings: Kafka 4.4's names, types, ranges and defaults.

If topics inherit a broker setting, their default is the broker's value (`from_settings`). `has_effect` marks the
settings that change the behaviour of this server; the others are stored and returned, because commands that set them
are common (`min.insync.replicas` with a single replica is always satisfied, as in Kafka).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from coordinatord.base.config import Settings

INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1
MIB = 1024 * 1024

Value = int | float | bool | str | tuple[str, ...]


class ConfigType(IntEnum):
    """Values of `config_type` in DescribeConfigs."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSource(IntEnum):
    """Values of `config_source` in DescribeConfigs: the origin of a value."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    CLIENT_METRICS = 7
    GROUP = 8


class InvalidConfig(Exception):
    """Error for a name or value that Kafka rejects with INVALID_CONFIG; the message is Kafka's."""


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """One topic setting. `broker_names`: the broker settings that a topic inherits it from; the first one that is set
    wins.
    """

    name: str
    type: ConfigType
    default: Value
    doc: str
    minimum: float | None = None
    maximum: float | None = None
    allowed: tuple[str, ...] = ()
    broker_names: tuple[str, ...] = ()
    from_settings: Callable[[Settings], Value] | None = None
    has_effect: bool = True
    check: Callable[[str, Value], None] | None = None

    def inherited(self, settings: Settings) -> Value:
        """Return the value for a topic that does not set it."""
        return self.default if self.from_settings is None else self.from_settings(settings)


def gzip_level(name: str, level: Value) -> None:
    if level not in (-1, *range(1, 10)):
        why = "Value must be between 1 and 9 or equal to -1"
        raise InvalidConfig(f"Invalid value {level} for configuration {name}: {why}")


def _replicas(name: str, replicas: Value) -> None:
    """Check a list of throttled replicas, as Kafka's ThrottledReplicaListValidator does."""
    assert isinstance(replicas, tuple)
    if replicas != ("*",) and not all(re.fullmatch("[0-9]+:[0-9]+", each) for each in replicas):
        why = f"{name} must be the literal '*' or a list of replicas in the following format: [partitionId]:[brokerId]"
        text = f"[{', '.join(replicas)}]"
        raise InvalidConfig(f"Invalid value {text} for configuration {name}: {why},[partitionId]:[brokerId],...")


def _broker(name: str) -> Callable[[Settings], Value]:
    attribute = name.replace(".", "_")

    def read(settings: Settings) -> Value:
        value: Value = getattr(settings, attribute)
        return value

    return read


_B, _S, _I, _L, _D, _LIST = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
    ConfigType.LIST,
)

_ROWS = (
    TopicConfig(
        "cleanup.policy", _LIST, ("delete",), "What becomes of old segments.", allowed=("compact", "delete"),
        broker_names=("log.cleanup.policy",), from_settings=_broker("log.cleanup.policy"),
    ),
    TopicConfig(
        "compression.gzip.level", _I, -1, "Level for compression.type gzip.", check=gzip_level,
        broker_names=("compression.gzip.level",),
        has_effect=False,
    ),
    TopicConfig(
        "compression.lz4.level", _I, 9, "Level for compression.type lz4.", minimum=1, maximum=17,
        broker_names=("compression.lz4.level",),
        has_effect=False,
    ),
    TopicConfig(
        "compression.type", _S, "producer", "The codec in which batches are kept; producer: as they come.",
        allowed=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), broker_names=("compression.type",),
    ),
    TopicConfig(
        "compression.zstd.level", _I, 3, "Level for compression.type zstd.", minimum=-131072, maximum=22,
        broker_names=("compression.zstd.level",),
        has_effect=False,
    ),
    TopicConfig(
        "delete.retention.ms", _L, 86_400_000, "How long a tombstone stays after compaction.", minimum=0,
        broker_names=("log.cleaner.delete.retention.ms",), from_settings=_broker("log.cleaner.delete.retention.ms"),
    ),
    TopicConfig(
        "errors.deadletterqueue.group.enable", _B, False, "Whether share groups may write dead letters here.",
    ),
    TopicConfig(
        "file.delete.delay.ms", _L, 60_000, "Time between dropping a segment and deleting its files.", minimum=0,
        broker_names=("log.segment.delete.delay.ms",), from_settings=_broker("log.segment.delete.delay.ms"),
        has_effect=False,
    ),
    TopicConfig(
        "flush.messages", _L, LONG_MAX, "Records between two flushes; see log.flush.", minimum=1,
        broker_names=("log.flush.interval.messages",),
        has_effect=False,
    ),
    TopicConfig(
        "flush.ms", _L, LONG_MAX, "Time between two flushes; see log.flush.", minimum=0,
        has_effect=False,
    ),
    TopicConfig(
        "follower.replication.throttled.replicas", _LIST, (), "Replicas with a quota; there are none.",
        has_effect=False, check=_replicas,
    ),
    TopicConfig(
        "index.interval.bytes", _I, 4096, "Bytes of log between two index entries.", minimum=0,
        broker_names=("log.index.interval.bytes",), from_settings=_broker("log.index.interval.bytes"),
    ),
    TopicConfig(
        "leader.replication.throttled.replicas", _LIST, (), "Replicas with a quota; there are none.",
        has_effect=False, check=_replicas,
    ),
    TopicConfig(
        "local.retention.bytes", _L, -2, "For tiered storage, which there is not.", minimum=-2,
        broker_names=("log.local.retention.bytes",),
        has_effect=False,
    ),
    TopicConfig(
        "local.retention.ms", _L, -2, "For tiered storage, which there is not.", minimum=-2,
        broker_names=("log.local.retention.ms",),
        has_effect=False,
    ),
    TopicConfig(
        "max.compaction.lag.ms", _L, LONG_MAX, "Age at which a log is compacted whatever its ratio.", minimum=1,
        broker_names=("log.cleaner.max.compaction.lag.ms",), from_settings=_broker("log.cleaner.max.compaction.lag.ms"),
    ),
    TopicConfig(
        "max.decompressed.message.bytes", _I, INT_MAX - 8, "The largest record of a compressed batch.", minimum=1,
        maximum=INT_MAX - 8, broker_names=("max.decompressed.message.bytes",),
        from_settings=_broker("max.decompressed.message.bytes"),
    ),
    TopicConfig(
        "max.message.bytes", _I, MIB + 12, "The largest record batch.", minimum=0,
        broker_names=("message.max.bytes",), from_settings=_broker("message.max.bytes"),
    ),
    TopicConfig(
        "message.timestamp.after.max.ms", _L, 3_600_000, "How far a record's time may lie ahead.", minimum=0,
        broker_names=("log.message.timestamp.after.max.ms",),
        from_settings=_broker("log.message.timestamp.after.max.ms"),
    ),
    TopicConfig(
        "message.timestamp.before.max.ms", _L, LONG_MAX, "How far a record's time may lie behind.", minimum=0,
        broker_names=("log.message.timestamp.before.max.ms",),
        from_settings=_broker("log.message.timestamp.before.max.ms"),
    ),
    TopicConfig(
        "message.timestamp.type", _S, "CreateTime", "The producer's time, or that of the append.",
        allowed=("CreateTime", "LogAppendTime"), broker_names=("log.message.timestamp.type",),
        from_settings=_broker("log.message.timestamp.type"),
    ),
    TopicConfig(
        "min.cleanable.dirty.ratio", _D, 0.5, "Share that must be dirty before compaction.", minimum=0, maximum=1,
        broker_names=("log.cleaner.min.cleanable.ratio",), from_settings=_broker("log.cleaner.min.cleanable.ratio"),
    ),
    TopicConfig(
        "min.compaction.lag.ms", _L, 0, "Age below which a record is not compacted away.", minimum=0,
        broker_names=("log.cleaner.min.compaction.lag.ms",), from_settings=_broker("log.cleaner.min.compaction.lag.ms"),
    ),
    TopicConfig(
        "min.insync.replicas", _I, 1, "Replicas that must have a record for acks=all.", minimum=1,
        broker_names=("min.insync.replicas",), has_effect=False,
    ),
    TopicConfig(
        "preallocate", _B, False, "Whether segment files are made in full size.", broker_names=("log.preallocate",),
        has_effect=False,
    ),
    TopicConfig(
        "remote.copy.lag.bytes", _L, -1, "For tiered storage, which there is not.", minimum=-1,
        broker_names=("log.remote.copy.lag.bytes",),
        has_effect=False,
    ),
    TopicConfig(
        "remote.copy.lag.ms", _L, 0, "For tiered storage, which there is not.", minimum=-1,
        broker_names=("log.remote.copy.lag.ms",),
        has_effect=False,
    ),
    TopicConfig("remote.log.copy.disable", _B, False, "For tiered storage, which there is not.", has_effect=False),
    TopicConfig("remote.log.delete.on.disable", _B, False, "For tiered storage, which there is not.", has_effect=False),
    TopicConfig("remote.storage.enable", _B, False, "For tiered storage, which there is not.", has_effect=False),
    TopicConfig(
        "retention.bytes", _L, -1, "Size beyond which a partition's oldest segments are deleted.",
        broker_names=("log.retention.bytes",), from_settings=_broker("log.retention.bytes"),
    ),
    TopicConfig(
        "retention.ms", _L, 604_800_000, "Age at which a segment may be deleted.", minimum=-1,
        broker_names=("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        from_settings=lambda settings: settings.retention_ms,
    ),
    TopicConfig(
        "segment.bytes", _I, 1024 * MIB, "Size at which a new segment begins.", minimum=MIB,
        broker_names=("log.segment.bytes",), from_settings=_broker("log.segment.bytes"),
    ),
    TopicConfig(
        "segment.index.bytes", _I, 10 * MIB, "The largest index of a segment.", minimum=4,
        broker_names=("log.index.size.max.bytes",), from_settings=_broker("log.index.size.max.bytes"),
    ),
    TopicConfig(
        "segment.jitter.ms", _L, 0, "Spread of segment.ms.", minimum=0,
        has_effect=False,
    ),
    TopicConfig(
        "segment.ms", _L, 604_800_000, "Age at which a new segment begins.", minimum=1,
        broker_names=("log.roll.ms", "log.roll.hours"), from_settings=lambda settings: settings.roll_ms,
    ),
    TopicConfig(
        "unclean.leader.election.enable", _B, False, "For replicas, of which there is one.",
        broker_names=("unclean.leader.election.enable",),
        has_effect=False,
    ),
)  # fmt: skip

TABLE: dict[str, TopicConfig] = {row.name: row for row in _ROWS}
"""Topic settings by name, sorted by name, as Kafka lists them."""

INTERNAL_SEGMENT_BYTES = TopicConfig(
    "internal.segment.bytes", _I, 0, "segment.bytes without its minimum, for tests (Kafka has it too).", minimum=1
)
"""Setting that is accepted, but never listed."""
