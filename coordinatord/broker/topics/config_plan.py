"""Planned changes of one AlterConfigs or IncrementalAlterConfigs request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from coordinatord.broker.topics.catalogue import Topic
from coordinatord.broker.topics.config_table import ConfigType, InvalidConfig, TopicConfig
from coordinatord.broker.topics.configs import Configs
from coordinatord.transport.net.cooperative_tasks import TaskSteps, let_go
from kafka_wire.errors import ErrorCode

MOST_CHANGES = 1_000
"""Largest number of changes of one resource: a topic has some thirty settings."""

Failure = tuple[ErrorCode, str | None]
"""(error, message) of a rejected resource."""

Changes = list[tuple[str, int, str | None]]
"""(name, operation, value)"""

Asked = tuple[int, str, Changes]
"""(resource type, name, changes) of one resource of a request."""

SET, DELETE, APPEND, SUBTRACT = range(4)
"""Values of `config_operation`."""

OPERATIONS = {APPEND: "APPEND", SUBTRACT: "SUBTRACT"}

DONE: Failure = (ErrorCode.NONE, None)

Key = TypeVar("Key")
Value = TypeVar("Value")


class Planned(Generic[Key, Value]):
    """Valid changes of a request that are made in one write. `more` is the number of resources that get their first own
    settings, minus those that lose their last. `before` has the settings from which each change was computed.
    """

    def __init__(self) -> None:
        self.changes: dict[Key, Value] = {}
        self.before: dict[Key, Mapping[str, str]] = {}
        self.indexes: dict[Key, int] = {}
        self.more = 0

    @property
    def parts(self) -> list[dict[Any, Any]]:
        """All collections that grow with the request."""
        return [self.changes, self.before, self.indexes]

    def add(self, index: int, key: Key, value: Value, before: Mapping[str, str], more: int = 0) -> None:
        """Plan a change for resource number `index` of the request."""
        self.changes[key] = value
        self.before[key] = before
        self.indexes[key] = index
        self.more += more

    def outdated(self, now: Callable[[Key], Mapping[str, str]]) -> list[int]:
        """Remove the changes of resources that other requests have changed in the meantime. Return the numbers of these
        resources.
        """
        changed = [key for key, before in self.before.items() if now(key) != before]
        for key in changed:
            del self.changes[key], self.before[key]
        return [self.indexes.pop(key) for key in changed]

    def make(self, configure: Callable[[Mapping[Key, Value]], TaskSteps], outcomes: list[Failure]) -> TaskSteps:
        """Make the changes. If the write fails, none is made, and the failure is the outcome of each."""
        if self.changes:
            try:
                yield from configure(self.changes)
            except OSError as error:
                for index in self.indexes.values():
                    outcomes[index] = ErrorCode.KAFKA_STORAGE_ERROR, str(error)


class Plan:
    """All planned changes of one request, and the outcomes of its resources."""

    def __init__(self, *, replace: bool) -> None:
        self.asked: list[Asked] = []
        self.replace = replace
        self.counts = Counter[tuple[int, str]]()
        self.topics = Planned[Topic, Configs]()
        self.groups = Planned[str, dict[str, str]]()
        self.brokers = Planned[str, dict[str, str]]()
        self.client_metrics = Planned[str, dict[str, str]]()
        self.outcomes: list[Failure] = []

    def let_go(self, resources: list[Any]) -> TaskSteps:
        """Free, in slices, everything that has grown with the request, and the request's own lists."""
        for each in resources if len(resources) < MOST_CHANGES else ():  # either many resources or many changes
            yield from let_go(each.configs)
        for _, _, changes in self.asked if len(self.asked) < MOST_CHANGES else ():
            yield from let_go(changes)
        planned = (self.topics, self.groups, self.brokers, self.client_metrics)
        parts = [part for each in planned for part in each.parts]
        yield from let_go(resources, self.asked, self.counts, self.outcomes, *parts)

    def ask(self, kind: int, name: str, changes: Changes) -> None:
        """Add the changes that the request has for a resource."""
        self.asked.append((kind, name, changes))
        self.counts[kind, name] += 1
        self.outcomes.append(DONE)


def malformed(changes: Changes) -> Failure | None:
    if len(changes) > MOST_CHANGES:
        return ErrorCode.INVALID_REQUEST, f"{len(changes)} changes of one resource, which has fewer settings."
    if len({name for name, _, _ in changes}) < len(changes):
        return ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys"
    nulls = [name for name, operation, value in changes if value is None and operation != DELETE]
    if nulls:
        return ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}"
    unknown = [operation for _, operation, _ in changes if not SET <= operation <= SUBTRACT]
    if unknown:
        return ErrorCode.INVALID_REQUEST, f"Unknown operations type {unknown[0]}"
    return None


def changed_settings(
    own: Mapping[str, str], changes: Changes, items_of: Callable[[str, int], Iterable[str]]
) -> dict[str, str]:
    """Return own settings after the changes. `items_of` gets the name of a setting and the operation, APPEND or
    SUBTRACT. It returns the items before the changes, and raises InvalidConfig if the setting is not a list.
    """
    changed = dict(own)
    for name, operation, value in changes:
        if operation == DELETE:
            changed.pop(name, None)
        elif operation == SET:
            changed[name] = value or ""
        else:
            items = dict.fromkeys(items_of(name, operation))
            for item in (value or "").split(","):
                if operation == APPEND:
                    items[item] = None
                else:
                    items.pop(item, None)
            changed[name] = ",".join(items)
    return changed


def items_of_list(row: TopicConfig, operation: int, text: str) -> list[str]:
    """Return the items of a list setting with this text. Raises InvalidConfig if the setting is not a list."""
    if row.type is not ConfigType.LIST:
        raise not_a_list(operation, row.name)
    return [item for item in text.split(",") if item]


def not_a_list(operation: int, name: str) -> InvalidConfig:
    return InvalidConfig(f"Can't {OPERATIONS[operation]} to key {name} because its type is not LIST.")
