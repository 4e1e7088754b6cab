"""The error response of each API for a whole request: for errors that tests inject
(`fail`), and for a node that leads no partition.

The group and transaction families have their own table (error_response_table.py). This module has the other APIs that
clients call often. Equivalent to `getErrorResponse` of Kafka's request classes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coordinatord.coordination.runtime.error_responses import refuse
from coordinatord.coordination.runtime.versions import for_version
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode
from kafka_wire.registry import Codec

NO_NODE = -1


def _produce(request: Any, version: int, error: ErrorCode) -> Any:
    from kafka_wire.api.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse

    return ProduceResponse(
        [
            TopicProduceResponse(
                topic.name,
                topic.topic_id,
                [PartitionProduceResponse(each.index, error, -1) for each in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )


def _fetch(request: Any, version: int, error: ErrorCode) -> Any:
    from kafka_wire.api.fetch import FetchableTopicResponse, FetchResponse, PartitionData

    topics = [
        FetchableTopicResponse(
            topic.topic,
            topic.topic_id,
            [PartitionData(each.partition, error, -1, records=b"") for each in topic.partitions],
        )
        for topic in request.topics
    ]
    # A request of a fetch session without changes contains no partition: then the error is that of the whole response.
    return FetchResponse(error_code=ErrorCode.NONE if topics else error, responses=topics)


def _list_offsets(request: Any, version: int, error: ErrorCode) -> Any:
    from kafka_wire.api.list_offsets import ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse

    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                topic.name, [ListOffsetsPartitionResponse(each.partition_index, error) for each in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _metadata(request: Any, version: int, error: ErrorCode) -> Any:
    from kafka_wire.api.metadata import MetadataResponse, MetadataResponseTopic

    named = [MetadataResponseTopic(error, each.name or "", each.topic_id) for each in request.topics or ()]
    return MetadataResponse(topics=named, error_code=error if version >= 13 else ErrorCode.NONE)


def _find_coordinator(request: Any, version: int, error: ErrorCode) -> Any:
    from kafka_wire.api.find_coordinator import Coordinator, FindCoordinatorResponse

    if version < 4:
        return FindCoordinatorResponse(error_code=error, error_message=error.name, node_id=NO_NODE, port=NO_NODE)
    return FindCoordinatorResponse(
        coordinators=[Coordinator(key, NO_NODE, "", NO_NODE, error, error.name) for key in request.coordinator_keys]
    )


def _create_topics(request: Any, version: int, error: ErrorCode) -> Any:
    from kafka_wire.api.create_topics import CreatableTopicResult, CreateTopicsResponse

    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(topic.name, bytes(16), error, error.name, configs=None) for topic in request.topics
        ]
    )


def _delete_topics(request: Any, version: int, error: ErrorCode) -> Any:
    from kafka_wire.api.delete_topics import DeletableTopicResult, DeleteTopicsResponse

    asked = [(each.name, each.topic_id) for each in request.topics]
    if version < 6:
        asked = [(name, bytes(16)) for name in request.topic_names]
    return DeleteTopicsResponse(responses=[DeletableTopicResult(name, id_, error) for name, id_ in asked])


def _api_versions(request: Any, version: int, error: ErrorCode) -> Any:
    from kafka_wire.api.api_versions import ApiVersionsResponse

    return ApiVersionsResponse(error_code=error)


ANSWERS: dict[ApiKey, Callable[[Any, int, ErrorCode], Any]] = {
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.METADATA: _metadata,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.API_VERSIONS: _api_versions,
}
"""Functions (request, version, error) -> response, by API key."""


def answer(codec: Codec, request: Any, error: ErrorCode) -> Any:
    """Return the response to `request` that carries `error`; None if the request gets no response."""
    version = codec.api_version
    if codec.api_key == ApiKey.PRODUCE and request.acks == 0:
        return None
    made = ANSWERS.get(ApiKey(codec.api_key))
    if made is not None:
        return made(request, version, error)
    return for_version(refuse(request, version, error), version)
