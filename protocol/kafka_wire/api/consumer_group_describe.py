"""ConsumerGroupDescribe: state and members of KIP-848 groups.

v1 member type
"""

from __future__ import annotations

from kafka_wire.errors import ErrorCode
from kafka_wire.schema import array, boolean, int8, int16, int32, message, string, struct, uuid


@message(versions="0-1", flexible="0+", api_key=69)
class ConsumerGroupDescribeRequest:
    group_ids: list[str] = array(string, "0+")
    include_authorized_operations: bool = boolean("0+")


@message()
class TopicPartitions:
    topic_id: bytes = uuid("0+")
    topic_name: str = string("0+")
    partitions: list[int] = array(int32, "0+")


@message()
class Assignment:
    topic_partitions: list[TopicPartitions] = array(TopicPartitions, "0+")


@message()
class Member:
    member_id: str = string("0+")
    instance_id: str | None = string("0+", nullable="0+", default=None)
    rack_id: str | None = string("0+", nullable="0+", default=None)
    member_epoch: int = int32("0+")
    client_id: str = string("0+")
    client_host: str = string("0+")
    subscribed_topic_names: list[str] = array(string, "0+")
    subscribed_topic_regex: str | None = string("0+", nullable="0+", default=None)
    assignment: Assignment = struct(Assignment, "0+")
    target_assignment: Assignment = struct(Assignment, "0+")
    member_type: int = int8("1+", default=-1)


@message()
class DescribedGroup:
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    group_id: str = string("0+")
    group_state: str = string("0+")
    group_epoch: int = int32("0+")
    assignment_epoch: int = int32("0+")
    assignor_name: str = string("0+")
    members: list[Member] = array(Member, "0+")
    authorized_operations: int = int32("0+", default=-2147483648)


@message(versions="0-1", flexible="0+", api_key=69)
class ConsumerGroupDescribeResponse:
    throttle_time_ms: int = int32("0+")
    groups: list[DescribedGroup] = array(DescribedGroup, "0+", batched=True)


def error_response(
    request: ConsumerGroupDescribeRequest, version: int, code: ErrorCode
) -> ConsumerGroupDescribeResponse:
    """Return the response with the error `code`."""
    return ConsumerGroupDescribeResponse(
        groups=[DescribedGroup(error_code=code, group_id=each) for each in request.group_ids]
    )
