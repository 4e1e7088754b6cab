"""Every message that protocol/ declares, found by looking, so that a new declaration is tested without being listed."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import kafka_wire.api
import kafka_wire.records
from kafka_wire.records.sticky import StickyUserData
from kafka_wire.schema import OPEN_END, Schema, schema_of


def all_messages() -> list[type[Any]]:
    """The top-level messages of kafka_wire.api and kafka_wire.records (those with versions of their own), by name."""
    found: dict[str, type[Any]] = {}
    for package in (kafka_wire.api, kafka_wire.records):
        for module_info in pkgutil.iter_modules(package.__path__):
            module = importlib.import_module(f"{package.__name__}.{module_info.name}")
            for value in vars(module).values():
                if is_message(value) and value.__module__ == module.__name__:
                    other = found.setdefault(value.__name__, value)
                    assert other is value, f"{value.__name__} is declared in {other.__module__} and {value.__module__}"
    return [found[name] for name in sorted(found)]


def kafkas() -> list[type[Any]]:
    """The messages that are among Kafka's message definitions. StickyUserData is declared in Java alone."""
    return [cls for cls in all_messages() if cls is not StickyUserData]


def is_message(value: object) -> bool:
    """Whether this is a declared class with its own versions: a struct within a message has an open range."""
    schema = getattr(value, "__schema__", None)
    return isinstance(value, type) and isinstance(schema, Schema) and schema.versions.last != OPEN_END


def every_version(classes: list[type[Any]] | None = None) -> list[tuple[type[Any], int]]:
    """Each (message, version) that is declared, of all messages or of these."""
    return [(cls, version) for cls in classes or all_messages() for version in schema_of(cls).versions]


def name_of(case: tuple[type[Any], int]) -> str:
    """A test id: JoinGroupRequest-v9."""
    return f"{case[0].__name__}-v{case[1]}"
