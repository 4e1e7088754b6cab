"""Selection of the stories that a broker can play, by its settings and its APIs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from coordinatord.testing.conform.story import Step, Story
from kafka_wire.registry import API_NAMES, messages
from kafka_wire.schema import schema_of

COMMON: Mapping[str, str] = {"group.initial.rebalance.delay.ms": "0"}
"""Settings that every story needs unless it has others: most stories are not about the first rebalance."""

KAFKA_DEFAULTS: Mapping[str, str] = {
    "group.consumer.assignment.interval.ms": "1000",
    "group.consumer.assignors": "uniform,range",
    "group.consumer.heartbeat.interval.ms": "5000",
    "group.consumer.max.session.timeout.ms": "60000",
    "group.consumer.migration.policy": "bidirectional",
    "group.consumer.min.session.timeout.ms": "45000",
    "group.min.session.timeout.ms": "6000",
    "group.share.heartbeat.interval.ms": "5000",
    "group.share.record.lock.duration.ms": "30000",
    "num.partitions": "1",
    "offset.metadata.max.bytes": "4096",
}
"""Kafka's defaults. A setting that a broker does not return is assumed to have its default."""

_CONSUMER_SETTINGS = (
    "group.consumer.assignors",
    "group.consumer.heartbeat.interval.ms",
    "group.consumer.migration.policy",
)
"""Settings that influence nearly every response to a consumer group heartbeat: a story needs the defaults of these
settings unless it sets other values.
"""

_SHARE_SETTINGS = ("group.share.heartbeat.interval.ms", "group.share.record.lock.duration.ms")
"""As above, for members of share groups."""

_PROTOCOLS = "group.coordinator.rebalance.protocols"
_ASKED_PROTOCOLS = frozenset({"classic", "consumer"})
"""Protocols that a broker has by this setting alone; a broker that has share groups also serves their APIs."""

TAKES_MINUTES = "takes minutes (--slow plays it)"

API_KEYS = {name: key for key, name in API_NAMES.items()}


@dataclass(frozen=True, slots=True)
class Broker:
    """Properties of a broker. `settings` are those that it returns; `versions`: (first, last) by API key."""

    settings: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    is_own: bool = False  # the broker has no other clients and no data


def settings_of(story: Story) -> dict[str, str]:
    """Return the settings that a broker needs for this story."""
    apis = {step.api for step in story.steps}
    names: tuple[str, ...] = _CONSUMER_SETTINGS if "ConsumerGroupHeartbeat" in apis else ()
    names += _SHARE_SETTINGS if "ShareGroupHeartbeat" in apis else ()
    return {**COMMON, **{name: KAFKA_DEFAULTS[name] for name in names}, **story.settings}


def to_start_with(story: Story) -> dict[str, str]:
    """Return the settings that a broker must be started with for this story: those that are not Kafka's defaults."""
    return {name: value for name, value in settings_of(story).items() if KAFKA_DEFAULTS.get(name) != value}


def by_settings(stories: Iterable[Story], *, is_told: bool = True) -> list[tuple[dict[str, str], list[Story]]]:
    """Return groups of stories that can share a broker, with its settings; the largest group first. An `alone` story
    has its own broker. Without `is_told`, the broker cannot be started with settings, and the settings are empty.
    """
    shared: dict[tuple[str, tuple[tuple[str, str], ...]], list[Story]] = {}
    for story in stories:
        settings = to_start_with(story) if is_told else {}
        key = story.name if story.alone else "", tuple(sorted(settings.items()))
        shared.setdefault(key, []).append(story)
    found = [(dict(settings), members) for (_, settings), members in shared.items()]
    return sorted(found, key=lambda pair: -len(pair[1]))


def why_not(story: Story, broker: Broker, *, is_slow_wanted: bool) -> str:
    """Return the reason why this broker cannot play this story; empty if it can."""
    if story.slow and not is_slow_wanted:
        return TAKES_MINUTES
    if story.alone and not broker.is_own:
        return "needs a broker of its own (--start)"
    for name, wanted in settings_of(story).items():
        actual = broker.settings.get(name, KAFKA_DEFAULTS.get(name))
        if actual is None:
            return f"needs {name}={wanted}, which the broker does not tell (--assume {name}={wanted})"
        if not _fits(name, wanted, actual):
            return f"needs {name}={wanted}; the broker has {actual}"
    is_refused = "consumer" not in story.settings.get(_PROTOCOLS, "consumer")  # the story is about an API switched off
    return "" if is_refused else _unserved(story.steps, broker)


def _fits(name: str, wanted: str, actual: str) -> bool:
    if name == _PROTOCOLS:
        return _listed(wanted) & _ASKED_PROTOCOLS == _listed(actual) & _ASKED_PROTOCOLS
    return wanted == actual


def _listed(text: str) -> set[str]:
    return {item.strip() for item in text.split(",")}


def _unserved(steps: Iterable[Step], broker: Broker) -> str:
    """Return the first request that Kafka supports and this broker does not. Versions that no broker supports are
    ignored: some stories are about them.
    """
    for step in steps:
        if step.kind not in (":", ">"):
            continue
        key = API_KEYS[step.api]
        if step.version not in schema_of(messages(key)[0]).versions:
            continue
        first, last = broker.versions.get(key, (0, -1))
        if not first <= step.version <= last:
            return f"the broker does not serve {step.api} v{step.version}"
    return ""
