"""The settings of a server for tests: those with which tests wait for nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from coordinatord.base.config import Listener, Settings
from coordinatord.base.config.load import ConfigError, Entry, load
from coordinatord.testing.problems import KafkaError

HOST = "127.0.0.1"
OWN_LISTENER = "TESTS"

TEST_SETTINGS: Mapping[str, str] = {
    "connections.max.idle.ms": str(1 << 53),  # the clock may jump by days
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.heartbeat.interval.ms": "20",
    "group.consumer.min.heartbeat.interval.ms": "10",
    "group.consumer.min.session.timeout.ms": "100",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "10",
    "listeners": f"{HOST}:0",
    "log.flush": "never",
    "rebalance.ledger.topic.enable": "false",
    "shutdown.timeout.ms": "500",
}

IN_MEMORY: Mapping[str, str] = {
    "log.cleaner.enable": "false",  # a process of its own, which sees no disk in memory
    "log.dirs": "/coordinatord",
}


def settings_of(own: Mapping[str, object], *, in_memory: bool) -> Settings:
    """The settings of a server in a thread. Raises KafkaError with what is wrong with `own`."""
    entries = [Entry(name, value, "the defaults of tests") for name, value in TEST_SETTINGS.items()]
    if in_memory:
        entries += [Entry(name, value, "the disk in memory") for name, value in IN_MEMORY.items()]
    entries += [Entry(name, value, "settings=") for name, value in own.items()]
    try:
        loaded = load(flags=entries).settings
    except ConfigError as error:
        raise KafkaError(str(error)) from None
    # Nobody else gets at it: no rule has to be kept.
    return with_own_listener(dataclasses.replace(loaded, test_control_enable=True))


def with_own_listener(settings: Settings) -> Settings:
    """The settings, with a listener for the test's own requests if all others ask for TLS or passwords."""
    if "PLAINTEXT" in settings.protocols.values():
        return settings
    return dataclasses.replace(
        settings,
        listeners=(*settings.listeners, Listener(OWN_LISTENER, HOST, 0)),
        listener_security_protocol_map=(*settings.listener_security_protocol_map, (OWN_LISTENER, "PLAINTEXT")),
    )


def own_listener_of(settings: Settings) -> int:
    """Which of the listeners the test's own requests use: the first that is PLAINTEXT."""
    return list(settings.protocols.values()).index("PLAINTEXT")


def text_of(value: object) -> str:
    """A value of settings= as a flag has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
