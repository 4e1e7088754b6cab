"""ElectLeaders: elect leaders for partitions.

v1 election types (KIP-460), top-level error · v2 flexible
"""

from __future__ import annotations

from kafka_wire.errors import ErrorCode, message_of
from kafka_wire.schema import array, int8, int16, int32, message, string


@message()
class TopicPartitions:
    topic: str = string("0+")
    partitions: list[int] = array(int32, "0+")


@message(versions="0-2", flexible="2+", api_key=43)
class ElectLeadersRequest:
    election_type: int = int8("1+")
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, "0+", nullable="0+")
    timeout_ms: int = int32("0+", default=60_000)


@message()
class PartitionResult:
    partition_id: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")


@message()
class ReplicaElectionResult:
    topic: str = string("0+")
    partition_result: list[PartitionResult] = array(PartitionResult, "0+")


@message(versions="0-2", flexible="2+", api_key=43)
class ElectLeadersResponse:
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("1+")
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult, "0+")


def error_response(request: ElectLeadersRequest, version: int, code: ErrorCode) -> ElectLeadersResponse:
    """Return the response with the error `code`."""
    return ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            ReplicaElectionResult(
                topic.topic, [PartitionResult(each, code, message_of(code)) for each in topic.partitions]
            )
            for topic in request.topic_partitions or ()
        ],
    )
