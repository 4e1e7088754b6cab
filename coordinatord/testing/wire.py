"""Records, offsets and groups over Kafka's protocol: the tests' own reads and writes, on any broker.

Uses our codecs on a blocking socket: no background thread, and no client library that a test might not have installed.
Versions are fixed: every Kafka since 3.0 supports them. Faults do not hit the tests' own client id.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from coordinatord.server.control.faults import NO_FAULT_FOR
from coordinatord.testing.problems import KafkaError
from coordinatord.testing.views import Record, TopicPartition
from coordinatord.transport.blocking_client import BlockingConnection
from kafka_wire.api.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafka_wire.api.delete_groups import DeleteGroupsRequest
from kafka_wire.api.delete_topics import DeleteTopicsRequest
from kafka_wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafka_wire.api.list_groups import ListGroupsRequest
from kafka_wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafka_wire.api.metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kafka_wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.errors import DecodeError, ErrorCode
from kafka_wire.records.batch import BatchBuilder, iterate_batches, records
from kafka_wire.records.control import ControlType, decode_key

VERSIONS: dict[type[Any], int] = {
    CreateTopicsRequest: 5,
    DeleteGroupsRequest: 2,
    DeleteTopicsRequest: 5,
    FetchRequest: 12,
    FindCoordinatorRequest: 4,
    IncrementalAlterConfigsRequest: 1,
    ListGroupsRequest: 2,
    ListOffsetsRequest: 6,
    MetadataRequest: 10,
    OffsetFetchRequest: 8,
    ProduceRequest: 9,
}
"""Request versions; for other requests the caller passes the version."""

TIMEOUT_S = 30.0
RETRY_S = 0.02
MAX_BYTES = 16 << 20
EARLIEST, LATEST = -2, -1
READ_COMMITTED = 1
GROUP_RESOURCE = 32
"""The type of a resource of IncrementalAlterConfigs."""
SET, DELETE = 0, 1
"""Operations of IncrementalAlterConfigs."""

RETRIED = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)  # fmt: skip
"""Transient errors: a broker returns them for a moment after a request that creates a topic or finds a coordinator."""

Header = tuple[str, bytes | None]


class _Retry(Exception):
    """A transient error of a broker: try again."""


class Wire:
    """Client for the tests' own requests; see the module's docstring. `find` returns (host, port) of the bootstrap
    server; a restart may close connections. Thread-safe: one request is in flight at any moment.
    """

    def __init__(self, find: Callable[[], tuple[str, int]], client_id: str = NO_FAULT_FOR) -> None:
        self._find = find
        self._client_id = client_id
        self._connections: dict[tuple[str, int], BlockingConnection] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close all connections."""
        while self._connections:
            self._connections.popitem()[1].close()

    # Requests

    def ask(self, request: Any, version: int | None = None, to: tuple[str, int] | None = None) -> Any:
        """Send a request to the broker `to`, or to the bootstrap server; return the response.

        `version` may be None for requests in VERSIONS. A failed request is sent once more on a new connection, except
        after a timeout. Raises KafkaError if the broker does not respond.
        """
        address = to or self._find()
        for attempt in (1, 2):
            try:
                with self._lock:
                    return self._ask(address, request, version)
            except (OSError, DecodeError) as error:
                dropped = self._connections.pop(address, None)
                if dropped is not None:
                    dropped.close()
                if attempt == 2 or isinstance(error, TimeoutError):
                    name = type(request).__name__.removesuffix("Request")
                    where = f"{address[0]}:{address[1]}"
                    raise KafkaError(f"{where} has not answered {name}: {error or type(error).__name__}.") from error
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _ask(self, address: tuple[str, int], request: Any, version: int | None) -> Any:
        connection = self._connections.get(address)
        if connection is None:
            connection = self._connections[address] = BlockingConnection(address, self._client_id, TIMEOUT_S)
        return connection.ask(request, VERSIONS[type(request)] if version is None else version)

    def patiently(self, work: Callable[[], Any]) -> Any:
        """Return `work()`; call it again while it raises a transient error (`check`). Raises KafkaError after
        TIMEOUT_S.
        """
        ends_s = time.monotonic() + TIMEOUT_S
        while True:
            try:
                return work()
            except _Retry as error:
                if time.monotonic() > ends_s:
                    raise KafkaError(f"{error} after {TIMEOUT_S:g} s.") from None
                time.sleep(RETRY_S)

    # Topics

    def brokers_and_leaders(self, topic: str, *, create: bool = False) -> dict[int, tuple[str, int]]:
        """Return the address of the leader of each partition; {} if there is no such topic, unless
        `create` creates it.
        """

        def look() -> dict[int, tuple[str, int]]:
            asked = MetadataRequest([MetadataRequestTopic(name=topic)], allow_auto_topic_creation=create)
            told = self.ask(asked)
            brokers = {each.node_id: (each.host, each.port) for each in told.brokers}
            (found,) = told.topics
            if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not create:
                return {}
            check(found.error_code, f"topic {topic}")
            for each in found.partitions:
                check(each.error_code, f"{topic}-{each.partition_index}")
            if not found.partitions:
                raise _Retry(f"{topic} has no partitions")
            return {each.partition_index: brokers[each.leader_id] for each in found.partitions}

        leaders: dict[int, tuple[str, int]] = self.patiently(look)
        return leaders

    def leaders(self, topic: str) -> dict[int, tuple[str, int]]:
        """Return the address of the leader of each partition. Raises KafkaError if there is no such topic."""
        found = self.brokers_and_leaders(topic)
        if not found:
            raise KafkaError(
                f"There is no topic {topic!r}: make it with @pytest.mark.kafka(topics={{{topic!r}: 1}}), "
                "kafka.create_topic or kafka.put."
            )
        return found

    def topics(self) -> set[str]:
        """Return the names of all topics."""
        return {each.name for each in self.ask(MetadataRequest(None)).topics}

    def create_topic(self, name: str, partitions: int, configs: dict[str, str]) -> ErrorCode:
        """Create a topic and wait until it exists. Return NONE or TOPIC_ALREADY_EXISTS; raise KafkaError for other
        errors.
        """
        wanted = CreatableTopic(name, partitions, -1, [], [CreatableTopicConfig(*each) for each in configs.items()])
        (made,) = self.ask(CreateTopicsRequest([wanted], int(TIMEOUT_S * 1000))).topics
        error = ErrorCode(made.error_code)
        if error is ErrorCode.NONE:

            def look() -> None:
                if not self.brokers_and_leaders(name):
                    raise _Retry(f"topic {name} is not there")

            self.patiently(look)
        elif error is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise KafkaError(f"Topic {name} cannot be made: {(made.error_message or error.name).rstrip('.')}.")
        return error

    def configure_group(self, group_id: str, settings: Mapping[str, str | None]) -> None:
        """Set settings of a group; None removes one. Raises KafkaError if the broker rejects them."""
        configs = [AlterableConfig(name, DELETE if value is None else SET, value) for name, value in settings.items()]
        resource = AlterConfigsResource(GROUP_RESOURCE, group_id, configs)
        (done,) = self.ask(IncrementalAlterConfigsRequest([resource])).responses
        if done.error_code:
            message = done.error_message or ErrorCode(done.error_code).name
            raise KafkaError(f"Group {group_id} cannot be configured: {message.rstrip('.')}.")

    def delete_topics(self, names: Sequence[str]) -> None:
        """Delete the topics that exist, and wait until the broker has completed the deletion: Kafka's controller
        responds before brokers have, and records for a new topic of the same name would go into the one that is being
        deleted.
        """
        topic_ids = self._topic_ids(names)
        answer = self.ask(DeleteTopicsRequest(topic_names=list(names), timeout_ms=int(TIMEOUT_S * 1000)))
        deleted = [each.name for each in answer.responses if each.error_code == ErrorCode.NONE and each.name]

        def look() -> None:
            for name, topic_id in self._topic_ids(deleted).items():
                if topic_ids.get(name) == topic_id:
                    raise _Retry(f"topic {name} is still there")

        if deleted:
            self.patiently(look)

    def _topic_ids(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return the ids of the topics that exist, by name."""
        wanted = [MetadataRequestTopic(name=name) for name in names]
        told = self.ask(MetadataRequest(wanted, allow_auto_topic_creation=False)).topics
        return {each.name: each.topic_id for each in told if each.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

    def groups(self) -> set[str]:
        """Return the ids of all groups, of all brokers."""

        def listed(address: tuple[str, int]) -> set[str]:
            response = self.ask(ListGroupsRequest(), to=address)
            check(response.error_code, "groups")
            return {each.group_id for each in response.groups}

        found: set[str] = set()
        for each in self.ask(MetadataRequest([])).brokers:
            found |= self.patiently(partial(listed, (each.host, each.port)))
        return found

    def delete_groups(self, names: Sequence[str]) -> None:
        """Delete the groups that exist and have no members."""
        for name in names:
            self.ask(DeleteGroupsRequest([name]), to=self.coordinator(name))

    # Records

    def put(
        self,
        topic: str,
        values: Sequence[tuple[bytes | None, bytes | None, Sequence[Header]]],
        partition: int | None,
        timestamp_ms: int,
    ) -> None:
        """Append (key, value, headers) to one partition or to all in turn. A missing topic is created. Raises
        KafkaError if there is no such partition.
        """
        leaders = self.brokers_and_leaders(topic) or self.brokers_and_leaders(topic, create=True)
        if partition is not None and partition not in leaders:
            raise KafkaError(f"Topic {topic} has partitions 0 to {len(leaders) - 1}, not {partition}.")
        batches: dict[int, BatchBuilder] = {}
        for number, (key, value, headers) in enumerate(values):
            index = number % len(leaders) if partition is None else partition
            batches.setdefault(index, BatchBuilder()).add(key, value, timestamp_ms, headers)
        for index, batch in batches.items():
            data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(index, bytes(batch.finish()))])]
            request = ProduceRequest(None, -1, int(TIMEOUT_S * 1000), data)

            def send(request: ProduceRequest = request, index: int = index) -> None:
                told = self.ask(request, to=leaders[index]).responses[0].partition_responses[0]
                check(told.error_code, f"{topic}-{index}")

            self.patiently(send)

    def ends(
        self, topic: str, timestamp: int = LATEST, *, committed: bool = False, only: int | None = None
    ) -> dict[int, int]:
        """Return an offset of each partition, or of the partition `only`: the next one (LATEST) or the first
        (EARLIEST). `committed`: the last stable offset for LATEST.
        """
        found = {}
        for index, leader in self.leaders(topic).items():
            if only not in (None, index):
                continue
            asked = ListOffsetsTopic(topic, [ListOffsetsPartition(index, timestamp=timestamp)])

            def look(asked: ListOffsetsTopic = asked, leader: tuple[str, int] = leader, index: int = index) -> int:
                request = ListOffsetsRequest(-1, READ_COMMITTED if committed else 0, [asked])
                told = self.ask(request, to=leader).topics[0].partitions[0]
                check(told.error_code, f"{topic}-{index}")
                offset: int = told.offset
                return offset

            found[index] = self.patiently(look)
        return found

    def records(self, topic: str, *, committed: bool) -> Iterator[Record]:
        """Yield all records, partition by partition. `committed`: those below the last stable offset, without aborted
        ones.
        """
        first, ends, leaders = self.ends(topic, EARLIEST), self.ends(topic, committed=committed), self.leaders(topic)
        for index, end in ends.items():
            yield from self._read(topic, index, leaders[index], first[index], end, committed)

    def records_from(self, topic: str, index: int, offset: int) -> Iterator[Record]:
        """Yield the records of one partition from an offset on, also of compacted topics."""
        leader = self.leaders(topic)[index]
        yield from self._read(topic, index, leader, offset, self.ends(topic, only=index)[index], False)

    def _read(
        self, topic: str, index: int, leader: tuple[str, int], offset: int, end: int, committed: bool
    ) -> Iterator[Record]:
        while offset < end:
            asked = FetchTopic(topic, partitions=[FetchPartition(index, -1, offset, -1, -1, MAX_BYTES)])
            request = FetchRequest(
                max_wait_ms=0, min_bytes=0, isolation_level=READ_COMMITTED if committed else 0, topics=[asked]
            )
            told = self.ask(request, to=leader)
            data = told.responses[0].partitions[0]
            check(data.error_code, f"{topic}-{index}")
            found, after = _read(topic, index, data.records or b"", data.aborted_transactions or ())
            if after <= offset:
                break  # only the empty rest of a compacted log is left
            yield from (each for each in found if offset <= each.offset < end)
            offset = after

    # Groups

    def coordinator(self, name: str, key_type: int = 0) -> tuple[str, int]:
        """Return the address of the coordinator of a group, or of a transactional id (key type 1)."""
        found = self._coordinator(name, key_type)
        return found.host, found.port

    def coordinator_id(self, group_id: str) -> int:
        """Return the node id of the coordinator of a group."""
        node_id: int = self._coordinator(group_id, 0).node_id
        return node_id

    def _coordinator(self, name: str, key_type: int) -> Any:
        def look() -> Any:
            (found,) = self.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[name])).coordinators
            check(found.error_code, f"the coordinator of {name}")
            return found

        return self.patiently(look)

    def committed(self, group_id: str, to: tuple[str, int] | None) -> dict[TopicPartition, int]:
        """Return the committed offsets of a group. `to` is the address of its coordinator, if known."""

        def look() -> dict[TopicPartition, int]:
            asked = OffsetFetchRequestGroup(group_id, topics=None)
            (told,) = self.ask(OffsetFetchRequest(groups=[asked]), to=to or self.coordinator(group_id)).groups
            check(told.error_code, f"group {group_id}")
            return {
                (topic.name, each.partition_index): each.committed_offset
                for topic in told.topics
                for each in topic.partitions
                if each.committed_offset >= 0
            }

        found: dict[TopicPartition, int] = self.patiently(look)
        return found


def _read(topic: str, index: int, data: Any, aborted: Sequence[Any]) -> tuple[list[Record], int]:
    """Return the records of a fetch without those of aborted transactions, and the offset after them."""
    found: list[Record] = []
    after = -1
    waiting = sorted(aborted, key=lambda each: int(each.first_offset))
    open_aborted: set[int] = set()
    for at, header in iterate_batches(data, partial=True):
        after = header.next_offset
        while waiting and waiting[0].first_offset <= header.base_offset:
            open_aborted.add(waiting.pop(0).producer_id)
        if header.is_control:
            for each in records(data, at, header):
                if each.key is not None and decode_key(each.key) is ControlType.ABORT:
                    open_aborted.discard(header.producer_id)
            continue
        if header.is_transactional and header.producer_id in open_aborted:
            continue
        found += [
            Record(topic, index, each.offset, each.timestamp, each.key, each.value, tuple(each.headers))
            for each in records(data, at, header)
        ]
    return found, after


def check(error_code: int, what: str) -> None:
    """Raise an exception for an error of a response: KafkaError, or within `patiently` a retry for
    a transient error.
    """
    if error_code == ErrorCode.NONE:
        return
    try:
        error = ErrorCode(error_code)
    except ValueError:
        raise KafkaError(f"{what}: error {error_code}.") from None
    if error in RETRIED:
        raise _Retry(f"{what}: still {error.name}")
    raise KafkaError(f"{what}: {error.name}.")
