"""Responses to OffsetCommit: one error per partition, or none at all."""

from __future__ import annotations

from kafka_wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    error_response,
)
from kafka_wire.errors import ErrorCode


def partly_committed(request: OffsetCommitRequest, max_metadata: int) -> OffsetCommitResponse:
    """Return a response with one error per partition; the partitions whose metadata is too long fail."""
    response = error_response(request, 0, ErrorCode.NONE)
    for topic, answered in zip(request.topics, response.topics, strict=True):
        for partition, each in zip(topic.partitions, answered.partitions, strict=True):
            if metadata_is_too_long(partition.committed_metadata or "", max_metadata):
                each.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
    return response


def metadata_is_too_long(text: str, limit: int) -> bool:
    """Return whether the text exceeds `limit` UTF-16 units, as Java counts; counted only for text near the limit."""
    if len(text) > limit:
        return True
    return len(text) * 2 > limit and len(text.encode("utf-16-le", "surrogatepass")) > limit * 2
