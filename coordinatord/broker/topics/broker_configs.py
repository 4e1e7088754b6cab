"""Settings of brokers that clients change while the brokers run (KIP-226): those of the cluster, and of each broker.

The rules are Kafka 4.4's (DynamicBrokerConfig, ConfigAdminManager). A setting that Kafka can change and that has no
effect here is checked and kept, so that tools which set it do not fail. So is a name that Kafka does not know.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Final

from coordinatord.base.config import TABLE, Settings
from coordinatord.base.config.overrides import Overrides
from coordinatord.base.config.setting_types import Unacceptable
from coordinatord.base.config.table import FIXED
from coordinatord.base.observe.logger import get_logger
from coordinatord.broker.topics.broker_config_table import (
    DYNAMIC,
    LISTENERS_OF_CLUSTER,
    OF_LISTENERS,
    PER_BROKER,
    THREADS,
)
from coordinatord.broker.topics.config_table import ConfigType, InvalidConfig, TopicConfig
from coordinatord.broker.topics.configs import MAX_VALUE_CHARACTERS, parse, too_long

log = get_logger("coordinatord.broker.topics")

CLUSTER: Final = ""
"""Name of the resource with the defaults of all brokers."""

MIN_ISR: Final = "min.insync.replicas"
CLEANER_THREADS, CLEANER_BUFFER = "log.cleaner.threads", "log.cleaner.dedupe.buffer.size"

INITIAL: Final[Mapping[str, str]] = {MIN_ISR: "1"}
"""Defaults that Kafka's controller sets when it creates a cluster (KIP-966)."""

MOST_NAMES: Final = 500
"""Largest number of changed settings of a resource. Kafka has no limit, and some 110 names that can be changed."""


class UnacceptableChange(Exception):
    """Error for a change that Kafka rejects with INVALID_REQUEST; the message is Kafka's."""


class BrokerConfigs:
    """Changed settings by resource name, and the settings of this node that follow from them."""

    def __init__(self, static: Settings) -> None:
        self._static = static
        self._node = str(static.node_id)
        self._own: dict[str, dict[str, str]] = {}
        self._followers: list[Callable[[Settings], object]] = []
        self.settings = with_overrides(static, INITIAL, {})

    def follow(self, receive: Callable[[Settings], object]) -> None:
        """Call `receive` with the node's settings, now and whenever they have changed."""
        receive(self.settings)
        self._followers.append(receive)

    @property
    def stored(self) -> dict[str, dict[str, str]]:
        """The changed settings by resource name, as the file has them."""
        return self._own

    def own(self, name: str) -> Mapping[str, str]:
        """Return the changed settings of a broker, or of the cluster."""
        return self._own.get(name, INITIAL if name == CLUSTER else {})

    def take(self, own: dict[str, dict[str, str]]) -> None:
        """Replace all changed settings, and call the followers if this node's settings are others now."""
        if own == self._own:
            return
        before, self._own = self.settings, own
        self.settings = with_overrides(self._static, self.own(CLUSTER), self.own(self._node))
        if self.settings != before:
            for receive in self._followers:
                receive(self.settings)

    def check(self, name: str, own: Mapping[str, str]) -> None:
        """Check all changed settings of a resource. Raises UnacceptableChange, or InvalidConfig if the controller is
        the one that rejects them.
        """
        _reject("Cannot update these configs dynamically", [each for each in own if _needs_restart(each)])
        _reject(
            "These security configs can be dynamically updated only per-listener using the listener prefix",
            [each for each in own if each in OF_LISTENERS],
        )
        for each, text in own.items():
            self._check_value(each, text)
        if name == CLUSTER:
            _reject(
                "Cannot update these configs at default cluster level, broker id must be specified",
                [each for each in own if _is_per_broker(each)],
            )
        self._check_threads(own)
        self._check_cleaner(own)
        self._check_replicas(name, own)
        if len(own) > MOST_NAMES:
            raise UnacceptableChange(f"{len(own)} settings of one resource, {MOST_NAMES} at most")

    def _check_value(self, name: str, text: str) -> None:
        row = row_of(name)
        try:
            if len(text) > MAX_VALUE_CHARACTERS:
                raise too_long()
            if row is not None:
                parse(row, text)
            if name in TABLE:
                TABLE[name].parse(text)
        except InvalidConfig as error:
            raise UnacceptableChange(str(error)) from None
        except Unacceptable as error:
            raise UnacceptableChange(f"{name} {error}") from None

    def _check_threads(self, own: Mapping[str, str]) -> None:
        """Apply DynamicThreadPool's rule: a change at most halves or doubles a number of threads."""
        for name in THREADS.keys() & own.keys():
            effective = {**self.own(CLUSTER), **self.own(self._node)}
            now, then = int(effective.get(name, THREADS[name])), int(own[name])
            why = None
            if then < now // 2:
                why = f"value should be at least half the current value {now}"
            elif then > now * 2:
                why = f"value should not be greater than double the current value {now}"
            if why is not None:
                failed = f"Dynamic thread count update validation failed for {name}={then}, {why}"
                # The text of a ConfigException that has another one as its value.
                raise UnacceptableChange(
                    f"Invalid value org.apache.kafka.common.config.ConfigException: {failed} "
                    "for configuration Invalid dynamic configuration"
                )

    def _check_cleaner(self, own: Mapping[str, str]) -> None:
        """Apply KafkaConfig's rule for the threads of the log cleaner."""
        if not own.keys().isdisjoint((CLEANER_THREADS, CLEANER_BUFFER)):
            then = {**self.own(CLUSTER), **self.own(self._node), **own}
            threads = int(then.get(CLEANER_THREADS, 1))
            buffer = int(then.get(CLEANER_BUFFER, self._static.log_cleaner_dedupe_buffer_size))
            if buffer // max(threads, 1) <= 1 << 20:
                raise UnacceptableChange(
                    f"requirement failed: {CLEANER_BUFFER} must be at least 1MB per cleaner thread."
                )

    def _check_replicas(self, name: str, own: Mapping[str, str]) -> None:
        """Apply the rules of eligible leader replicas (KIP-966, ConfigurationControlManager)."""
        if name == CLUSTER and MIN_ISR not in own:
            raise InvalidConfig("Cluster-level min.insync.replicas cannot be removed while ELR is enabled.")
        if name != CLUSTER and own.get(MIN_ISR) != self.own(name).get(MIN_ISR):
            raise InvalidConfig("Broker-level min.insync.replicas cannot be altered while ELR is enabled.")


def with_overrides(static: Settings, default: Mapping[str, str], broker: Mapping[str, str]) -> Settings:
    """Return the settings with these changes. Names that are no settings here have no effect. A value that is out of
    range here has none either: another version of this program may have accepted it.
    """
    values: dict[str, Any] = {}
    for name, text in {**default, **broker}.items():
        row = TABLE.get(name)
        try:
            if row is not None:
                values[row.attribute] = row.parse(text)
        except Unacceptable:
            log.warning("a changed setting of a broker is not valid here and has no effect", name=name, value=text)
    replaced = {attribute: getattr(static, attribute) for attribute in values}
    return dataclasses.replace(static, **values, overrides=Overrides(default, broker, replaced))


def row_of(name: str) -> TopicConfig | None:
    """Return type and range of a setting that can be changed, also with a listener's prefix; None if it has none."""
    return DYNAMIC.get(_without_listener(name))


def is_secret(name: str) -> bool:
    """Return whether a value is never shown: a password, or of a setting whose type is not known, as in Kafka."""
    row = row_of(name)
    return row.type is ConfigType.PASSWORD if row is not None else name not in TABLE


def _without_listener(name: str) -> str:
    """Return the name without `listener.name.LISTENER.`, and without the mechanism before sasl.jaas.config."""
    if not name.startswith("listener.name."):
        return name
    base = name.split(".", 3)[-1]
    return "sasl.jaas.config" if base.endswith(".sasl.jaas.config") else base


def _needs_restart(name: str) -> bool:
    return name in FIXED or name == "listeners" or (name in TABLE and name not in DYNAMIC)


def _is_per_broker(name: str) -> bool:
    base = _without_listener(name)
    return name in PER_BROKER or (base != name and base not in LISTENERS_OF_CLUSTER)


def _reject(why: str, names: list[str]) -> None:
    if names:
        raise UnacceptableChange(f"{why}: [{', '.join(sorted(names))}]")
