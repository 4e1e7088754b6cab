"""FindCoordinator: the node that serves a group, or a transactional id.

A group's partition of `__consumer_offsets` is `abs(hash) % offsets.topic.num.partitions`, with Java's hash of the group
id. The leader of that partition coordinates the group. The same holds for transactional ids and `__transaction_state`.
Both topics are created by the first request for a coordinator, and then it is answered. Kafka responds with
COORDINATOR_NOT_AVAILABLE to that request, and creates the topic meanwhile.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

from coordinatord.broker.topics.names import OFFSETS_TOPIC, SHARE_TOPIC, TRANSACTION_TOPIC
from coordinatord.coordination.runtime.partitions import Partitions
from coordinatord.transport.cluster.nodes import Nodes
from coordinatord.transport.net.request import RequestContext
from kafka_wire.api.find_coordinator import Coordinator as Found
from kafka_wire.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_wire.api_key import ApiKey
from kafka_wire.codecs import constructor
from kafka_wire.errors import ErrorCode, message_of

_found = constructor(Found)

GROUP = 0
TRANSACTION = 1
SHARE = 2

SHARE_VERSION = 6
"""The first version with keys of share groups."""

NO_NODE = (-1, "", -1)

INVALID_REQUEST_TEXT = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)
"""Kafka's message for an unknown key type; clients show it."""


class ShareKeys(Protocol):
    """The share coordinator, as the handler uses it."""

    def ensure_topic(self) -> ErrorCode: ...

    def partition_for(self, key: str) -> int | None:
        """Return the partition of a key `group:topicId:partition`; None if it is not valid. The topic must exist."""


class CoordinatorSearch(ABC):
    """The handler, for any source of coordinators."""

    def handlers(self) -> dict[int, Any]:
        """Return the handler by API key."""
        return {ApiKey.FIND_COORDINATOR: self.find}

    @abstractmethod
    def coordinator(self, key: str, key_type: int, context: RequestContext) -> tuple[ErrorCode, tuple[int, str, int]]:
        """Return the (node id, host, port) of the coordinator of a key, or an error and NO_NODE."""

    def find(self, context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        """Return the coordinators. A request of v4+ has several keys (KIP-699), each with its own error."""
        if context.api_version >= 4:
            found = []
            for key in request.coordinator_keys:
                error, (node_id, host, port) = self.coordinator(key, request.key_type, context)
                # Kafka sends no message for keys of share groups if it does not serve them.
                known = request.key_type in (GROUP, TRANSACTION, SHARE)
                found.append(_found(key, node_id, host, port, error, "" if known else INVALID_REQUEST_TEXT))
            return FindCoordinatorResponse(coordinators=found)
        error, (node_id, host, port) = self.coordinator(request.key, request.key_type, context)
        text = INVALID_REQUEST_TEXT if error is ErrorCode.INVALID_REQUEST else message_of(error)
        return FindCoordinatorResponse(error_code=error, error_message=text, node_id=node_id, host=host, port=port)


class FindCoordinator(CoordinatorSearch):
    """The handler of a node that serves groups."""

    def __init__(
        self,
        nodes: Nodes,
        groups: Partitions,
        transactions: Partitions,
        share: Callable[[], ShareKeys] | None = None,
    ) -> None:
        """`groups`, `transactions`: the partitions of these coordinators. `share` returns the share coordinator; None
        on a node without share groups.
        """
        self.nodes = nodes
        self.share = share
        self.partitions = {GROUP: (OFFSETS_TOPIC, groups), TRANSACTION: (TRANSACTION_TOPIC, transactions)}

    def coordinator(self, key: str, key_type: int, context: RequestContext) -> tuple[ErrorCode, tuple[int, str, int]]:
        if key_type in self.partitions:
            topic, partitions = self.partitions[key_type]
            error = partitions.ensure()
            if error is not ErrorCode.NONE:
                return error, NO_NODE
            return _with_error(self.nodes.coordinator(topic, partitions.of(key), context.listener))
        if key_type == SHARE and self.share is not None and context.api_version >= SHARE_VERSION:
            share = self.share()
            error = share.ensure_topic()
            if error is not ErrorCode.NONE:
                return error, NO_NODE
            found = share.partition_for(key)
            if found is None:
                return ErrorCode.INVALID_REQUEST, NO_NODE
            return _with_error(self.nodes.coordinator(SHARE_TOPIC, found, context.listener))
        # Without share groups, Kafka, too, responds to share keys with INVALID_REQUEST; with a retriable error the
        # client would retry for ever.
        return ErrorCode.INVALID_REQUEST, NO_NODE


def _with_error(found: tuple[int, str, int]) -> tuple[ErrorCode, tuple[int, str, int]]:
    """Return the node with NONE, or COORDINATOR_NOT_AVAILABLE if the partition has no leader now."""
    return (ErrorCode.NONE if found[0] >= 0 else ErrorCode.COORDINATOR_NOT_AVAILABLE), found
