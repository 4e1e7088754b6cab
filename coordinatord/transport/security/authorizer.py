"""Authorization: the decisions of Kafka's StandardAuthorizer (KIP-801), pure.

An ACL matches an action if its resource matches (equal names, a prefix of the name, or the literal name `*`), its
principal (an equal one, or `User:*`, which matches principals of every type), its host (an equal address, `*`, or a
network that contains the address) and its operation (an equal one, or ALL). Allowed READ, WRITE, DELETE and ALTER imply
DESCRIBE, and allowed ALTER_CONFIGS implies DESCRIBE_CONFIGS; denied operations imply nothing. One ACL that denies
decides, however many allow. If no ACL matches the resource at all, `allow.everyone.if.no.acl.found` decides. Super
users may do everything.

Decisions are cached until an ACL changes: a client asks for the same few things again and again. Clients choose the
names, so the cache is bounded in bytes, and decisions about names that no topic can have are not cached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Any, Final, NamedTuple

from coordinatord.base.bounds.mapping import BoundedMapping, size_of
from coordinatord.base.budget import SLICE_ITEMS
from coordinatord.base.topic_names import is_topic_name
from coordinatord.transport.security.networks import is_within
from kafka_wire.schema import schema_of


class ResourceType(IntEnum):
    """Kafka's ResourceType."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """Kafka's PatternType. ANY and MATCH are for filters only."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """Kafka's AclOperation."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """Kafka's AclPermissionType."""

    ANY = 1
    DENY = 2
    ALLOW = 3


WILDCARD: Final = "*"
ANYBODY: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The only resource of type CLUSTER."""

_IMPLIED_BY: Final = {
    Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
_NOTHING: Final[frozenset[Operation]] = frozenset()

_O = Operation
SUPPORTED: Final = {
    ResourceType.TOPIC: (
        _O.READ, _O.WRITE, _O.CREATE, _O.DESCRIBE, _O.DELETE, _O.ALTER, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (_O.READ, _O.DESCRIBE, _O.DELETE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
    ResourceType.CLUSTER: (
        _O.CREATE, _O.CLUSTER_ACTION, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS, _O.IDEMPOTENT_WRITE, _O.ALTER,
        _O.DESCRIBE,
    ),
}  # fmt: skip
"""The operations that `authorized_operations` reports (Kafka's AclEntry.supportedOperations)."""

REMOVE_ACL_RECORD: Final = 19

MAX_DECIDED_BYTES: Final = 16 * 1024 * 1024
"""Limit of the cached decisions: some 25,000 about names of usual length."""

Decision = tuple[str, str, int, int, str | None]


class Acl(NamedTuple):
    """Kafka's StandardAcl. `principal` is "TYPE:NAME"."""

    resource_type: int
    name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int


class AclFilter(NamedTuple):
    """Kafka's AclBindingFilter: None and ANY match everything."""

    resource_type: int = ResourceType.ANY
    name: str | None = None
    pattern_type: int = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = Operation.ANY
    permission: int = Permission.ANY

    def matches(self, acl: Acl) -> bool:
        """Return whether the filter matches (ResourcePatternFilter.matches and AccessControlEntryFilter.matches)."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._matches_pattern(acl)
            and (self.principal is None or self.principal == acl.principal)
            and (self.host is None or self.host == acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _matches_pattern(self, acl: Acl) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if self.name is None or self.name == acl.name:
            return True
        if self.pattern_type != PatternType.MATCH:
            return False
        if acl.pattern_type == PatternType.PREFIXED:
            return self.name.startswith(acl.name)
        return acl.name == WILDCARD


class _OfType:
    """The ACLs of one resource type: by literal name, and by prefix."""

    __slots__ = ("_counts", "lengths", "literal", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, list[Acl]] = {}
        self.prefixed: dict[str, list[Acl]] = {}
        #: lengths of the prefixes, and the number of prefixes of each length
        self.lengths: list[int] = []
        self._counts: dict[int, int] = {}

    def change(self, acl: Acl, *, remove: bool) -> None:
        is_prefix = acl.pattern_type == PatternType.PREFIXED
        by_name = self.prefixed if is_prefix else self.literal
        is_new = acl.name not in by_name
        found = by_name.setdefault(acl.name, [])
        if remove:
            found.remove(acl)
        else:
            found.append(acl)
        if not found:
            del by_name[acl.name]
        if is_prefix and is_new != (acl.name not in by_name):
            self._count(len(acl.name), 1 if is_new else -1)

    def _count(self, length: int, more: int) -> None:
        count = self._counts.get(length, 0) + more
        if count:
            self._counts[length] = count
        else:
            del self._counts[length]
        if count == 0 or count == more:
            self.lengths = sorted(self._counts)

    def named(self, name: str) -> list[Acl]:
        """Return the ACLs whose pattern has this name."""
        return [*self.literal.get(name, ()), *self.prefixed.get(name, ())]

    def about(self, name: str) -> Iterator[Acl]:
        """Return the ACLs whose resource matches `name`."""
        yield from self.literal.get(name, ())
        if name != WILDCARD:
            yield from self.literal.get(WILDCARD, ())
        for length in self.lengths:
            if length > len(name):
                break
            yield from self.prefixed.get(name[:length], ())


class Authorizer:
    """The authorizer, which is also the image of the log's ACL records. `super_users`: principals as text."""

    def __init__(self, super_users: Iterable[str] = (), *, allow_if_no_acl: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._allow_if_no_acl = allow_if_no_acl
        self._by_id: dict[bytes, Acl] = {}
        self._ids: dict[Acl, bytes] = {}
        self._by_type: dict[int, _OfType] = {}
        #: by (principal, host, operation, resource type, name); of `allows_some` the name is None
        self._decided = BoundedMapping[Decision, bool](MAX_DECIDED_BYTES, lambda key, _: size_of(key))
        #: number of changes of the ACLs
        self.changes = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, acl: Acl) -> bool:
        return acl in self._ids

    @property
    def remembered_bytes(self) -> int:
        """The size of the cached decisions."""
        return self._decided.bytes

    # Decisions

    def allows(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool:
        """Return whether `principal`, connected from the address `host`, may do this."""
        key = principal, host, operation, resource_type, name
        decided = self._decided.get(key)
        if decided is None:
            decided = principal in self._super_users or self._decide(*key)
            if resource_type != ResourceType.TOPIC or is_topic_name(name):
                self._decided.put(key, decided)
        return decided

    def allows_some(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Return whether there may be a resource of this type for which `allows` returns True
        (authorizeByResourceType).
        """
        key = principal, host, operation, resource_type, None
        decided = self._decided.get(key)
        if decided is None:
            decided = self._decide_some(principal, host, operation, resource_type)
            self._decided.put(key, decided)
        return decided

    def _decide_some(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Decide by checking all ACLs: 10 ms for 50,000."""
        if self.allows(principal, host, operation, resource_type, "hardcode"):  # Kafka's name for any resource
            return True
        allowed: list[Acl] = []
        denied: set[tuple[int, str]] = set()
        for acl in self._by_id.values():
            if (
                acl.resource_type != resource_type
                or not _is_host_of(acl, host)
                or acl.principal not in (ANYBODY, principal)
                or acl.operation not in (operation, Operation.ALL)
            ):
                continue
            if acl.permission == Permission.ALLOW:
                allowed.append(acl)
            elif acl.pattern_type == PatternType.LITERAL and acl.name == WILDCARD:
                return False
            else:
                denied.add((acl.pattern_type, acl.name))
        return any(not _is_dominated(acl, denied) for acl in allowed)

    def operations(self, principal: str, host: str, resource_type: ResourceType, name: str) -> int:
        """Return `authorized_operations`: a bit for each operation that is allowed."""
        return sum(
            1 << operation
            for operation in SUPPORTED[resource_type]
            if self.allows(principal, host, operation, resource_type, name)
        )

    def _decide(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool:
        of_type = self._by_type.get(resource_type)
        implied_by = _IMPLIED_BY.get(Operation(operation), _NOTHING)
        is_allowed = is_about = False
        for acl in () if of_type is None else of_type.about(name):
            is_about = True
            if acl.principal not in (principal, ANYBODY) or not _is_host_of(acl, host):
                continue
            if acl.permission == Permission.ALLOW:
                if acl.operation in (operation, Operation.ALL) or acl.operation in implied_by:
                    is_allowed = True
            elif acl.operation in (operation, Operation.ALL):
                return False
        return is_allowed if is_about else self._allow_if_no_acl

    # The ACLs

    def matching(self, wanted: AclFilter) -> Iterator[tuple[bytes, Acl] | None]:
        """Return (id, ACL) of the ACLs that match a filter, and None at points where a search of all ACLs may be
        interrupted. Changes during the search may be missing, and removed ACLs may be returned.
        """
        for number, acl in enumerate(self._candidates(wanted)):
            if wanted.matches(acl) and acl in self._ids:
                yield self._ids[acl], acl
            elif number % SLICE_ITEMS == SLICE_ITEMS - 1:
                yield None

    def _candidates(self, wanted: AclFilter) -> list[Acl]:
        """Return the ACLs that a filter may match: the ACLs with its name, or all."""
        if wanted.name is None:
            return list(self._ids)
        types: Iterable[_OfType] = self._by_type.values()
        if wanted.resource_type != ResourceType.ANY:
            types = [found] if (found := self._by_type.get(wanted.resource_type)) else []
        if wanted.pattern_type == PatternType.MATCH:
            return [acl for of_type in types for acl in of_type.about(wanted.name)]
        return [acl for of_type in types for acl in of_type.named(wanted.name)]

    def replay(self, record: Any) -> None:
        """Apply an AccessControlEntryRecord or a RemoveAccessControlEntryRecord."""
        if schema_of(type(record)).api_key == REMOVE_ACL_RECORD:
            self._remove(record.id)
            return
        self._remove(record.id)
        acl = Acl(
            record.resource_type, record.resource_name, record.pattern_type, record.principal, record.host,
            record.operation, record.permission_type,
        )  # fmt: skip
        self._by_id[record.id] = acl
        self._ids[acl] = record.id
        self._by_type.setdefault(acl.resource_type, _OfType()).change(acl, remove=False)
        self._changed()

    def _remove(self, acl_id: bytes) -> None:
        acl = self._by_id.pop(acl_id, None)
        if acl is not None:
            self._ids.pop(acl, None)
            self._by_type[acl.resource_type].change(acl, remove=True)
            self._changed()

    def records(self) -> Iterator[Any]:
        """See `metadata.log.Image`."""
        for acl_id in list(self._by_id):
            if acl_id in self._by_id:
                yield record_of(acl_id, self._by_id[acl_id])

    def clear(self) -> None:
        """Remove all ACLs."""
        self._by_id.clear()
        self._ids.clear()
        self._by_type.clear()
        self._changed()

    def _changed(self) -> None:
        self.changes += 1
        self._decided.clear()


def record_of(acl_id: bytes, acl: Acl) -> Any:
    """Return the record that adds an ACL."""
    from kafka_wire.records.cluster_metadata import AccessControlEntryRecord

    return AccessControlEntryRecord(acl_id, *acl)


def _is_host_of(acl: Acl, host: str) -> bool:
    return acl.host in (WILDCARD, host) or ("/" in acl.host and is_within(host, acl.host))


def _is_dominated(allowed: Acl, denied: set[tuple[int, str]]) -> bool:
    """Return whether the denied actions cover everything that this ACL allows."""
    if allowed.pattern_type == PatternType.LITERAL:
        if allowed.name == WILDCARD:
            return False
        if (PatternType.LITERAL, allowed.name) in denied:
            return True
    return any((PatternType.PREFIXED, allowed.name[:end]) in denied for end in range(1, len(allowed.name) + 1))
