"""FindCoordinator: which node serves a group.

A group's partition of `__consumer_offsets` is `abs(hash) % offsets.topic.num.partitions`, with Java's hash of the group
id. Whoever leads that partition coordinates the group.
"""

from __future__ import annotations

from typing import Any

from coordinatord.nodes import Nodes
from coordinatord.request import RequestContext
from protocol.api.find_coordinator import Coordinator as Found
from protocol.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from protocol.errors import ErrorCode

GROUP = 0
TRANSACTION = 1
SHARE = 2

NO_NODE = (-1, "", -1)


def java_hash(text: str) -> int:
    """`String.hashCode()`: 31-polynomial over UTF-16 code units, as a signed int32."""
    value = 0
    if text.isascii():
        for byte in text.encode("ascii"):
            value = (value * 31 + byte) & 0xFFFFFFFF
    else:
        data = text.encode("utf-16-be", "surrogatepass")
        for index in range(0, len(data), 2):
            value = (value * 31 + (data[index] << 8 | data[index + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def partition_for(group_id: str, partitions: int) -> int:
    """A group's partition. `Utils.abs` of Kafka maps Integer.MIN_VALUE, which has no absolute value, to 0."""
    value = java_hash(group_id)
    return 0 if value == -(1 << 31) else abs(value) % partitions


class FindCoordinator:
    """The handler."""

    def __init__(self, nodes: Nodes, partitions: int) -> None:
        self.nodes = nodes
        self.partitions = partitions

    def handlers(self) -> dict[int, Any]:
        """By api key."""
        return {10: self.find}

    def find(self, context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        """v4+ asks for several keys (KIP-699); an error is that of its key then."""
        if context.api_version >= 4:
            found = []
            for key in request.coordinator_keys:
                error, (node_id, host, port) = self._coordinator(key, request.key_type, context)
                found.append(Found(key, node_id, host, port, error, ""))
            return FindCoordinatorResponse(coordinators=found)
        error, (node_id, host, port) = self._coordinator(request.key, request.key_type, context)
        return FindCoordinatorResponse(
            error_code=error, error_message=error.name, node_id=node_id, host=host, port=port
        )

    def _coordinator(self, key: str, key_type: int, context: RequestContext) -> tuple[ErrorCode, tuple[int, str, int]]:
        if key_type == GROUP:
            return ErrorCode.NONE, self.nodes.owner(partition_for(key, self.partitions), context.connection.listener)
        # Transactions and share groups are not served. Kafka, too, says INVALID_REQUEST to share keys where share
        # groups are off; a retriable error would have the client ask for ever.
        return ErrorCode.INVALID_REQUEST, NO_NODE
