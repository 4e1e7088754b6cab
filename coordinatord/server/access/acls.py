"""CreateAcls, DescribeAcls, DeleteAcls v1-v3: Kafka's AclApis and AclControlManager.

Without an authorizer the response is SECURITY_DISABLED. The worker that owns the metadata log changes ACLs; the others
forward requests to it, as Kafka's brokers do to their controller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from coordinatord.base.budget import SLICE_COSTLY_ITEMS
from coordinatord.broker.log.errors import LogFailed
from coordinatord.broker.metadata.forwarding import NOT_CONTROLLER, Forward
from coordinatord.broker.metadata.log import MetadataLog
from coordinatord.transport.net.cooperative_tasks import CooperativeTask, TaskSteps, any_of, let_go, made_of
from coordinatord.transport.net.request import RequestContext
from coordinatord.transport.security.authorizer import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Authorizer,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    record_of,
)
from coordinatord.transport.security.networks import network_of
from kafka_wire.api.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from kafka_wire.api.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from kafka_wire.api.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode

MAX_RECORDS = 10_000
"""Kafka's MAX_RECORDS_PER_USER_OP: more changes are rejected."""

MAX_TOLD = 100_000
"""Largest number of ACLs in one DeleteAcls response, counted once per matching filter: each takes some 60 bytes."""

ACL_APIS = (ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS)

NO_AUTHORIZER = "No Authorizer is configured."


class AclApis:
    """The handlers. `authorizer` is None if none is configured. `new_uuid` returns 16 random bytes. `forward` sends a
    request to the worker that owns the log, if that is another one.
    """

    def __init__(
        self,
        authorizer: Authorizer | None,
        metadata: MetadataLog,
        new_uuid: Callable[[], bytes],
        forward: Forward | None = None,
    ) -> None:
        self._authorizer = authorizer
        self._forward = forward
        self._metadata = metadata
        self._new_uuid = new_uuid

    def handlers(self) -> dict[int, Any]:
        """Return the handlers by API key."""
        return {ApiKey.DESCRIBE_ACLS: self.describe, ApiKey.CREATE_ACLS: self.create, ApiKey.DELETE_ACLS: self.delete}

    # DescribeAcls

    def describe(self, context: RequestContext, request: DescribeAclsRequest) -> Any:
        """Return one resource for each pattern, with its ACLs."""
        if self._authorizer is None:
            return DescribeAclsResponse(
                error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
            )
        wanted = AclFilter(
            request.resource_type_filter,
            request.resource_name_filter,
            request.pattern_type_filter,
            request.principal_filter,
            request.host_filter,
            request.operation,
            request.permission_type,
        )
        if _has_unknown(wanted):
            return _not_parsed(context)
        return CooperativeTask(_describing(self._authorizer, wanted))

    # CreateAcls

    def create(self, context: RequestContext, request: CreateAclsRequest) -> Any:
        """Create ACLs. Each has its own result; those that exist already are successes as well, without a record."""
        return CooperativeTask(self._creating(context, request), is_change=True)

    def _creating(self, context: RequestContext, request: CreateAclsRequest) -> TaskSteps:
        def all_refused(error: ErrorCode, message: str | None) -> TaskSteps:
            return CreateAclsResponse(
                results=(yield from made_of(request.creations, lambda _: AclCreationResult(error, message)))
            )

        if self._authorizer is None:
            return (yield from all_refused(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER))
        if (yield from any_of(request.creations, lambda creation: _has_unknown(_acl_of(creation)))):
            return _not_parsed(context)
        if (yield from any_of(request.creations, _is_for_filters)):
            return (yield from all_refused(ErrorCode.UNKNOWN_SERVER_ERROR, None))
        if self._forward is not None:
            unreachable = yield from all_refused(ErrorCode.NOT_CONTROLLER, NOT_CONTROLLER)
            return self._forward(context, request, unreachable)
        results: list[AclCreationResult] = []
        wanted: dict[Acl, None] = {}
        for number, creation in enumerate(request.creations):
            reason = _why_invalid(creation)
            results.append(AclCreationResult(ErrorCode.INVALID_REQUEST, reason) if reason else AclCreationResult())
            if reason is None:
                wanted[_acl_of(creation)] = None
            if number % SLICE_COSTLY_ITEMS == SLICE_COSTLY_ITEMS - 1:
                yield None
        new: list[Acl] = []
        for number, acl in enumerate(wanted):
            if acl not in self._authorizer:
                new.append(acl)
            if number % SLICE_COSTLY_ITEMS == SLICE_COSTLY_ITEMS - 1:
                yield None
        yield from let_go(wanted)
        if len(new) > MAX_RECORDS:
            yield from let_go(results, new)
            message = f"Cannot store more than {MAX_RECORDS} records in one request."
            return (yield from all_refused(ErrorCode.INVALID_REQUEST, message))
        epoch = 0
        response = CreateAclsResponse(results=results)

        def failed() -> CreateAclsResponse:
            return CreateAclsResponse(results=[AclCreationResult(ErrorCode.UNKNOWN_SERVER_ERROR) for _ in results])

        for start in range(0, len(new), SLICE_COSTLY_ITEMS):
            chunk = [acl for acl in new[start : start + SLICE_COSTLY_ITEMS] if acl not in self._authorizer]
            try:
                epoch = self._metadata.append(record_of(self._new_uuid(), acl) for acl in chunk)
            except LogFailed:
                return failed()
            yield None
        yield from let_go(request.creations, new)
        if not epoch:
            return response
        context.answer_at(epoch, response, failed)
        return None

    # DeleteAcls

    def delete(self, context: RequestContext, request: DeleteAclsRequest) -> Any:
        """Delete ACLs. An ACL that several filters match is in the result of each."""
        return CooperativeTask(self._deleting(context, request), is_change=True)

    def _deleting(self, context: RequestContext, request: DeleteAclsRequest) -> TaskSteps:
        def all_refused(error: ErrorCode, message: str) -> TaskSteps:
            return DeleteAclsResponse(
                filter_results=(yield from made_of(request.filters, lambda _: DeleteAclsFilterResult(error, message)))
            )

        if self._authorizer is None:
            return (yield from all_refused(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER))
        if (yield from any_of(request.filters, lambda asked: _has_unknown(_filter_of(asked)))):
            return _not_parsed(context)
        if self._forward is not None:
            unreachable = yield from all_refused(ErrorCode.NOT_CONTROLLER, NOT_CONTROLLER)
            return self._forward(context, request, unreachable)
        results = []
        gone: dict[bytes, None] = {}
        told = 0
        for asked in request.filters:
            wanted = _filter_of(asked)
            if _is_unknown(wanted):
                message = "Unknown patternFilter." if _is_unknown_pattern(wanted) else "Unknown entryFilter."
                results.append(DeleteAclsFilterResult(ErrorCode.INVALID_REQUEST, message))
                yield None
                continue
            found = {}
            for each in self._authorizer.matching(wanted):
                if each is None:
                    yield None
                else:
                    found[each[0]] = each[1]
            told += len(found)
            if len(gone) + len(found.keys() - gone.keys()) > MAX_RECORDS or told > MAX_TOLD:
                message = f"Cannot remove more than {MAX_RECORDS} acls in a single delete operation."
                results.append(DeleteAclsFilterResult(ErrorCode.UNKNOWN_SERVER_ERROR, message))
                yield None
                continue
            gone.update(dict.fromkeys(found))
            matching = [DeleteAclsMatchingAcl(0, None, *acl) for acl in found.values()]
            results.append(DeleteAclsFilterResult(0, None, matching))
            yield None
        epoch = 0
        response = DeleteAclsResponse(filter_results=results)

        def failed() -> DeleteAclsResponse:
            return DeleteAclsResponse(
                filter_results=[DeleteAclsFilterResult(ErrorCode.UNKNOWN_SERVER_ERROR) for _ in results]
            )

        acl_ids = list(gone)
        for start in range(0, len(acl_ids), SLICE_COSTLY_ITEMS):
            try:
                epoch = self._metadata.append(_removals(acl_ids[start : start + SLICE_COSTLY_ITEMS]))
            except LogFailed:
                return failed()
            yield None
        yield from let_go(request.filters)
        if not epoch:
            return response
        context.answer_at(epoch, response, failed)
        return None


def _describing(authorizer: Authorizer, wanted: AclFilter) -> TaskSteps:
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for found in authorizer.matching(wanted):
        if found is None:
            yield None
            continue
        acl = found[1]
        pattern = acl.resource_type, acl.name, acl.pattern_type
        if pattern not in resources:
            resources[pattern] = DescribeAclsResource(*pattern)
            if len(resources) % SLICE_COSTLY_ITEMS == 0:
                yield None
        resources[pattern].acls.append(AclDescription(acl.principal, acl.host, acl.operation, acl.permission))
    return DescribeAclsResponse(resources=list(resources.values()))


def _has_unknown(wanted: Acl | AclFilter) -> bool:
    """Return whether a code is 0. Kafka's request classes reject that, and the connection is closed."""
    return 0 in (wanted.resource_type, wanted.pattern_type, wanted.operation, wanted.permission)


def _not_parsed(context: RequestContext) -> None:
    context.drop()
    context.connection.refuse("refused", "an ACL or a filter has unknown elements", api=context.codec.name)


def _is_for_filters(creation: AclCreation) -> bool:
    """Return whether an ACL has ANY or MATCH: with it Kafka fails the whole request."""
    return (
        creation.resource_type == ResourceType.ANY
        or creation.resource_pattern_type in (PatternType.ANY, PatternType.MATCH)
        or creation.operation == Operation.ANY
        or creation.permission_type == Permission.ANY
    )


def _acl_of(creation: AclCreation) -> Acl:
    return Acl(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


def _removals(acl_ids: Sequence[bytes]) -> list[Any]:
    from kafka_wire.records.cluster_metadata import RemoveAccessControlEntryRecord

    return [RemoveAccessControlEntryRecord(acl_id) for acl_id in acl_ids]


def _why_invalid(acl: AclCreation) -> str | None:
    """Return the reason why this cannot be an ACL, in the words of AclApis and AclControlManager; None if it can."""
    if acl.resource_type == ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not acl.resource_name:
        return "Invalid empty resource name"
    if acl.resource_type not in tuple(ResourceType)[1:]:
        return f"Invalid resourceType {_name(ResourceType, acl.resource_type)}"
    if acl.resource_pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return f"Invalid patternType {_name(PatternType, acl.resource_pattern_type)}"
    if acl.operation not in tuple(Operation)[1:]:
        return f"Invalid operation {_name(Operation, acl.operation)}"
    if acl.permission_type not in (Permission.ALLOW, Permission.DENY):
        return f"Invalid permissionType {_name(Permission, acl.permission_type)}"
    if ":" not in acl.principal:
        return (
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the principal type "
            "from the principal name)"
        )
    return _why_no_host(acl.host)


def _why_no_host(host: str) -> str | None:
    if not host:
        return "Host pattern cannot be null or empty"
    if "/" in host:
        try:
            network_of(host)
        except ValueError as error:
            return f"Invalid CIDR notation '{host}': {error}"
    return None


def _name(enum: Any, code: int) -> str:
    return str(enum(code).name) if code in tuple(enum) else "UNKNOWN"


def _filter_of(asked: DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        asked.resource_type_filter,
        asked.resource_name_filter,
        asked.pattern_type_filter,
        asked.principal_filter,
        asked.host_filter,
        asked.operation,
        asked.permission_type,
    )


def _is_unknown_pattern(wanted: AclFilter) -> bool:
    return wanted.resource_type not in tuple(ResourceType) or wanted.pattern_type not in tuple(PatternType)


def _is_unknown(wanted: AclFilter) -> bool:
    return (
        _is_unknown_pattern(wanted)
        or wanted.operation not in tuple(Operation)
        or wanted.permission not in tuple(Permission)
    )
