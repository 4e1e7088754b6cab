"""Responses of a standby node: the address of the leader, and to all other requests an error that names another node as
responsible. A standby node forwards nothing.

A request that clients send to all nodes, to merge the responses, gets an empty response, as from a Kafka broker that
leads no partition. For requests without an error code for "another node", the connection is closed: clients then look
for another node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from coordinatord.coordination.service.apis.find_coordinator import (
    GROUP,
    NO_NODE,
    SHARE,
    SHARE_VERSION,
    TRANSACTION,
    CoordinatorSearch,
)
from coordinatord.transport.net.request import RequestContext
from kafka_wire.api.describe_log_dirs import DescribeLogDirsResponse
from kafka_wire.api.fetch import FetchRequest, FetchResponse
from kafka_wire.api.list_groups import ListGroupsResponse
from kafka_wire.api.list_transactions import ListTransactionsResponse
from kafka_wire.api.produce import ProduceRequest
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode
from kafka_wire.registry import error_response

Handler = Callable[[RequestContext, Any], Any]


class Leading(Protocol):
    """The lookup of a coordinator, in the address that clients of a listener receive."""

    def coordinator(self, key: str, key_type: int, listener: str) -> tuple[int, str, int] | None:
        """Return (node id, host, port) of the coordinator of a group, transactional id or share partition; None while
        there is none. Raises ValueError if the key of a share partition is invalid.
        """


class WrongNode(CoordinatorSearch):
    """The handlers of all APIs except those that describe the cluster."""

    def __init__(self, leading: Leading, refusable: frozenset[ApiKey], *, serves_share: bool = False) -> None:
        """`refusable` are the APIs of groups, transactions and share coordinators. `serves_share`: the leading nodes
        serve share groups.
        """
        self._leading = leading
        self._refusable = refusable
        self._serves_share = serves_share

    def handlers(self) -> dict[int, Handler]:
        """Return the handlers by API key."""
        return {
            **dict.fromkeys(ApiKey, _close),
            **dict.fromkeys(self._refusable, _error(ErrorCode.NOT_COORDINATOR)),
            ApiKey.FIND_COORDINATOR: self.find,
            ApiKey.PRODUCE: _produce,
            ApiKey.FETCH: _fetch,
            ApiKey.LIST_OFFSETS: _not_leader,
            **dict.fromkeys((ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS), _error(ErrorCode.NOT_CONTROLLER)),
            **{key: _empty(make) for key, make in EMPTY.items()},
        }

    def coordinator(self, key: str, key_type: int, context: RequestContext) -> tuple[ErrorCode, tuple[int, str, int]]:
        """Return the leader of the id's partition, which is its coordinator."""
        is_share = key_type == SHARE and self._serves_share and context.api_version >= SHARE_VERSION
        if key_type not in (GROUP, TRANSACTION) and not is_share:
            return ErrorCode.INVALID_REQUEST, NO_NODE
        try:
            leader = self._leading.coordinator(key, key_type, context.connection.listener)
        except ValueError:
            return ErrorCode.INVALID_REQUEST, NO_NODE
        return (ErrorCode.COORDINATOR_NOT_AVAILABLE, NO_NODE) if leader is None else (ErrorCode.NONE, leader)


EMPTY: Mapping[ApiKey, Callable[[], Any]] = {
    ApiKey.LIST_GROUPS: ListGroupsResponse,
    ApiKey.LIST_TRANSACTIONS: ListTransactionsResponse,
    ApiKey.DESCRIBE_LOG_DIRS: DescribeLogDirsResponse,
}


def _empty(make: Callable[[], Any]) -> Handler:
    return lambda context, request: make()


def _close(context: RequestContext, request: Any) -> None:
    context.connection.close()


def _error(error: ErrorCode) -> Handler:
    """Return a handler that responds with this error for everything that the request names."""
    return lambda context, request: error_response(request, context.api_version, error)


_not_leader = _error(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def _produce(context: RequestContext, request: ProduceRequest) -> Any:
    if request.acks:
        return _not_leader(context, request)
    context.connection.close()  # with acks=0 there is no response that could carry the error
    return None


def _fetch(context: RequestContext, request: FetchRequest) -> Any:
    """Fetch without a session: the first fetch at any node names all of its partitions."""
    if request.session_id:
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    return FetchResponse() if not request.topics else _not_leader(context, request)
