"""The user data in subscriptions of Kafka's StickyAssignor: the partitions that a member owned. v1 adds the generation.

Kafka declares this struct in Java (`StickyAssignor.STICKY_ASSIGNOR_USER_DATA_V1`), not among its message definitions.
"""

from __future__ import annotations

from kafka_wire.records.consumer import TopicPartition
from kafka_wire.schema import array, int32, message


@message(versions="0-1")
class StickyUserData:
    """The partitions that a sticky member owned before it gave them up; v1 adds their generation."""

    previous_assignment: list[TopicPartition] = array(TopicPartition, "0+")
    generation: int = int32("1+", default=-1)
