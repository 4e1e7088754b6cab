"""Puts the rules of table.py in front of the handlers. Without an authorizer nothing is put anywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from coordinatord.admission.rules import Client, Handler, Rule, TopicNames, host_of, text_of
from coordinatord.admission.table import TABLE
from coordinatord.cluster.peers import LISTENER
from coordinatord.net.received import Admitted
from coordinatord.net.request import RequestContext
from coordinatord.security.authorizer import Authorizer


def guarded(
    handlers: Mapping[int, Handler],
    authorizer: Authorizer,
    topics: TopicNames,
    *,
    creates_topics: bool,
    refresh: Callable[[], object] | None = None,
) -> dict[int, Handler]:
    """The handlers behind their rules. KeyError for an API without a rule. Other workers ask on behalf of clients whom
    they have checked. `creates_topics`: auto.create.topics.enable. `refresh`: called before each decision, where
    another worker changes ACLs.
    """

    def guard(rule: Rule, handler: Handler) -> Handler:
        def handle(context: RequestContext, request: Any) -> Any:
            connection = context.connection
            if connection.listener == LISTENER:
                return handler(context, request)
            if refresh is not None:
                refresh()
            if context.admitted is None:
                context.admitted = Admitted()
            principal, host = text_of(connection.principal), host_of(connection.client_host)
            return rule(Client(authorizer, topics, principal, host, creates_topics), context, request, handler)

        return handle

    return {api_key: guard(TABLE[api_key], handler) for api_key, handler in handlers.items()}
