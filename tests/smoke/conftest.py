"""The fixtures of tests/clients, for the smoke tests."""

from tests.clients.conftest import admin, bootstrap, broker, make_topic, name, produce, producer
from tests.clients.families.conftest import commands, join, start

__all__ = ["admin", "bootstrap", "broker", "commands", "join", "make_topic", "name", "produce", "producer", "start"]
