"""Settings of a server for tests, without delays."""

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
    "group.share.assignment.interval.ms": "0",
    "group.share.heartbeat.interval.ms": "20",
    "group.share.min.heartbeat.interval.ms": "10",
    "group.share.min.session.timeout.ms": "100",
    "listeners": f"{HOST}:0",
    "log.flush": "never",
    "rebalance.ledger.topic.enable": "false",
    "shutdown.timeout.ms": "500",
}

IN_MEMORY: Mapping[str, str] = {
    "log.cleaner.enable": "false",  # the cleaner's process cannot access a disk in memory
    "log.dirs": "/coordinatord",
}


def settings_of(own: Mapping[str, object], *, in_memory: bool) -> Settings:
    """Return the settings of a server for tests. Raises KafkaError with the reason if `own` is not valid."""
    entries = [Entry(name, value, "the defaults of tests") for name, value in TEST_SETTINGS.items()]
    if in_memory:
        entries += [Entry(name, value, "the disk in memory") for name, value in IN_MEMORY.items()]
    entries += [Entry(name, value, "settings=") for name, value in own.items()]
    try:
        loaded = load(flags=entries).settings
    except ConfigError as error:
        raise KafkaError(str(error)) from None
    # Only the test has access to the server: the checks of test.control.enable need not apply.
    return with_own_listener(dataclasses.replace(loaded, test_control_enable=True))


def with_own_listener(settings: Settings) -> Settings:
    """Return the settings, with a listener for the test's own requests if all others require TLS or passwords."""
    if "PLAINTEXT" in settings.protocols.values():
        return settings
    return dataclasses.replace(
        settings,
        listeners=(*settings.listeners, Listener(OWN_LISTENER, HOST, 0)),
        listener_security_protocol_map=(*settings.listener_security_protocol_map, (OWN_LISTENER, "PLAINTEXT")),
    )


def own_listener_of(settings: Settings) -> int:
    """Return the index of the listener for the test's own requests: the first that is PLAINTEXT."""
    return list(settings.protocols.values()).index("PLAINTEXT")


def text_of(value: object) -> str:
    """Return a value of settings= in the notation of a command line flag."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
