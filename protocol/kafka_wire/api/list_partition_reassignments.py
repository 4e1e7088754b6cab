"""ListPartitionReassignments (KIP-455): the partitions that are being moved."""

from __future__ import annotations

from kafka_wire.errors import ErrorCode, message_of
from kafka_wire.schema import array, int16, int32, message, string


@message()
class ListPartitionReassignmentsTopics:
    name: str = string("0+")
    partition_indexes: list[int] = array(int32, "0+")


@message(versions="0", flexible="0+", api_key=46)
class ListPartitionReassignmentsRequest:
    timeout_ms: int = int32("0+", default=60_000)
    topics: list[ListPartitionReassignmentsTopics] | None = array(
        ListPartitionReassignmentsTopics, "0+", nullable="0+", default=None
    )


@message()
class OngoingPartitionReassignment:
    partition_index: int = int32("0+")
    replicas: list[int] = array(int32, "0+")
    adding_replicas: list[int] = array(int32, "0+")
    removing_replicas: list[int] = array(int32, "0+")


@message()
class OngoingTopicReassignment:
    name: str = string("0+")
    partitions: list[OngoingPartitionReassignment] = array(OngoingPartitionReassignment, "0+")


@message(versions="0", flexible="0+", api_key=46)
class ListPartitionReassignmentsResponse:
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    topics: list[OngoingTopicReassignment] = array(OngoingTopicReassignment, "0+")


def error_response(
    request: ListPartitionReassignmentsRequest, version: int, code: ErrorCode
) -> ListPartitionReassignmentsResponse:
    """Return the response with the error `code`."""
    return ListPartitionReassignmentsResponse(error_code=code, error_message=message_of(code))
