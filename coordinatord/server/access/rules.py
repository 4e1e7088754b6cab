"""The kinds of rules in table.py.

A rule decides with which request an API's handler is called, or which response replaces the call. `needs` is about a
whole request: without the permission all of it is rejected. `parts` is about each part of a request, such as its
topics: the handler gets the parts that the client may use, and the rule adds the others to the response, with an error.
`amended` is about a response: the rule removes everything that the client may not describe.

A rule changes a response when the response is encoded (`Admitted.amend`): the handler may respond later, from the log
or a timer, and does not depend on permissions.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Any, Final, Protocol

from coordinatord.base.budget import SLICE_COSTLY_ITEMS, SLICE_ITEMS
from coordinatord.transport.net.cooperative_tasks import CooperativeTask, TaskSteps, run_through
from coordinatord.transport.net.request import RequestContext
from coordinatord.transport.security.authorizer import CLUSTER_NAME, Authorizer, Operation, ResourceType
from kafka_wire.errors import ErrorCode
from kafka_wire.registry import error_response

Handler = Callable[[RequestContext, Any], Any]

ERRORS: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""The error for a client without permission, by type of the resource."""


class TopicNames(Protocol):
    """The topics, as far as rules use them."""

    def topic_name(self, topic_id: bytes) -> str | None: ...
    def topic_id(self, name: str) -> bytes | None: ...


class Client:
    """The sender of a request, with the authorizer that decides about it."""

    __slots__ = ("authorizer", "creates_topics", "host", "principal", "topics")

    def __init__(
        self, authorizer: Authorizer, topics: TopicNames, principal: str, host: str, creates_topics: bool
    ) -> None:
        """`creates_topics` is true if topics are created when a client names them."""
        self.creates_topics = creates_topics
        self.authorizer = authorizer
        self.topics = topics
        self.principal = principal
        self.host = host

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Return whether the client may apply the operation to the resource."""
        return self.authorizer.allows(self.principal, self.host, operation, resource_type, name)

    def may_cluster(self, operation: Operation) -> bool:
        """Return whether the client may apply the operation to the cluster."""
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def may_topic(self, operation: Operation, name: str | None, topic_id: bytes) -> bool:
        """Return whether the client may apply the operation to a topic, by name or, without one, by id. True for an
        unknown id: the handler responds with its error.
        """
        if not name:
            name = self.topics.topic_name(topic_id)
        return name is None or self.may(operation, ResourceType.TOPIC, name)

    def may_describe(self, name: str) -> bool:
        """Return whether the client may describe a topic."""
        return self.may(Operation.DESCRIBE, ResourceType.TOPIC, name)

    def operations(self, resource_type: ResourceType, name: str) -> int:
        """Return the `authorized_operations` of a resource."""
        return self.authorizer.operations(self.principal, self.host, resource_type, name)


def host_of(client_host: str) -> str:
    """Return an address as ACLs name it: Java's getHostAddress, which writes all groups of an IPv6 address."""
    host = client_host.removeprefix("/")
    if ":" not in host:
        return host
    address, percent, zone = host.partition("%")
    groups = IPv6Address(address).exploded.split(":")
    return ":".join(f"{int(group, 16):x}" for group in groups) + percent + zone


class Rule(Protocol):
    """A function that calls the handler with the permitted request, or returns a response itself. As from a handler,
    None means that the response follows later or never.
    """

    def __call__(self, client: Client, context: RequestContext, request: Any, handler: Handler) -> Any: ...


NameOf = Callable[[Any], str]


def cluster(_request: Any) -> str:
    """Return the name of the resource of type CLUSTER."""
    return CLUSTER_NAME


def needs(operation: Operation, resource_type: ResourceType, name_of: NameOf = cluster) -> Rule:
    """Return a rule by which the whole request needs this permission. `name_of(request)` is the name of the
    resource.
    """

    def rule(client: Client, context: RequestContext, request: Any, handler: Handler) -> Any:
        if client.may(operation, resource_type, name_of(request)):
            return handler(context, request)
        return error_response(request, context.api_version, ERRORS[resource_type])

    return rule


def all_of(*rules: Rule) -> Rule:
    """Return a rule that applies each rule in turn: the next one gets the request that the one before has left."""

    def rule(client: Client, context: RequestContext, request: Any, handler: Handler) -> Any:
        for each in reversed(rules):
            handler = _then(each, client, handler)
        return handler(context, request)

    return rule


def _then(rule: Rule, client: Client, handler: Handler) -> Handler:
    return lambda context, request: rule(client, context, request, handler)


May = Callable[[Client, Any], ErrorCode | None]
"""(client, part of a request) -> the error, None if the client may use the part."""


def in_slices(steps: TaskSteps, count: int) -> Any:
    """Return the result of the steps of a rule; a task that makes it if the request has more than SLICE_ITEMS parts."""
    return run_through(steps) if count <= SLICE_ITEMS else CooperativeTask(_whole(steps), is_change=True)


def _whole(steps: TaskSteps) -> TaskSteps:
    response = yield from steps
    return (yield from response.steps) if type(response) is CooperativeTask else response


@dataclass(frozen=True, slots=True)
class Parts:
    """The rule that `parts` returns. The attributes are names of attributes of the request and the response."""

    may: May
    asked: str
    answered: str
    by: tuple[str, ...] = ("name",)

    def __call__(self, client: Client, context: RequestContext, request: Any, handler: Handler) -> Any:
        count = len(getattr(request, self.asked) or ())
        return in_slices(self.steps(client, context, request, handler), count)

    def steps(self, client: Client, context: RequestContext, request: Any, handler: Handler) -> TaskSteps:
        """Call the handler with the parts that the client may use. Pauses."""
        allowed: list[Any] = []
        denied: dict[ErrorCode, list[Any]] = {}
        for number, part in enumerate(getattr(request, self.asked) or ()):
            error = self.may(client, part)
            if error is None:
                allowed.append(part)
            else:
                denied.setdefault(error, []).append(part)
            if number % SLICE_COSTLY_ITEMS == SLICE_COSTLY_ITEMS - 1:
                yield None
        if not denied:
            return handler(context, request)
        added: list[Any] = []
        for error, some in denied.items():
            for first in range(0, len(some), SLICE_ITEMS):
                refused = self._only(request, some[first : first + SLICE_ITEMS], context.api_version, error)
                added += getattr(refused, self.answered)
                yield None
        if not allowed:
            setattr(refused, self.answered, added)
            return refused
        setattr(request, self.asked, allowed)
        amend(context, lambda response: self._add(response, added))
        answer = handler(context, request)
        assert context.admitted is not None, "the guard has made it"
        context.admitted.is_whole = False
        return answer

    def _only(self, request: Any, some: Sequence[Any], version: int, error: ErrorCode) -> Any:
        """Return the error response to a request for these parts alone."""
        alone = copy.copy(request)
        setattr(alone, self.asked, some)
        return error_response(alone, version, error)

    def _add(self, response: Any, added: Iterable[Any]) -> Any:
        # An error response to the whole request, such as after a failure of the log, already has all parts.
        answers = getattr(response, self.answered)
        there = {self._key(each) for each in answers}
        response = copy.copy(response)
        setattr(response, self.answered, [*answers, *(each for each in added if self._key(each) not in there)])
        return response

    def _key(self, answer: Any) -> tuple[Any, ...]:
        return tuple(getattr(answer, attribute) for attribute in self.by)


def parts(
    operation: Operation,
    resource_type: ResourceType,
    asked: str,
    answered: str,
    *,
    name: str | None = "name",
    by: tuple[str, ...] | None = None,
) -> Rule:
    """Return a rule by which each part of the request's list `asked` needs this permission for the resource in its
    attribute `name` (None: the part itself is the name); topics may be named by id. `answered` is the response's list,
    whose elements are distinguished by their attributes `by`.
    """
    error = ERRORS[resource_type]

    def may(client: Client, part: Any) -> ErrorCode | None:
        named = part if name is None else getattr(part, name)
        if resource_type is ResourceType.TOPIC:
            is_allowed = client.may_topic(operation, named, getattr(part, "topic_id", b""))
        else:
            is_allowed = client.may(operation, resource_type, named)
        return None if is_allowed else error

    return Parts(may, asked, answered, by or (name or "name",))


def parts_by(may: May, asked: str, answered: str, *, by: tuple[str, ...]) -> Rule:
    """Return a rule like that of `parts`, but `may` decides about each part."""
    return Parts(may, asked, answered, by)


def amend(context: RequestContext, change: Callable[[Any], Any]) -> None:
    """Change the response before it is encoded; of several changes, the last one added is applied first."""
    admitted = context.admitted
    assert admitted is not None, "the guard has made it"
    before = admitted.amend

    def amended(response: Any) -> Any:
        response = change(response)
        return response if before is None else before(response)

    admitted.amend = amended


def amended(change: Callable[[Client, Any, Any], None]) -> Rule:
    """Return a rule that applies `change(client, request, response)` to the response."""

    def rule(client: Client, context: RequestContext, request: Any, handler: Handler) -> Any:
        def changed(response: Any) -> Any:
            change(client, request, response)
            return response

        amend(context, changed)
        return handler(context, request)

    return rule


def either(first: tuple[Operation, ...], otherwise: Rule) -> Rule:
    """Return a rule that applies `otherwise` only to a client that has none of these permissions for the cluster."""

    def rule(client: Client, context: RequestContext, request: Any, handler: Handler) -> Any:
        if any(client.may_cluster(operation) for operation in first):
            return handler(context, request)
        return otherwise(client, context, request, handler)

    return rule


def free(client: Client, context: RequestContext, request: Any, handler: Handler) -> Any:
    """Call the handler: every client may send the request."""
    return handler(context, request)
