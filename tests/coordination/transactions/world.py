"""Everything that transactions touch, on a simulated disk: topics, groups and the transaction coordinator, wired as the
daemon wires them. Requests go through their codecs; `restart` and `crash_and_restart` load everything anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coordinatord.base.observe.metrics import Metrics
from coordinatord.broker.log.simulated_disk import CrashKind, SimulatedDisk
from coordinatord.broker.topics.names import OFFSETS_TOPIC, TRANSACTION_TOPIC
from coordinatord.broker.topics.partition import Partition
from coordinatord.broker.topics.partition_verification import TransactionCoordinator
from coordinatord.coordination.group.state import GroupSettings
from coordinatord.coordination.runtime.runtime import Runtime
from coordinatord.coordination.runtime.topic_log import TopicLog, partitions_of
from coordinatord.coordination.service.apis.find_coordinator import FindCoordinator
from coordinatord.coordination.service.apis.membership import Membership
from coordinatord.coordination.service.apis.offsets import Offsets
from coordinatord.coordination.service.apis.txn_offset_commit import TransactionalOffsets
from coordinatord.coordination.service.groups import Coordinator
from coordinatord.coordination.transactions.apis.transactions import TransactionApis
from coordinatord.coordination.transactions.coordinator import MarkerWriter, Transactions
from coordinatord.coordination.transactions.markers import PartitionMarkers
from coordinatord.coordination.transactions.state import TransactionSettings
from coordinatord.transport.cluster.nodes import Nodes
from coordinatord.transport.cluster.partitioner import partition_for
from kafka_wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafka_wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafka_wire.api.describe_transactions import DescribeTransactionsRequest
from kafka_wire.api.end_txn import EndTxnRequest, EndTxnResponse
from kafka_wire.api.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafka_wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafka_wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kafka_wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafka_wire.records.batch import TRANSACTIONAL, iterate_batches, records
from tests.broker.topics.world import Context, batch
from tests.broker.topics.world import World as TopicsWorld

TX = "tx"
READ_COMMITTED = 1


class NoTimers:
    """Groups have no members here that could expire."""

    def alarm(self, deadline_ms: int, callback: Callable[[], object]) -> Any:
        raise AssertionError("a transaction's timer")

    def schedule(self, key: Any, deadline_ms: int) -> None:
        pass

    def cancel(self, key: Any) -> None:
        pass


class Alarms(NoTimers):
    """Transactions have."""

    def __init__(self, alarm: Callable[[int, Callable[[], object]], Any]) -> None:
        self.alarm = alarm  # type: ignore[method-assign]


class World(TopicsWorld):
    """See the module's docstring."""

    def __init__(self, disk: SimulatedDisk | None = None, **settings: Any) -> None:
        settings.setdefault("transaction_state_log_num_partitions", 4)
        settings.setdefault("offsets_topic_num_partitions", 4)
        super().__init__(disk, **settings)

    def open(self) -> None:
        super().open()
        settings, topics = self.settings, self.topics
        nodes = self.nodes()
        self.metrics = Metrics()
        runtime = Runtime(self.writer, Alarms(self.schedule_at), lambda: self.time_ms, self.metrics)
        self.coordinator = Coordinator(
            runtime,
            TopicLog(OFFSETS_TOPIC, topics.transactional, self.writer),
            partitions_of(OFFSETS_TOPIC, topics, nodes),
            group_settings=GroupSettings(initial_rebalance_delay_ms=0),
            max_groups=100,
            new_id=lambda: "id",
        )
        topics.on_deleted(self.coordinator.topic_deleted)
        self.markers = PartitionMarkers(topics.transactional, self.coordinator, self.loop.call_soon)
        self.transactions = Transactions(
            runtime,
            TopicLog(TRANSACTION_TOPIC, topics.transactional, self.writer),
            partitions_of(TRANSACTION_TOPIC, topics, nodes),
            settings=TransactionSettings(settings.transaction_max_timeout_ms, settings.transactional_id_expiration_ms),
            max_ids=settings.max_transactional_ids,
            markers=self.marker_writer(nodes),
            new_producer_id=topics.producer_ids.next,
        )
        participants = topics.producing.transactions = topics.participants = self.participants(nodes)
        self.handlers |= {
            **FindCoordinator(nodes, self.coordinator.partitions, self.transactions.partitions).handlers(),
            **Membership(self.coordinator, max_group_id_bytes=100, max_metadata_bytes=1000).handlers(),
            **Offsets(self.coordinator, topics).handlers(),
            **TransactionApis(
                self.transactions, topics, self.markers, self.coordinator.partitions, topics.producer_ids.next
            ).handlers(),
            **TransactionalOffsets(
                self.coordinator, participants, topics, topics.transactional.find,
                verifies=settings.transaction_partition_verification_enable,
            ).handlers(),
        }  # fmt: skip
        self.load_groups()
        self.load_transactions()

    def marker_writer(self, nodes: Nodes) -> MarkerWriter:
        return self.markers

    def participants(self, nodes: Nodes) -> TransactionCoordinator:
        return self.transactions

    def load_groups(self) -> None:
        self._load(self.coordinator)
        self.topics.follow_deletions()

    def load_transactions(self) -> None:
        self._load(self.transactions)

    @staticmethod
    def _load(coordinator: Coordinator | Transactions) -> None:
        for index in coordinator.partitions.to_load():
            for _count in coordinator.load(index, coordinator.log.read(index)):
                pass

    def stop(self) -> None:
        self.transactions.drain()
        self.coordinator.drain()
        super().stop()

    def restart(self) -> None:
        """A clean stop and a start."""
        self.stop()
        self.open()

    def crash_and_restart(self, kind: CrashKind = "kill") -> None:
        self.crash(kind)
        self.open()

    def partition(self, name: str = "orders", index: int = 0) -> Partition:
        found = self.topics.catalogue.partition(name, index)
        assert found is not None
        return found

    # Producers

    def find(self) -> None:
        """What a producer asks first: it makes the topic."""
        assert self.call(10, 3, FindCoordinatorRequest(TX, 1)).error_code == 0

    def init(
        self, version: int = 5, *, timeout_ms: int = 60_000, producer_id: int = -1, epoch: int = -1, id_: str = TX
    ) -> InitProducerIdResponse:
        response: InitProducerIdResponse = self.call(
            22, version, InitProducerIdRequest(id_, timeout_ms, producer_id, epoch)
        )
        return response

    def producer(self, version: int = 5, **fields: Any) -> tuple[int, int]:
        """A new producer's id and epoch."""
        self.find()
        response = self.init(version, **fields)
        assert response.error_code == 0
        return response.producer_id, response.producer_epoch

    def add(
        self, producer: tuple[int, int], *partitions: tuple[str, int], version: int = 3, id_: str = TX
    ) -> list[int]:
        """The error codes of AddPartitionsToTxn; for partition 0 of orders if nothing is said."""
        topics = [AddPartitionsToTxnTopic(name, [index]) for name, index in partitions or (("orders", 0),)]
        request = AddPartitionsToTxnRequest([], id_, *producer, topics)
        response = self.call(24, version, request)
        return [
            each.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        ]

    def write(
        self,
        producer: tuple[int, int],
        *values: bytes,
        sequence: int = 0,
        partition: tuple[str, int] = ("orders", 0),
        version: int = 9,
        id_: str | None = TX,
        attributes: int = TRANSACTIONAL,
    ) -> int:
        """The error code of one transactional batch."""
        context = self.send_write(
            producer, *values, sequence=sequence, partition=partition, version=version, id_=id_, attributes=attributes
        )
        self.settle()
        assert context.answers == 1
        error: int = context.response.responses[0].partition_responses[0].error_code
        return error

    def send_write(
        self,
        producer: tuple[int, int],
        *values: bytes,
        sequence: int = 0,
        partition: tuple[str, int] = ("orders", 0),
        version: int = 9,
        id_: str | None = TX,
        attributes: int = TRANSACTIONAL,
    ) -> Context:
        name, index = partition
        data = batch(
            *values,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=sequence,
            attributes=attributes,
            timestamp_ms=self.time_ms,
        )
        topic_id = self.topics.topic_id(name) or bytes(16)
        return self.send(
            0,
            version,
            ProduceRequest(id_, -1, 1000, [TopicProduceData(name, topic_id, [PartitionProduceData(index, data)])]),
        )

    def add_offsets(self, producer: tuple[int, int], group: str = "g", version: int = 3) -> int:
        error: int = self.call(25, version, AddOffsetsToTxnRequest(TX, *producer, group)).error_code
        return error

    def commit_offset(
        self, producer: tuple[int, int], offset: int, *, group: str = "g", version: int = 3, topic: str = "orders",
        generation_id: int = -1, member_id: str = "", id_: str = TX,
    ) -> int:  # fmt: skip
        """The error code of a TxnOffsetCommit for partition 0."""
        request = TxnOffsetCommitRequest(id_, group, *producer, generation_id, member_id)
        request.topics = [TxnOffsetCommitRequestTopic(topic, partitions=[TxnOffsetCommitRequestPartition(0, offset)])]
        error: int = self.call(28, version, request).topics[0].partitions[0].error_code
        return error

    def commit_plainly(self, offset: int, group: str = "g") -> int:
        request = OffsetCommitRequest(group, -1)
        request.topics = [OffsetCommitRequestTopic("orders", partitions=[OffsetCommitRequestPartition(0, offset)])]
        error: int = self.call(8, 9, request).topics[0].partitions[0].error_code
        return error

    def committed(self, group: str = "g", *, stable: bool = True) -> tuple[int, int]:
        """(error, offset) of partition 0 of orders."""
        asked = OffsetFetchRequestGroup(group, topics=[OffsetFetchRequestTopics("orders", partition_indexes=[0])])
        response = self.call(9, 9, OffsetFetchRequest(groups=[asked], require_stable=stable))
        found = response.groups[0].topics[0].partitions[0]
        return found.error_code, found.committed_offset

    def end(self, producer: tuple[int, int], *, commit: bool = True, version: int = 3, id_: str = TX) -> EndTxnResponse:
        response: EndTxnResponse = self.call(26, version, EndTxnRequest(id_, *producer, commit))
        return response

    def state(self, id_: str = TX) -> str:
        (described,) = self.call(65, 0, DescribeTransactionsRequest([id_])).transaction_states
        shown: str = described.transaction_state
        return shown

    # Consumers

    def fetch(
        self, name: str = "orders", index: int = 0, offset: int = 0, isolation: int = READ_COMMITTED
    ) -> PartitionData:
        asked = FetchPartition(index, fetch_offset=offset, partition_max_bytes=1 << 20)
        topics = [FetchTopic(name, partitions=[asked])]
        request = FetchRequest(max_wait_ms=0, min_bytes=1, isolation_level=isolation, topics=topics)
        found: PartitionData = self.call(1, 12, request).responses[0].partitions[0]
        return found

    def read(self, name: str = "orders", index: int = 0) -> list[bytes]:
        """The values that a read_committed consumer gets, found as consumers do: a partition from its start on."""
        return self.read_from(0, name, index)

    def read_from(self, offset: int, name: str = "orders", index: int = 0) -> list[bytes]:
        """The same from an offset on."""
        values: list[bytes] = []
        while data := self.fetch(name, index, offset):
            assert data.error_code == 0
            if not data.records:
                return values
            aborted = sorted(data.aborted_transactions or [], key=lambda each: each.first_offset)
            dropped: set[int] = set()
            for at, header in iterate_batches(data.records):
                while aborted and aborted[0].first_offset <= header.last_offset:
                    dropped.add(aborted.pop(0).producer_id)
                if header.is_control:
                    dropped.discard(header.producer_id)
                elif not (header.is_transactional and header.producer_id in dropped):
                    found = records(data.records, at)
                    values += [each.value or b"" for each in found if each.offset >= offset]
            offset = header.next_offset
        return values

    def latest(self, name: str = "orders", isolation: int = READ_COMMITTED) -> int:
        request = ListOffsetsRequest(-1, isolation, [ListOffsetsTopic(name, [ListOffsetsPartition(0, -1, -1)])])
        offset: int = self.call(2, 7, request).topics[0].partitions[0].offset
        return offset


def group_partition(world: World, group: str = "g") -> int:
    return partition_for(group, len(world.coordinator.partitions))
