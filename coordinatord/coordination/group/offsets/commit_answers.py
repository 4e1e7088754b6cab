"""Responses to OffsetCommit whose partitions have different error codes."""

from __future__ import annotations

from kafka_wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    error_response,
)
from kafka_wire.errors import ErrorCode


def partly_committed(request: OffsetCommitRequest, max_metadata: int) -> OffsetCommitResponse:
    """Return a response in which each partition with metadata of more than `max_metadata` UTF-16 units has
    OFFSET_METADATA_TOO_LARGE, and each other one has no error.
    """
    response = error_response(request, 0, ErrorCode.NONE)
    for topic, answered in zip(request.topics, response.topics, strict=True):
        for partition, each in zip(topic.partitions, answered.partitions, strict=True):
            if metadata_is_too_long(partition.committed_metadata or "", max_metadata):
                each.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
    return response


def metadata_is_too_long(text: str, limit: int) -> bool:
    """Return whether the text has more than `limit` UTF-16 units, as Java counts its length."""
    if len(text) > limit:
        return True
    # A character has at most two units, so most texts need not be encoded.
    return len(text) * 2 > limit and len(text.encode("utf-16-le", "surrogatepass")) > limit * 2
