"""DescribeClientQuotas and AlterClientQuotas v0-v1: Kafka's ClientQuotasImage and ClientQuotaControlManager.

As with ACLs, the worker that owns the metadata log changes quotas, and the others forward requests to it.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, Final

from coordinatord.base.budget import SLICE_COSTLY_ITEMS
from coordinatord.broker.log.errors import LogFailed
from coordinatord.broker.metadata.forwarding import NOT_CONTROLLER, Forward
from coordinatord.broker.metadata.log import MetadataLog
from coordinatord.server.access.quotas import (
    CLIENT_ID,
    CONNECTIONS,
    FETCHED,
    IP,
    MUTATIONS,
    PRODUCED,
    REQUESTS,
    USER,
    ClientQuotas,
    Entity,
    entity_of,
    record_of,
)
from coordinatord.transport.net.cooperative_tasks import CooperativeTask, TaskSteps, let_go
from coordinatord.transport.net.request import RequestContext
from kafka_wire.api import alter_client_quotas as alter_api
from kafka_wire.api import describe_client_quotas as describe_api
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode

EXACT, DEFAULT, SPECIFIED = 0, 1, 2
"""`match_type`: the given name; the default; any name or the default."""

_LONG_MAX: Final = float(2**63 - 1)
_INT_MAX: Final = float(2**31 - 1)
CLIENT_KEYS: Final[dict[str, tuple[str, float] | None]] = {
    PRODUCED: ("LONG", _LONG_MAX),
    FETCHED: ("LONG", _LONG_MAX),
    REQUESTS: None,
    MUTATIONS: None,
}
ADDRESS_KEYS: Final[dict[str, tuple[str, float] | None]] = {CONNECTIONS: ("INT", _INT_MAX)}
"""The integral type of each key and its largest value; None for a fraction (Kafka's QuotaConfig)."""


MAX_ENTITIES = 10_000
MOST_CHARACTERS = 1_024
"""Largest number of entities with quotas, and of characters of their names. All of them are in memory. Kafka has no
limits.
"""

MOST_PARTS = 100
"""Largest number of parts of an entity that are read: a valid one has at most two."""
TOO_MANY_PARTS = "Invalid quota entity combination"


class _Invalid(Exception):
    """The reason why a request is rejected."""

    def __init__(self, message: str, error: ErrorCode = ErrorCode.INVALID_REQUEST) -> None:
        super().__init__(message)
        self.error = error


class QuotaApis:
    """The handlers. `forward` sends a request to the worker that owns the log, if that is another one."""

    def __init__(self, quotas: ClientQuotas, metadata: MetadataLog, forward: Forward | None = None) -> None:
        self._forward = forward
        self._quotas = quotas
        self._metadata = metadata

    def handlers(self) -> dict[int, Any]:
        """Return the handlers by API key."""
        return {ApiKey.DESCRIBE_CLIENT_QUOTAS: self.describe, ApiKey.ALTER_CLIENT_QUOTAS: self.alter}

    def describe(self, _context: RequestContext, request: describe_api.DescribeClientQuotasRequest) -> Any:
        """Return the entities that match all components and, with `strict`, have no other part."""
        try:
            exact, typed = _components(request)
        except _Invalid as invalid:
            return describe_api.DescribeClientQuotasResponse(
                error_code=invalid.error, error_message=str(invalid), entries=None
            )
        return CooperativeTask(self._describing(exact, typed, is_strict=request.strict))

    def _describing(self, exact: dict[str, str | None], typed: set[str], *, is_strict: bool) -> TaskSteps:
        entries = []
        for number, (who, values) in enumerate(list(self._quotas.by_entity.items())):
            if number % SLICE_COSTLY_ITEMS == SLICE_COSTLY_ITEMS - 1:
                yield None
            names = dict(who)
            if is_strict and len(names) != len(exact) + len(typed):
                continue
            if typed <= names.keys() and all(kind in names and names[kind] == name for kind, name in exact.items()):
                entries.append(
                    describe_api.EntryData(
                        [describe_api.EntityData(kind, name) for kind, name in sorted(names.items())],
                        [describe_api.ValueData(key, value) for key, value in values.items()],
                    )
                )
        return describe_api.DescribeClientQuotasResponse(entries=entries)

    def alter(self, context: RequestContext, request: alter_api.AlterClientQuotasRequest) -> Any:
        """Change quotas. Each entity has its own result."""

        def refused(error: ErrorCode, message: str | None) -> Any:
            results = [alter_api.EntryResult(error, message, each.entity) for each in request.entries]
            return alter_api.AlterClientQuotasResponse(entries=results)

        if self._forward is not None:
            return self._forward(context, request, refused(ErrorCode.NOT_CONTROLLER, NOT_CONTROLLER))
        return CooperativeTask(self._altering(context, request, refused), is_change=True)

    def _altering(
        self,
        context: RequestContext,
        request: alter_api.AlterClientQuotasRequest,
        refused: Callable[[ErrorCode, str | None], Any],
    ) -> TaskSteps:
        results: dict[Entity | int, alter_api.EntryResult] = {}
        records: list[Any] = []
        fresh = 0
        for number, entry in enumerate(request.entries):
            if len(entry.entity) > MOST_PARTS:
                results[number] = alter_api.EntryResult(ErrorCode.INVALID_REQUEST, TOO_MANY_PARTS, entry.entity)
                continue
            who = entity_of(entry.entity)
            named = [alter_api.EntityData(kind, name) for kind, name in sorted(who)]
            try:
                if who in results:
                    raise _duplicate(who)
                made = self._changes(who, entry, fresh)
                records += made
                fresh += bool(made) and who not in self._quotas.by_entity
                results[who] = alter_api.EntryResult(0, None, named)
            except _Invalid as invalid:
                results[who] = alter_api.EntryResult(invalid.error, str(invalid), named)
            if number % SLICE_COSTLY_ITEMS == SLICE_COSTLY_ITEMS - 1:
                yield None
        response = alter_api.AlterClientQuotasResponse(entries=list(results.values()))
        if request.validate_only or not records:
            yield from let_go(results, request.entries, records)
            return response
        epoch = 0
        failure: Callable[[], Any] = lambda: refused(ErrorCode.UNKNOWN_SERVER_ERROR, None)  # noqa: E731
        for start in range(0, len(records), SLICE_COSTLY_ITEMS):
            try:
                epoch = self._metadata.append(records[start : start + SLICE_COSTLY_ITEMS])
            except LogFailed:
                return failure()
            yield None
        context.answer_at(epoch, response, failure)
        return None

    def _changes(self, who: Entity, entry: alter_api.EntryData, more: int) -> list[Any]:
        """Return the records of an entity's changes. `more` is the number of entities to which earlier entries of the
        request have given quotas. Raises _Invalid.
        """
        changes: dict[str, float | None] = {}
        for operation in entry.ops:
            if operation.key in changes:
                # ClientQuotaControlManager finds its own error for the key, and takes it for that of an earlier entry.
                raise _duplicate(who)
            changes[operation.key] = None if operation.remove else operation.value
        keys = _keys_of(who)
        current = self._quotas.by_entity.get(who, {})
        for key, value in changes.items():
            if value is not None:
                _check(keys, key, value)
        if not current and any(value is not None for value in changes.values()):
            if any(len(name or "") > MOST_CHARACTERS for _, name in who):
                raise _Invalid(f"The names of a client quota entity may have {MOST_CHARACTERS} characters.")
            if len(self._quotas.by_entity) + more >= MAX_ENTITIES:
                raise _Invalid(f"{MAX_ENTITIES} entities have quotas already.", ErrorCode.POLICY_VIOLATION)
        return [record_of(who, key, value) for key, value in changes.items() if not _same(current.get(key), value)]


def _components(request: describe_api.DescribeClientQuotasRequest) -> tuple[dict[str, str | None], set[str]]:
    """Return the names that must be equal, by type, and the types that must be present. Raises _Invalid."""
    exact: dict[str, str | None] = {}
    typed: set[str] = set()
    for each in request.components:
        kind, match = each.entity_type, each.match
        if not kind:
            raise _Invalid("Invalid empty entity type.")
        if kind in exact or kind in typed:
            raise _Invalid(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in (USER, CLIENT_ID, IP):
            raise _Invalid(f"Unsupported entity type {kind}", ErrorCode.UNSUPPORTED_VERSION)
        if each.match_type == EXACT:
            if match is None:
                raise _Invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
            exact[kind] = match
        elif each.match_type in (DEFAULT, SPECIFIED):
            name = "MATCH_TYPE_DEFAULT" if each.match_type == DEFAULT else "MATCH_TYPE_SPECIFIED"
            if match is not None:
                raise _Invalid(f"Request specified {name}, but also specified a match string.")
            if each.match_type == DEFAULT:
                exact[kind] = None
            else:
                typed.add(kind)
        else:
            raise _Invalid(f"Unknown match type {each.match_type}")
    kinds = exact.keys() | typed
    if IP in kinds and kinds & {USER, CLIENT_ID}:
        raise _Invalid(
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId "
            "filter component."
        )
    return exact, typed


def _keys_of(who: Entity) -> dict[str, tuple[str, float] | None]:
    """Return the keys that quotas of this entity may have. Raises _Invalid."""
    if not who:
        raise _Invalid("Invalid empty client quota entity")
    names = dict(sorted(who))
    for kind, name in names.items():
        if kind not in (USER, CLIENT_ID, IP):
            raise _Invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _Invalid(f"Empty {kind} not supported")
    if IP not in names:
        return CLIENT_KEYS
    if len(names) > 1:
        raise _Invalid("Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
    address = names[IP]
    if address is not None and not _is_host(address):
        raise _Invalid(f"{address} is not a valid IP or resolvable host.")
    return ADDRESS_KEYS


def _is_host(address: str) -> bool:
    """Return whether this is an address. Kafka would resolve names, which takes as long as the name service takes."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, address)
        except (OSError, ValueError):
            continue
        return True
    return address == "localhost"


def _check(keys: dict[str, tuple[str, float] | None], key: str, value: float) -> None:
    if key not in keys:
        raise _Invalid(f"Invalid configuration key {key}")
    if value <= 0.0:  # ClientQuotaControlManager.validateQuotaKeyValue accepts NaN
        raise _Invalid(f"Quota {key} must be greater than 0")
    integral = keys[key]
    if integral is not None:
        name, largest = integral
        if value > largest:
            raise _Invalid(f"Proposed value for {key} is too large for {'an' if name == 'INT' else 'a'} {name}.")
        if abs(value % 1.0) > 1e-6:
            raise _Invalid(f"{key} cannot be a fractional value.")


def _same(value: float | None, other: float | None) -> bool:
    """Return Java's Double.equals, by which NaN equals NaN."""
    return value == other or (value != value and other != other)


def _duplicate(who: Entity) -> _Invalid:
    """Return the error for an entity that is named again, which contains Kafka's ClientQuotaEntity.toString."""
    parts = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in sorted(who))
    return _Invalid(f"Ignoring duplicate entity ClientQuotaEntity(entries={{{parts}}})")
