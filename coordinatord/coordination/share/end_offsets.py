"""The high watermarks of partitions on any node, for the lag of share groups. Other nodes get ListOffsets requests, as
those of Kafka's PartitionMetadataClient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from coordinatord.broker.topics.catalogue import Catalogue
from coordinatord.coordination.share.persister import TopicIdPartition
from coordinatord.coordination.share.state_persister import Peers
from coordinatord.transport.cluster.nodes import Nodes
from kafka_wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafka_wire.errors import ErrorCode

LIST_OFFSETS_VERSION: Final = 8
"""Version of ListOffsets between nodes."""

LATEST: Final = -1
NO_REPLICA: Final = -1

EndOffsets = Mapping[TopicIdPartition, int | ErrorCode]
"""The high watermark of each partition, or the error."""


class PartitionEnds:
    """The high watermarks of partitions."""

    def __init__(self, catalogue: Catalogue, others: tuple[Nodes, Peers] | None = None) -> None:
        """`others`: None if there is no other node."""
        self._catalogue = catalogue
        self._others = others

    def ask(self, partitions: Sequence[TopicIdPartition], done: Callable[[EndOffsets], object]) -> None:
        """Call `done` with the high watermarks, now if other nodes need not be asked."""
        found: dict[TopicIdPartition, int | ErrorCode] = {}
        asked: dict[int, dict[str, list[TopicIdPartition]]] = {}
        for key in partitions:
            topic = self._catalogue.by_id.get(key[0])
            if topic is None or not 0 <= key[1] < len(topic.partitions):
                found[key] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif self._others is None or topic.partitions[key[1]].is_here:
                found[key] = topic.partitions[key[1]].log.high_watermark
            else:
                found[key] = ErrorCode.LEADER_NOT_AVAILABLE  # unless the leader responds
                worker = self._others[0].worker_of(topic.name, key[1])
                asked.setdefault(worker, {}).setdefault(topic.name, []).append(key)
        awaited = len(asked)
        if self._others is None or not asked:
            done(found)
            return

        def answered(topics: Mapping[str, list[TopicIdPartition]], response: Any) -> None:
            nonlocal awaited
            for topic in () if response is None else response.topics:
                by_index = {key[1]: key for key in topics[topic.name]}
                for each in topic.partitions:
                    error = ErrorCode(each.error_code)
                    found[by_index[each.partition_index]] = error or each.offset
            awaited -= 1
            if not awaited:
                done(found)

        for worker, topics in asked.items():
            self._others[1].ask(worker, LIST_OFFSETS_VERSION, _request(topics), partial(answered, topics))


def _request(topics: Mapping[str, list[TopicIdPartition]]) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        replica_id=NO_REPLICA,
        topics=[
            ListOffsetsTopic(name, [ListOffsetsPartition(index, timestamp=LATEST) for _, index in keys])
            for name, keys in topics.items()
        ],
    )
