"""What a node that waits answers: who leads, and to all else that another node does that. It forwards nothing.

What clients ask all nodes for, and put together, gets an empty answer, as from a Kafka broker that leads no partition.
Requests that carry no error for "another node" close the connection: clients then look for another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from coordinatord.net.request import RequestContext
from coordinatord.runtime.refusals import refuse
from coordinatord.runtime.versions import for_version
from kafka_wire.api.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from kafka_wire.api.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from kafka_wire.api.describe_log_dirs import DescribeLogDirsResponse
from kafka_wire.api.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kafka_wire.api.find_coordinator import Coordinator as Found
from kafka_wire.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_wire.api.list_groups import ListGroupsResponse
from kafka_wire.api.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kafka_wire.api.list_transactions import ListTransactionsResponse
from kafka_wire.api.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode

NO_NODE = (-1, "", -1)
GROUP_AND_TRANSACTION = (0, 1)

WRONG = ErrorCode.NOT_LEADER_OR_FOLLOWER

Handler = Callable[[RequestContext, Any], Any]


class Leading(Protocol):
    """Who coordinates a group or transactional id, as clients of a listener are told: (node id, host, port); None while
    nobody does.
    """

    def coordinator(self, key: str, key_type: int, listener: str) -> tuple[int, str, int] | None: ...


class WrongNode:
    """The handlers of all APIs but those that tell of the cluster."""

    def __init__(self, leading: Leading, refusable: frozenset[ApiKey]) -> None:
        """`refusable`: the APIs of groups and transactions."""
        self._leading = leading
        self._refusable = refusable

    def handlers(self) -> dict[int, Handler]:
        """By API key."""
        return {
            **dict.fromkeys(ApiKey, _close),
            **dict.fromkeys(self._refusable, _not_coordinator),
            ApiKey.FIND_COORDINATOR: self.find,
            ApiKey.PRODUCE: _produce,
            ApiKey.FETCH: _fetch,
            ApiKey.LIST_OFFSETS: _list_offsets,
            ApiKey.CREATE_TOPICS: _create_topics,
            ApiKey.DELETE_TOPICS: _delete_topics,
            **{key: _empty(make) for key, make in EMPTY.items()},
        }

    def find(self, context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        """The leader of the id's partition coordinates it."""
        if context.api_version >= 4:
            found = [
                Found(key, *where, error, "")
                for key in request.coordinator_keys
                for error, where in (self._coordinator(key, request.key_type, context),)
            ]
            return FindCoordinatorResponse(coordinators=found)
        error, (node_id, host, port) = self._coordinator(request.key, request.key_type, context)
        return FindCoordinatorResponse(
            error_code=error, error_message=error.name, node_id=node_id, host=host, port=port
        )

    def _coordinator(self, key: str, key_type: int, context: RequestContext) -> tuple[ErrorCode, tuple[int, str, int]]:
        if key_type not in GROUP_AND_TRANSACTION:
            return ErrorCode.INVALID_REQUEST, NO_NODE
        leader = self._leading.coordinator(key, key_type, context.connection.listener)
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


def _not_coordinator(context: RequestContext, request: Any) -> Any:
    version = context.api_version
    return for_version(refuse(request, version, ErrorCode.NOT_COORDINATOR), version)


def _produce(context: RequestContext, request: ProduceRequest) -> ProduceResponse | None:
    if not request.acks:  # nobody waits for an answer that could say so
        context.connection.close()
        return None
    return ProduceResponse(
        [
            TopicProduceResponse(
                topic.name,
                topic.topic_id,
                [PartitionProduceResponse(each.index, WRONG, -1) for each in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )


def _fetch(context: RequestContext, request: FetchRequest) -> FetchResponse:
    """Without a session: the first fetch at any node has all of its partitions."""
    if request.session_id:
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic.topic,
                topic.topic_id,
                [PartitionData(each.partition, WRONG, -1, records=b"") for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _list_offsets(context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                topic.name, [ListOffsetsPartitionResponse(each.partition_index, WRONG) for each in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _create_topics(context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[CreatableTopicResult(each.name, error_code=ErrorCode.NOT_CONTROLLER) for each in request.topics]
    )


def _delete_topics(context: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    asked = [(each.name, each.topic_id) for each in request.topics] or [
        (name, bytes(16)) for name in request.topic_names
    ]
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(name, topic_id, error_code=ErrorCode.NOT_CONTROLLER) for name, topic_id in asked
        ]
    )
