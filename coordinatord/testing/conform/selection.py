"""Which stories a broker can be asked: its settings and its APIs decide. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from coordinatord.testing.conform.story import Step, Story
from kafka_wire.api_key import ApiKey
from kafka_wire.registry import API_NAMES, messages
from kafka_wire.schema import schema_of

COMMON: Mapping[str, str] = {"group.initial.rebalance.delay.ms": "0"}
"""What a broker needs for every story that does not say otherwise: most are not about the first rebalance."""

KAFKA_DEFAULTS: Mapping[str, str] = {
    "group.consumer.assignment.interval.ms": "1000",
    "group.consumer.assignors": "uniform,range",
    "group.consumer.heartbeat.interval.ms": "5000",
    "group.consumer.migration.policy": "bidirectional",
    "group.min.session.timeout.ms": "6000",
    "num.partitions": "1",
    "offset.metadata.max.bytes": "4096",
}
"""What Kafka has unless it is told otherwise. A broker that does not say what it has is taken to have these."""

_CONSUMER_SETTINGS = (
    "group.consumer.assignors",
    "group.consumer.heartbeat.interval.ms",
    "group.consumer.migration.policy",
)
"""What nearly every answer to a consumer group heartbeat depends on: stories need the defaults unless they say
otherwise."""

_PROTOCOLS = "group.coordinator.rebalance.protocols"
_ASKED_PROTOCOLS = frozenset({"classic", "consumer"})
"""Protocols that stories ask about: a broker may serve others, too."""

TAKES_MINUTES = "takes minutes (--slow plays it)"

LATER_API_VERSIONS = 5
"""The version of ApiVersions that tells a broker with the later versions of requests from others."""

API_KEYS = {name: key for key, name in API_NAMES.items()}


@dataclass(frozen=True, slots=True)
class Broker:
    """What a broker says of itself. `settings` are those that it tells; `versions`: (first, last) by API key."""

    settings: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    is_own: bool = False  # nobody else uses it, and it is empty


def settings_of(story: Story) -> dict[str, str]:
    """The settings that a broker needs for this story."""
    is_consumer = any(step.api == "ConsumerGroupHeartbeat" for step in story.steps)
    relied_on = {name: KAFKA_DEFAULTS[name] for name in _CONSUMER_SETTINGS if is_consumer}
    return {**COMMON, **relied_on, **story.settings}


def to_start_with(story: Story) -> dict[str, str]:
    """The settings that a broker must be started with for this story: those that are not Kafka's defaults."""
    return {name: value for name, value in settings_of(story).items() if KAFKA_DEFAULTS.get(name) != value}


def by_settings(stories: Iterable[Story], *, is_told: bool = True) -> list[tuple[dict[str, str], list[Story]]]:
    """Stories that can share a broker, with its settings; the largest set first. An `alone` story has its own. If the
    broker cannot be told its settings, they are empty.
    """
    shared: dict[tuple[str, tuple[tuple[str, str], ...]], list[Story]] = {}
    for story in stories:
        settings = to_start_with(story) if is_told else {}
        key = story.name if story.alone else "", tuple(sorted(settings.items()))
        shared.setdefault(key, []).append(story)
    found = [(dict(settings), members) for (_, settings), members in shared.items()]
    return sorted(found, key=lambda pair: -len(pair[1]))


def why_not(story: Story, broker: Broker, *, is_slow_wanted: bool) -> str:
    """Why this broker cannot be asked this story; empty if it can."""
    if story.slow and not is_slow_wanted:
        return TAKES_MINUTES
    if story.alone and not broker.is_own:
        return "needs a broker of its own (--start)"
    if story.kafka and broker.versions.get(ApiKey.API_VERSIONS, (0, -1))[1] < LATER_API_VERSIONS:
        return f"is about Kafka {story.kafka}; the broker is older: it does not serve ApiVersions v{LATER_API_VERSIONS}"
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
        return _listed(wanted) == _listed(actual) & _ASKED_PROTOCOLS
    return wanted == actual


def _listed(text: str) -> set[str]:
    return {item.strip() for item in text.split(",")}


def _unserved(steps: Iterable[Step], broker: Broker) -> str:
    """The first request that Kafka serves and this broker does not offer. Some stories ask for versions that nobody
    serves; that is what they are about.
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
