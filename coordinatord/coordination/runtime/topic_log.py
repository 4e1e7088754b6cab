"""A topic's partitions as the log of the coordinator whose state they store (coordination/runtime/log.py)."""

from __future__ import annotations

from collections.abc import Iterator

from coordinatord.broker.log.loader import ReplayedBatch, replay
from coordinatord.broker.log.partition_log import PartitionLog
from coordinatord.broker.log.scan import LOAD_BUFFER_BYTES
from coordinatord.broker.log.writer import LogWriter
from coordinatord.broker.topics.markers import TransactionalAppends
from coordinatord.broker.topics.partition import Partition
from coordinatord.broker.topics.topics import Topics
from coordinatord.coordination.runtime.log import Gate, Producer
from coordinatord.coordination.runtime.partitions import Partitions
from coordinatord.transport.cluster.nodes import Nodes
from kafka_wire.records.batch import Records


def partitions_of(name: str, topics: Topics, nodes: Nodes, *, is_new: bool = False) -> Partitions:
    """Return the states of the partitions of a coordinator's topic, which may be created later: by a FindCoordinator, a
    client, or another node. `is_new`: if it exists, it was created a moment ago, and there is nothing to load.
    """
    topic = topics.internal(name)
    count = 0 if is_new else topic.count()
    partitions = Partitions(count, lambda partition: nodes.owns(name, partition), topic)
    partitions.exist()
    topics.made_elsewhere[name] = partitions.exist
    return partitions


class TopicLog:
    """The log in a topic that is never deleted; the topic may be created later."""

    def __init__(
        self, topic: str, appends: TransactionalAppends, writer: LogWriter, *, buffer_bytes: int = LOAD_BUFFER_BYTES
    ) -> None:
        """`buffer_bytes`: size of one read of a file."""
        self.topic = topic
        self.gate: Gate = writer
        self._appends = appends
        self._writer = writer
        self._buffer_bytes = buffer_bytes
        self._logs: dict[int, PartitionLog] = {}

    def append(self, partition: int, records: Records, now_ms: int, producer: Producer | None = None) -> int:
        """Append `records`; return the flush epoch that makes them durable."""
        if producer is not None:
            return self._appends.append_records(self._partition(partition), records, now_ms, *producer)
        log = self._logs.get(partition)
        if log is None:
            log = self._logs[partition] = self._partition(partition).log
        return self._writer.append_records(log, records, now_ms)

    def end_offset(self, partition: int) -> int:
        """Return the offset that the partition's next record will get."""
        return self._partition(partition).log.end_offset

    def delete_before(self, partition: int, offset: int) -> int:
        """Delete the partition's durable records before `offset`; return the flush epoch that makes this durable."""
        return self._writer.delete_records(self._partition(partition).log, offset)

    def forget(self, partition: int) -> None:
        """Drop the partition's cached log: the partition has another log now, or another node serves it."""
        self._logs.pop(partition, None)

    def size_bytes(self, partition: int) -> int:
        """Return the number of bytes to read."""
        return self._partition(partition).log.visible_bytes

    def read(self, partition: int) -> Iterator[ReplayedBatch]:
        """Read all batches; reading them also rebuilds the partition's producer state."""
        found = self._partition(partition)
        return self._appends.watch(found, replay(found.log, chunk_bytes=self._buffer_bytes))

    def _partition(self, index: int) -> Partition:
        found = self._appends.find(self.topic, index)
        assert found is not None, f"{self.topic} has all its partitions"
        return found
