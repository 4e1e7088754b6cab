"""Application of the rules of table.py before the handlers. Without an authorizer the handlers stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any, Final, NamedTuple

from coordinatord.base.bounds.mapping import BoundedMapping, size_of
from coordinatord.server.access.rules import Client, Handler, Rule, TopicNames, host_of
from coordinatord.server.access.table import TABLE
from coordinatord.transport.cluster.peers import LISTENER
from coordinatord.transport.net.connection import Connection
from coordinatord.transport.net.received import AuthorizationResult
from coordinatord.transport.net.request import RequestContext
from coordinatord.transport.security.authorizer import Authorizer

MAX_IDENTITY_BYTES: Final = 8 * 1024 * 1024
"""Largest size of all identities in bytes: some 15,000 with names of usual length. Clients choose their addresses."""


class Identity(NamedTuple):
    """The sender of a request, as ACLs name principals and addresses."""

    principal: str
    host: str


class Identities:
    """One object for each principal and address, which can be compared by `is`."""

    def __init__(self) -> None:
        self._known = BoundedMapping[Identity, Identity](MAX_IDENTITY_BYTES, lambda key, _: size_of(key))

    def of(self, connection: Connection) -> Identity:
        """Return the identity of a connection, and store it as the connection's `identity`."""
        made = Identity(str(connection.principal), host_of(connection.client_host))
        found = self._known.touch(made)
        if found is None:
            self._known.put(made, made)
        connection.identity = found or made
        return found or made


def guarded(
    handlers: Mapping[int, Handler],
    authorizer: Authorizer,
    topics: TopicNames,
    *,
    creates_topics: bool,
    refresh: Callable[[], object] | None = None,
    repeated: Container[int] = (),
) -> dict[int, Handler]:
    """Return the handlers behind their rules. Raises KeyError for an API without a rule.

    Requests from other workers pass without a check: those workers have checked their clients. `creates_topics` is
    auto.create.topics.enable. `refresh` is called before each decision if another worker changes ACLs. `repeated` are
    the APIs with shortcuts.
    """
    identities = Identities()

    def guard(rule: Rule, handler: Handler) -> Handler:
        def handle(context: RequestContext, request: Any) -> Any:
            connection = context.connection
            if connection.listener == LISTENER:
                return handler(context, request)
            if refresh is not None:
                refresh()
            if context.admitted is None:
                context.admitted = AuthorizationResult()
            who: Identity = connection.identity or identities.of(connection)
            return rule(Client(authorizer, topics, *who, creates_topics), context, request, handler)

        return handle

    return {
        api_key: guard(TABLE[api_key], _recording_reached(handler) if api_key in repeated else handler)
        for api_key, handler in handlers.items()
    }


def _recording_reached(handler: Handler) -> Handler:
    """Return a handler that records that it was reached, for the shortcut: a request that a rule rejects must not be
    learned.
    """

    def handle(context: RequestContext, request: Any) -> Any:
        answer = handler(context, request)
        if context.admitted is not None:
            context.admitted.is_whole = True
        return answer

    return handle
