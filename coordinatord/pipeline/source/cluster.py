"""One connection to a cluster, through kafka-python and its SASL and TLS settings: the offsets log as it grows, and
where partitions begin and end. Nothing joins a group and nothing commits: the log is read by Fetch.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any, NamedTuple

from kafka import TopicPartition as Place
from kafka.errors import (
    InvalidTopicError,
    KafkaError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest

from coordinatord.pipeline.analysis.generations import TopicPartition
from coordinatord.pipeline.source.connecting import connected, sentence
from coordinatord.pipeline.source.segments import OFFSETS_TOPIC, SourceError
from kafka_wire.errors import ErrorCode

PARTITION_BYTES = 1 << 20
FETCH_BYTES = 8 << 20
TIMEOUT_MS = 30_000
FETCH_VERSION = 12
"""The last one with topic names."""
EARLIEST, LATEST = -2, -1
TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class Fetched(NamedTuple):
    """What a partition of the log had from an offset on: batches, and where it begins and ends."""

    data: bytes
    log_start: int
    end: int
    is_out_of_range: bool


class Cluster:
    """A context manager; all methods raise SourceError if the cluster does not answer."""

    def __init__(self, bootstrap: str, settings: Mapping[str, Any], patience_s: float) -> None:
        self.bootstrap = bootstrap
        self.settings = settings
        self.patience_s = patience_s
        self._stack = ExitStack()
        self._consumer: Any = None

    def __enter__(self) -> Cluster:
        self._consumer = self._stack.enter_context(connected(self.bootstrap, self.settings, self.patience_s))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    @property
    def id(self) -> str | None:
        """The cluster's id."""
        found = getattr(self._consumer._manager.cluster, "cluster_id", None)
        return None if found is None else str(found)

    def log_partitions(self) -> list[int]:
        """The partitions of the offsets log; none if no group has committed yet."""
        return self._numbers([OFFSETS_TOPIC]).get(OFFSETS_TOPIC, [])

    def _numbers(self, topics: Collection[str]) -> dict[str, list[int]]:
        cluster = self._consumer._manager.cluster
        try:
            self._run(cluster.set_topics(list(topics)))
        except KafkaError as error:
            if not _is_of_a_topic(error):
                raise self._told(error) from None
        if OFFSETS_TOPIC in topics and OFFSETS_TOPIC in cluster.unauthorized_topics:
            raise SourceError(
                f"{self.bootstrap} does not let this user read {OFFSETS_TOPIC}: allow it, with kafka-acls --add "
                f"--allow-principal PRINCIPAL --operation Read --topic {OFFSETS_TOPIC}"
            )
        return {topic: sorted(cluster.partitions_for_topic(topic) or ()) for topic in topics}

    def fetch(self, offsets: Mapping[int, int]) -> dict[int, Fetched]:
        """What the log's partitions have from these offsets on, a part of it if it is much. Partitions without a leader
        are left out.
        """
        cluster = self._consumer._manager.cluster
        by_leader: dict[int, list[int]] = {}
        for number in offsets:
            leader = cluster.leader_for_partition(Place(OFFSETS_TOPIC, number))
            if leader is not None and leader != -1:
                by_leader.setdefault(leader, []).append(number)
        found: dict[int, Fetched] = {}
        is_stale = len(offsets) > sum(map(len, by_leader.values()))
        for leader, numbers in by_leader.items():
            answer = self._send(leader, _request({number: offsets[number] for number in numbers}))
            for each in answer.responses[0].partitions if answer.responses else ():
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
        """The first offset and the end of each of the partitions, of those that exist and have a leader."""
        wanted = {place for place in places if TOPIC_NAME.fullmatch(place[0]) and place[0] not in (".", "..")}
        numbers = self._numbers({topic for topic, _ in wanted} | {OFFSETS_TOPIC})
        cluster = self._consumer._manager.cluster
        by_leader: dict[int, dict[str, list[int]]] = {}
        for topic, number in sorted(wanted):
            leader = cluster.leader_for_partition(Place(topic, number)) if number in numbers[topic] else None
            if leader is not None and leader != -1:
                by_leader.setdefault(leader, {}).setdefault(topic, []).append(number)
        starts, ends = (self._list_offsets(by_leader, time_ms) for time_ms in (EARLIEST, LATEST))
        return {place: (starts[place], ends[place]) for place in ends if place in starts}

    def _list_offsets(self, by_leader: Mapping[int, Mapping[str, list[int]]], which: int) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        is_stale = False
        for leader, topics in by_leader.items():
            answer = self._send(leader, _offsets_request(topics, which))
            for topic in answer.topics:
                for each in topic.partitions:
                    if each.error_code == ErrorCode.NONE:
                        found[topic.name, each.partition_index] = each.offset
                    else:
                        is_stale = True
        if is_stale:
            self.refresh()
        return found

    def log_bounds(self, numbers: Iterable[int]) -> dict[int, tuple[int, int]]:
        """Where the log's partitions begin and end."""
        found = self.bounds((OFFSETS_TOPIC, number) for number in numbers)
        return {number: bounds for (_topic, number), bounds in found.items()}

    def refresh(self) -> None:
        """Ask for metadata anew: leaders move, topics come and go."""
        try:
            self._run(self._consumer._manager.cluster.request_update())
        except KafkaError as error:
            if not _is_of_a_topic(error):
                raise self._told(error) from None

    def _send(self, node: int, request: Any) -> Any:
        try:
            return self._run(self._consumer._manager.send(request, node_id=node))
        except KafkaError as error:
            raise self._told(error) from None

    def _run(self, future: Any) -> Any:
        """Like kafka.consumer.fetcher: the consumer has no public access to the bytes."""
        manager, net = self._consumer._manager, self._consumer._net
        return net.run(manager.wait_for, future, TIMEOUT_MS)

    def _told(self, error: KafkaError) -> SourceError:
        return SourceError(sentence(self.bootstrap, self.settings, error, self._consumer._manager))


def _is_of_a_topic(error: KafkaError) -> bool:
    """Whether metadata came, and one of its topics is not there or not to be seen."""
    return isinstance(error, TopicAuthorizationFailedError | UnknownTopicOrPartitionError | InvalidTopicError)


def _offsets_request(topics: Mapping[str, list[int]], which: int) -> Any:
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
    return ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=wanted, min_version=1, max_version=5)


def _request(offsets: Mapping[int, int]) -> Any:
    wanted = [
        FetchRequest.FetchTopic.FetchPartition(
            partition=number, current_leader_epoch=-1, fetch_offset=offset, last_fetched_epoch=-1,
            log_start_offset=-1, partition_max_bytes=PARTITION_BYTES,
        )
        for number, offset in offsets.items()
    ]  # fmt: skip
    return FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=FETCH_BYTES, isolation_level=0, session_id=0, session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic=OFFSETS_TOPIC, partitions=wanted)],
        forgotten_topics_data=[], rack_id="", min_version=5, max_version=FETCH_VERSION,
    )  # fmt: skip
