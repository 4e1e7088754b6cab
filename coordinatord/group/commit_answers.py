"""What an OffsetCommit is answered: one error for each partition, or none at all."""

from __future__ import annotations

from typing import Final

from kafka_wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafka_wire.errors import ErrorCode

ALL_COMMITTED: Final = OffsetCommitResponse()
"""Stands for the response to a commit without an error: it is told by identity. Its topics and partitions are those of
the request, and the shell, which has that, writes them.
"""


def written_out(request: OffsetCommitRequest, reply: OffsetCommitResponse) -> OffsetCommitResponse:
    """The reply of a step with all that it says."""
    return commit_error(request, ErrorCode.NONE) if reply is ALL_COMMITTED else reply


def partly_committed(request: OffsetCommitRequest, max_metadata: int) -> OffsetCommitResponse:
    """An answer for each partition, of which some had too much metadata."""
    response = commit_error(request, ErrorCode.NONE)
    for topic, answered in zip(request.topics, response.topics, strict=True):
        for partition, each in zip(topic.partitions, answered.partitions, strict=True):
            if metadata_is_too_long(partition.committed_metadata or "", max_metadata):
                each.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
    return response


def commit_error(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """The same error for each partition: an OffsetCommit response has no other place for it."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                [OffsetCommitResponsePartition(partition.partition_index, error) for partition in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def metadata_is_too_long(text: str, limit: int) -> bool:
    """In UTF-16 units, as Java counts; only text near the limit needs counting."""
    if len(text) > limit:
        return True
    return len(text) * 2 > limit and len(text.encode("utf-16-le", "surrogatepass")) > limit * 2
