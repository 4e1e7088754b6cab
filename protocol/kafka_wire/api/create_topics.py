"""CreateTopics: create topics.

v4 defaults for partitions and replication · v5 flexible, configs in the response · v7 topic ids
"""

from __future__ import annotations

from kafka_wire.errors import ErrorCode, message_of
from kafka_wire.schema import array, boolean, int8, int16, int32, message, string, uuid


@message()
class CreatableReplicaAssignment:
    partition_index: int = int32("0+")
    broker_ids: list[int] = array(int32, "0+")


@message()
class CreatableTopicConfig:
    name: str = string("0+")
    value: str | None = string("0+", nullable="0+")


@message()
class CreatableTopic:
    name: str = string("0+")
    num_partitions: int = int32("0+")
    replication_factor: int = int16("0+")
    assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment, "0+")
    configs: list[CreatableTopicConfig] = array(CreatableTopicConfig, "0+")


@message(versions="2-7", flexible="5+", api_key=19)
class CreateTopicsRequest:
    topics: list[CreatableTopic] = array(CreatableTopic, "0+")
    timeout_ms: int = int32("0+", default=60000)
    validate_only: bool = boolean("1+")


@message()
class CreatableTopicConfigs:
    name: str = string("5+")
    value: str | None = string("5+", nullable="5+")
    read_only: bool = boolean("5+")
    config_source: int = int8("5+", default=-1)
    is_sensitive: bool = boolean("5+")


@message()
class CreatableTopicResult:
    name: str = string("0+")
    topic_id: bytes = uuid("7+")
    error_code: int = int16("0+")
    error_message: str | None = string("1+", nullable="0+")
    topic_config_error_code: int = int16("5+", tagged="5+", tag=0)
    num_partitions: int = int32("5+", default=-1)
    replication_factor: int = int16("5+", default=-1)
    configs: list[CreatableTopicConfigs] | None = array(CreatableTopicConfigs, "5+", nullable="5+")


@message(versions="2-7", flexible="5+", api_key=19)
class CreateTopicsResponse:
    throttle_time_ms: int = int32("2+")
    topics: list[CreatableTopicResult] = array(CreatableTopicResult, "0+")


def error_response(request: CreateTopicsRequest, version: int, code: ErrorCode) -> CreateTopicsResponse:
    """Return the response with the error `code`. The text for a topic without permission is that of the controller."""
    text = "Authorization failed." if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED else message_of(code)
    return CreateTopicsResponse(
        topics=[CreatableTopicResult(each.name, error_code=code, error_message=text) for each in request.topics]
    )
