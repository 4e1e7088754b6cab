"""The largest requests of an API, made from its declaration.

For each array of a request there is one request with as many of its elements as fit into so many bytes, and one of
everything else. For each string there is one request in which it is that long. Names and ids are those of `KNOWN`,
repeated, or others that nobody has: handlers do different work for them. So there is no list of handlers that somebody
has to keep complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kafka_wire import registry
from kafka_wire.api_key import ApiKey
from kafka_wire.codecs import encoder
from kafka_wire.records.consumer import ConsumerProtocolSubscription
from kafka_wire.schema import ZERO_UUID, Type, schema_of
from tests.clients.raw_member import versioned

Path = tuple[str, ...]


@dataclass(frozen=True)
class Known:
    """What exists on the server: the values that requests name."""

    topics: list[str]
    topic_ids: list[bytes]
    groups: list[str]


NUMBERS: dict[str, int] = {
    # What sane requests say where a number selects what is done.
    "resource_type": 2, "key_type": 0, "generation_id": -1, "generation_id_or_member_epoch": -1, "member_epoch": -1,
    "num_partitions": 1, "replication_factor": 1, "count": 3, "timeout_ms": 1000, "max_bytes": 1 << 20,
    "partition_max_bytes": 1 << 20, "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "timestamp": -1,
    "acks": 1, "replica_id": -1, "session_epoch": -1, "current_leader_epoch": -1, "leader_epoch": 0,
    "transaction_timeout_ms": 10_000, "producer_id": -1, "producer_epoch": -1, "max_wait_ms": 0,
    "response_partition_limit": 2000, "config_operation": 0, "coordinator_epoch": 0,
}  # fmt: skip


class _Maker:
    def __init__(
        self, version: int, known: Known, many: Path, count: int, *, strange: bool, long: tuple[Path, str] = ((), "")
    ) -> None:
        """`many`: the array that has `count` elements. `long`: the string that is this one."""
        self.long, self.text = long
        self.version = version
        self.known = known
        self.many = many
        self.count = count
        self.strange = strange

    def message(self, cls: type[Any], path: Path, number: int) -> Any:
        made = cls.__new__(cls)
        version = self.version
        for each in schema_of(cls).fields:
            if version in each.versions or version in each.tagged:
                setattr(made, each.name, self.value(each.name, each.type, (*path, each.name), number))
            else:
                setattr(made, each.name, each.fresh_default())
        return made

    def value(self, name: str, kind: Type, path: Path, number: int) -> Any:
        if kind.element is not None:
            count = self.count if path == self.many else 1
            return [self.value(name, kind.element, path, n if count > 1 else number) for n in range(count)]
        if kind.struct is not None:
            return self.message(kind.struct, path, number)
        return self.scalar(name, kind.kind, path, number)

    def scalar(self, name: str, kind: str, path: Path, number: int) -> Any:
        known = self.known
        if path == self.long:
            return self.text
        if kind == "string":
            if self.strange:
                return f"x{number:x}"
            if "group" in name and "instance" not in name:
                return known.groups[number % len(known.groups)]
            if "protocol_type" in name:
                return "consumer"
            if "config" in path[-2] if len(path) > 1 else False:
                return ("cleanup.policy" if self.long else "retention.ms") if name == "name" else "1000"
            return known.topics[number % len(known.topics)]
        if kind == "uuid":
            return number.to_bytes(16, "big") if self.strange else known.topic_ids[number % len(known.topic_ids)]
        if kind in ("bytes", "records"):
            return versioned(ConsumerProtocolSubscription([known.topics[0]]), 1) if kind == "bytes" else b""
        if kind == "bool":
            return True
        if kind == "float64":
            return 0.0
        if name == "config_operation" and self.long:
            return 2  # to append
        if name in NUMBERS:
            return NUMBERS[name]
        return number % (1 << 7) if kind == "int8" else number % (1 << 15) if self.strange else 0


def arrays_of(cls: type[Any], version: int, path: Path = ()) -> Iterator[Path]:
    """The paths of all arrays in a message."""
    for each in schema_of(cls).fields:
        if version not in each.versions and version not in each.tagged:
            continue
        here = (*path, each.name)
        inner = each.type
        if inner.element is not None:
            yield here
            inner = inner.element
        if inner.struct is not None:
            yield from arrays_of(inner.struct, version, here)


def strings_of(cls: type[Any], version: int, path: Path = ()) -> Iterator[Path]:
    """The paths of all strings in a message."""
    for each in schema_of(cls).fields:
        if version not in each.versions and version not in each.tagged:
            continue
        inner = each.type if each.type.element is None else each.type.element
        if inner.struct is not None:
            yield from strings_of(inner.struct, version, (*path, each.name))
        elif inner.kind == "string":
            yield (*path, each.name)


def longest(api_key: int, version: int, known: Known, max_bytes: int) -> Iterator[tuple[str, Any]]:
    """(which, request): each has one long string. It has as many items as it can, in case that somebody splits it."""
    cls, _ = registry.messages(api_key)
    size = max_bytes - 3_000 if version in schema_of(cls).flexible else (1 << 15) - 1
    text = ",".join(f"{number:x}" for number in range(size // 6))[:size]
    for path in strings_of(cls, version):
        maker = _Maker(version, known, (), 1, strange=False, long=(path, text))
        yield f"{ApiKey(api_key).title} v{version} a long {'.'.join(path)}", maker.message(cls, (), 0)


def largest(api_key: int, version: int, known: Known, max_bytes: int) -> Iterator[tuple[str, Any]]:
    """(which, request): each has at most `max_bytes` bytes."""
    cls, _ = registry.messages(api_key)
    encode = encoder(cls, version)

    def size(many: Path, count: int, strange: bool) -> int:
        out = bytearray()
        encode(_Maker(version, known, many, count, strange=strange).message(cls, (), 0), out)
        return len(out)

    for many in list(arrays_of(cls, version)) or [()]:
        for strange in (False, True):
            maker = _Maker(version, known, many, 1, strange=strange)
            if many:
                few, more = size(many, 1000, strange), size(many, 2000, strange)
                maker.count = max(1, int((max_bytes - 1000) / max((more - few) / 1000, 1)))
            which = f"{ApiKey(api_key).title} v{version} {'.'.join(many) or '-'} {'unknown' if strange else 'known'}"
            yield which, maker.message(cls, (), 0)


__all__ = ["ZERO_UUID", "Known", "largest"]
