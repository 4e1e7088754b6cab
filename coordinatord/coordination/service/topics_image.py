"""The topics as groups of the consumer protocol see them."""

from __future__ import annotations

from collections.abc import Iterable

from coordinatord.broker.topics.catalogue import Catalogue
from coordinatord.broker.topics.names import LEDGER_TOPIC
from coordinatord.coordination.group.consumer.metadata_hash import topic_hash
from coordinatord.coordination.group.consumer.topics import Topic
from coordinatord.transport.cluster.nodes import Nodes


class TopicsImage:
    """A view of the catalogue (coordinatord.coordination.group.consumer.topics.Topics). Hashes are computed at first
    use.
    """

    def __init__(self, catalogue: Catalogue, nodes: Nodes) -> None:
        self._catalogue = catalogue
        self._racks = frozenset(() if nodes.rack is None else (nodes.rack,))
        self._known: dict[bytes, Topic] = {}
        self._version = -1
        self._created_version = -1
        self._ids: frozenset[bytes] = frozenset()

    @property
    def version(self) -> int:
        """Number of changes of the catalogue, including those by other workers."""
        self._catalogue.refresh()
        version = self._catalogue.change
        if version != self._version:
            self._look(version)
        return version

    @property
    def created_version(self) -> int:
        """Version in which a topic was last seen to be new. The ledger's
        topic does not count: Kafka does not have it.
        """
        self._look(self._catalogue.change)
        return self._created_version

    def find(self, name: str) -> Topic | None:
        """Return the topic with this name, or None."""
        topic = self._catalogue.by_name.get(name)
        return None if topic is None else self._seen(topic.topic_id, name, len(topic.partitions))

    def find_id(self, topic_id: bytes) -> Topic | None:
        """Return the topic with this id, or None."""
        topic = self._catalogue.by_id.get(topic_id)
        return None if topic is None else self._seen(topic_id, topic.name, len(topic.partitions))

    def names(self) -> Iterable[str]:
        """Return all names that an expression may match: Kafka's
        internal topics as well, but not the ledger's topic.
        """
        return [name for name in self._catalogue.by_name if name != LEDGER_TOPIC]

    def num_partitions(self, topic_id: bytes) -> int:
        """Return the number of a topic's partitions; -1 if there is no such topic."""
        topic = self._catalogue.by_id.get(topic_id)
        return -1 if topic is None else len(topic.partitions)

    def racks(self, topic_id: bytes, partition: int) -> frozenset[str]:
        """Return the racks of a partition's replicas: all nodes are in the same rack."""
        return self._racks

    def _seen(self, topic_id: bytes, name: str, partitions: int) -> Topic:
        known = self._known.get(topic_id)
        if known is None or known.partitions != partitions:
            computed = topic_hash(topic_id, name, [tuple(self._racks)] * partitions)
            known = self._known[topic_id] = Topic(topic_id, name, partitions, computed)
        return known

    def _look(self, version: int) -> None:
        if version == self._version:
            return
        ledger = self._catalogue.by_name.get(LEDGER_TOPIC)
        ids = frozenset(self._catalogue.by_id) - {b"" if ledger is None else ledger.topic_id}
        if not ids <= self._ids or self._created_version < 0:
            self._created_version = version
        for topic_id in self._ids - ids:
            self._known.pop(topic_id, None)
        self._ids, self._version = ids, version
