"""Puts the rules of table.py in front of the handlers. Without an authorizer nothing is put anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coordinatord.admission.rules import Client, Handler, Rule, TopicNames, host_of, text_of
from coordinatord.admission.table import TABLE
from coordinatord.cluster.peers import LISTENER
from coordinatord.net.received import Admitted
from coordinatord.net.request import RequestContext
from coordinatord.security.authorizer import Authorizer


def guarded(
    handlers: Mapping[int, Handler], authorizer: Authorizer, topics: TopicNames, *, creates_topics: bool
) -> dict[int, Handler]:
    """The handlers behind their rules. KeyError for an API without a rule. Other workers ask on behalf of clients whom
    they have checked. `creates_topics`: auto.create.topics.enable.
    """
    return {
        api_key: _guarded(TABLE[api_key], handler, authorizer, topics, creates_topics)
        for api_key, handler in handlers.items()
    }


def _guarded(rule: Rule, handler: Handler, authorizer: Authorizer, topics: TopicNames, creates_topics: bool) -> Handler:
    def handle(context: RequestContext, request: Any) -> Any:
        connection = context.connection
        if connection.listener == LISTENER:
            return handler(context, request)
        if context.admitted is None:
            context.admitted = Admitted()
        client = Client(
            authorizer, topics, text_of(connection.principal), host_of(connection.client_host), creates_topics
        )
        return rule(client, context, request, handler)

    return handle
