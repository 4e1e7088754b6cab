"""One connection to a cluster, through kafka-python and its SASL and TLS settings: the offsets log as it grows, and
the first offsets and ends of partitions. No request joins a group or commits: the log is read by Fetch.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any, NamedTuple
from uuid import UUID

from kafka.errors import KafkaError
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

from coordinatord.monitoring.analysis.generations import TopicPartition
from coordinatord.monitoring.offsets_log.source.connecting import connected, sentence
from coordinatord.monitoring.offsets_log.source.segments import OFFSETS_TOPIC, SourceError
from coordinatord.monitoring.offsets_log.source.unreadable_partitions import MOVED, not_allowed
from kafka_wire.errors import ErrorCode

PARTITION_BYTES = 1 << 20
FETCH_BYTES = 8 << 20
FETCH_VERSION = 12
"""The last version with topic names."""
PEEKS_AT_ONCE = 1_000
"""Maximum number of partitions in one request for the first bytes from an offset on."""
EARLIEST, LATEST = -2, -1
ATTEMPTS = 3
"""Number of requests for bounds while nodes return errors for partitions that they do not lead any more."""
TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class Fetched(NamedTuple):
    """Data of a partition of the log from an offset on: batches, and the partition's first offset and end."""

    data: bytes
    log_start: int
    end: int
    is_out_of_range: bool


class Cluster:
    """A context manager for one connection. All methods raise SourceError if the cluster does not respond."""

    def __init__(
        self, bootstrap: str, settings: Mapping[str, Any], patience_s: float, log_topic: str = OFFSETS_TOPIC
    ) -> None:
        self.bootstrap = bootstrap
        self.log_topic = log_topic
        self.settings = settings
        self.patience_s = patience_s
        self._leaders: dict[TopicPartition, int] = {}
        """The leader of each partition for which metadata was requested; -1 for none."""
        self._stack = ExitStack()
        self.connections: Any = None

    def __enter__(self) -> Cluster:
        self.connections = self._stack.enter_context(connected(self.bootstrap, self.settings, self.patience_s))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    @property
    def id(self) -> str | None:
        """The cluster's id, None if it is unknown."""
        found = getattr(self.connections.cluster, "cluster_id", None)
        return None if found is None else str(found)

    def log_partitions(self) -> list[int]:
        """Return the partitions of the offsets log; none if no group has committed yet."""
        return self.partitions(self.log_topic)

    def partitions(self, topic: str) -> list[int]:
        """Return a topic's partitions, with their leaders requested again; none if there is no such topic, or if the
        user may not describe it. Raises SourceError if that is the offsets log.
        """
        return self._numbers([topic])[topic]

    def leader(self, topic: str, partition: int) -> int:
        """Return the node that leads a partition, from the last metadata; -1 for none."""
        return self._leaders.get((topic, partition), -1)

    def places(self) -> set[TopicPartition]:
        """Return the partitions of all topics that the user may describe, without internal ones."""
        topics = self._metadata(None).topics
        return {
            (topic.name, it.partition_index) for topic in topics if not topic.is_internal for it in topic.partitions
        }

    def topic_ids(self) -> dict[str, UUID]:
        """Return the ids of all topics that the user may describe; none from a broker without ids (before 2.8)."""
        topics = self._metadata(None).topics
        return {topic.name: topic.topic_id for topic in topics if topic.name and topic.topic_id and topic.topic_id.int}

    def existing(self, places: Iterable[TopicPartition]) -> set[TopicPartition]:
        """Return those of the partitions that exist, with a leader or without one."""
        wanted = _possible(places)
        numbers = self._numbers({topic for topic, _ in wanted})
        return {place for place in wanted if place[1] in numbers[place[0]]}

    def _numbers(self, topics: Collection[str]) -> dict[str, list[int]]:
        """Return the topics' partitions, and store their leaders."""
        found: dict[str, list[int]] = {topic: [] for topic in topics}
        for topic in self._metadata(topics).topics if topics else ():
            if topic.name == self.log_topic and topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                raise SourceError(not_allowed(self.bootstrap, self.settings, self.log_topic))
            found[topic.name] = sorted(each.partition_index for each in topic.partitions)
            self._leaders |= {(topic.name, each.partition_index): each.leader_id for each in topic.partitions}
        return found

    def _metadata(self, topics: Collection[str] | None) -> Any:
        """Return Kafka's Metadata response for these topics, or for all. kafka-python's own metadata has the topics of
        the last request that got a response, which need not be these.
        """
        wanted = (
            MetadataRequest.ALL_TOPICS
            if topics is None
            else [MetadataRequest.MetadataRequestTopic(name=topic) for topic in sorted(topics)]
        )
        request = MetadataRequest(
            topics=wanted, allow_auto_topic_creation=False, include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )  # fmt: skip
        connections = self.connections
        for attempt in range(ATTEMPTS):
            try:
                answer = connections.ask(request)
                break
            except KafkaError as error:
                if attempt == ATTEMPTS - 1 or connections.is_lasting(error):
                    raise self._source_error(error) from None
        connections.cluster.update_metadata(answer)  # the nodes' addresses
        return answer

    def fetch(self, offsets: Mapping[int, int]) -> dict[int, Fetched]:
        """Return the data of the log's partitions from these offsets on, limited in size. Partitions without a leader
        that responds are left out.
        """
        by_leader: dict[int, list[int]] = {}
        for number in offsets:
            leader = self._leaders.get((self.log_topic, number), -1)
            if leader != -1:
                by_leader.setdefault(leader, []).append(number)
        found: dict[int, Fetched] = {}
        is_stale = len(offsets) > sum(map(len, by_leader.values()))
        for leader, numbers in by_leader.items():
            answer = self._send(leader, _request(self.log_topic, {number: offsets[number] for number in numbers}))
            for each in answer.responses[0].partitions if answer is not None and answer.responses else ():
                code = each.error_code
                if code in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE):
                    is_out = code == ErrorCode.OFFSET_OUT_OF_RANGE
                    found[each.partition_index] = Fetched(
                        bytes(each.records or b""), each.log_start_offset, each.high_watermark, is_out
                    )
                else:
                    is_stale = True
        if is_stale:
            self.refresh()
        return found

    def bounds(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """Return the first offset and the end of each of the partitions, of those that exist and have a leader that
        responds.
        """
        wanted = _possible(places)
        for _ in range(ATTEMPTS):
            found, is_stale = self._bounds(wanted)
            if not is_stale:
                break
        return found

    def _bounds(self, wanted: Collection[TopicPartition]) -> tuple[dict[TopicPartition, tuple[int, int]], bool]:
        """Return bounds, and True if a node had an error for one of the partitions: its leader may have moved."""
        numbers = self._numbers({topic for topic, _ in wanted})
        by_leader: dict[int, dict[str, list[int]]] = {}
        for topic, number in sorted(wanted):
            leader = self._leaders[topic, number] if number in numbers[topic] else -1
            if leader != -1:
                by_leader.setdefault(leader, {}).setdefault(topic, []).append(number)
        starts: dict[TopicPartition, int] = {}
        ends: dict[TopicPartition, int] = {}
        is_stale = False
        for leader, topics in by_leader.items():
            for which, found in ((EARLIEST, starts), (LATEST, ends)):
                answer = self._send(leader, _offsets_request(topics, which))
                for topic in () if answer is None else answer.topics:
                    for each in topic.partitions:
                        if each.error_code == ErrorCode.NONE:
                            found[topic.name, each.partition_index] = each.offset
                        else:
                            is_stale |= each.error_code in MOVED
                if answer is None:
                    break
        return {place: (starts[place], ends[place]) for place in ends if place in starts}, is_stale

    def list_offsets(
        self, places: Iterable[TopicPartition], which: int, *, committed: bool = False
    ) -> dict[TopicPartition, int]:
        """Return the offsets in the ListOffsets responses for a timestamp, or for LATEST, of the partitions that have a
        leader that responds: -1 if no record has this timestamp or a later one. `committed` requests them with
        isolation.level=read_committed.
        """
        found: dict[TopicPartition, int] = {}
        for leader, of_leader in self._by_leader(places).items():
            topics: dict[str, list[int]] = {}
            for topic, number in of_leader:
                topics.setdefault(topic, []).append(number)
            answer = self._send(leader, _offsets_request(topics, which, committed=committed))
            for each in () if answer is None else answer.topics:
                found |= {
                    (each.name, one.partition_index): one.offset
                    for one in each.partitions
                    if one.error_code == ErrorCode.NONE
                }
        return found

    def peek(self, offsets: Mapping[TopicPartition, int], size: int) -> dict[TopicPartition, bytes]:
        """Return the batches of partitions from these offsets on, whole ones of at most `size` bytes together; of
        partitions that the user may read. Empty bytes mean that the first batch is larger.
        """
        found: dict[TopicPartition, bytes] = {}
        for leader, places in self._by_leader(offsets).items():
            for begin in range(0, len(places), PEEKS_AT_ONCE):
                chosen = {place: offsets[place] for place in places[begin : begin + PEEKS_AT_ONCE]}
                answer = self._send(leader, _peek_request(chosen, size))
                for topic in () if answer is None else answer.responses:
                    for each in topic.partitions:
                        if each.error_code == ErrorCode.NONE:
                            found[topic.topic, each.partition_index] = bytes(each.records or b"")
        return found

    def _by_leader(self, places: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        found: dict[int, list[TopicPartition]] = {}
        for place in sorted(places):
            leader = self._leaders.get(place, -1)
            if leader != -1:
                found.setdefault(leader, []).append(place)
        return found

    def ask(self, request: Any, node: int | None = None) -> Any:
        """Return a node's response; None if it does not respond, or does not support the request."""
        try:
            return self.connections.ask(request, node)
        except KafkaError as error:
            if self.connections.is_lasting(error):
                raise self._source_error(error) from None
            return None

    @property
    def nodes(self) -> list[int]:
        """The ids of all brokers."""
        return [broker.node_id for broker in self.connections.cluster.brokers()]

    def log_bounds(self, numbers: Iterable[int]) -> dict[int, tuple[int, int]]:
        """Return the first offsets and the ends of the log's partitions."""
        found = self.bounds((self.log_topic, number) for number in numbers)
        return {number: bounds for (_topic, number), bounds in found.items()}

    def refresh(self) -> None:
        """Request metadata again: leaders move, topics are created and deleted."""
        self._numbers([self.log_topic])

    def _send(self, node: int, request: Any) -> Any:
        """Return the node's response; None if the node is unreachable while another node of the cluster responds: a
        broker that has just failed leads its partitions until the controller has noticed.
        """
        try:
            return self.connections.ask(request, node)
        except KafkaError as error:
            if self.connections.is_lasting(error):
                raise self._source_error(error) from None
            self.refresh()
            return None

    def _source_error(self, error: KafkaError) -> SourceError:
        return SourceError(sentence(self.bootstrap, self.settings, error, self.connections))


def _possible(places: Iterable[TopicPartition]) -> set[TopicPartition]:
    """Return the partitions without those of invalid topic names: a group may commit for any name."""
    return {place for place in places if TOPIC_NAME.fullmatch(place[0]) and place[0] not in (".", "..")}


def _offsets_request(topics: Mapping[str, list[int]], which: int, *, committed: bool = False) -> Any:
    parts = ListOffsetsRequest.ListOffsetsTopic
    wanted = [
        parts(
            name=topic,
            partitions=[
                parts.ListOffsetsPartition(partition_index=number, current_leader_epoch=-1, timestamp=which)
                for number in numbers
            ],
        )
        for topic, numbers in topics.items()
    ]
    return ListOffsetsRequest(
        replica_id=-1, isolation_level=int(committed), topics=wanted, min_version=1 + committed, max_version=5
    )


def _peek_request(offsets: Mapping[TopicPartition, int], size: int) -> Any:
    topics: dict[str, list[Any]] = {}
    for (topic, number), offset in offsets.items():
        topics.setdefault(topic, []).append(
            FetchRequest.FetchTopic.FetchPartition(
                partition=number, current_leader_epoch=-1, fetch_offset=offset, last_fetched_epoch=-1,
                log_start_offset=-1, partition_max_bytes=size,
            )
        )  # fmt: skip
    return FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=FETCH_BYTES, isolation_level=0, session_id=0, session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=wanted) for topic, wanted in topics.items()],
        forgotten_topics_data=[], rack_id="", min_version=5, max_version=FETCH_VERSION,
    )  # fmt: skip


def _request(topic: str, offsets: Mapping[int, int]) -> Any:
    wanted = [
        FetchRequest.FetchTopic.FetchPartition(
            partition=number, current_leader_epoch=-1, fetch_offset=offset, last_fetched_epoch=-1,
            log_start_offset=-1, partition_max_bytes=PARTITION_BYTES,
        )
        for number, offset in offsets.items()
    ]  # fmt: skip
    return FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=FETCH_BYTES, isolation_level=0, session_id=0, session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=wanted)],
        forgotten_topics_data=[], rack_id="", min_version=5, max_version=FETCH_VERSION,
    )  # fmt: skip
