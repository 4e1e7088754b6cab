"""The leaders that responses name: after NOT_LEADER_OR_FOLLOWER the client need not request metadata (KIP-951)."""

from __future__ import annotations

from coordinatord.broker.topics.catalogue import Catalogue
from coordinatord.transport.cluster.nodes import Nodes
from kafka_wire.errors import ErrorCode

_MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class Leaders:
    """The leaders of partitions, and their addresses."""

    def __init__(self, catalogue: Catalogue, nodes: Nodes) -> None:
        self._catalogue = catalogue
        self._nodes = nodes

    def of(self, topic_id: bytes, index: int, error: ErrorCode) -> tuple[int, int] | None:
        """Return (node id, leader epoch) if the error means that the leader is another one."""
        if error not in _MOVED:
            return None
        topic = self._catalogue.by_id.get(topic_id)
        if topic is None or not 0 <= index < len(topic.partitions):
            return -1, -1
        partition = topic.partitions[index]
        return partition.leader_id, partition.log.leader_epoch

    def endpoints(self, node_ids: set[int], listener: str) -> list[tuple[int, str, int, str | None]]:
        """Return the addresses of these nodes for clients of a listener."""
        if not node_ids:
            return []
        return [(node.node_id, node.host, node.port, node.rack) for node in self._nodes.select(node_ids, listener)]
