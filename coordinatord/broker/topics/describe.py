"""Metadata v0-v13, DescribeCluster v0-v2, DescribeTopicPartitions v0, DescribeProducers v0.

Every partition has one replica, on the node that leads it. A topic that a Metadata request auto-creates is in the same
response; Kafka responds with UNKNOWN_TOPIC_OR_PARTITION first and creates the topic in the background.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any

from coordinatord.base.budget import SLICE_COSTLY_ITEMS, SLICE_ITEMS
from coordinatord.base.config import Settings
from coordinatord.broker.topics.catalogue import Catalogue, Topic
from coordinatord.broker.topics.names import INTERNAL, RESERVED, UNLISTED, why_invalid
from coordinatord.broker.topics.partition import Partition
from coordinatord.transport.cluster.nodes import Nodes
from coordinatord.transport.net.cooperative_tasks import CooperativeTask, TaskSteps, made_of, run_through
from kafka_wire.api.describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse
from kafka_wire.api.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from kafka_wire.api.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from kafka_wire.api.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode
from kafka_wire.schema import ZERO_UUID

if TYPE_CHECKING:
    from coordinatord.transport.net.request import RequestContext

BROKERS = 1
"""Value of `endpoint_type` in DescribeCluster; 2 is controllers."""

# Bit sets of Kafka's AclOperation, with all that apply to the resource: without ACLs every client may do everything.
# read 3, write 4, create 5, delete 6, alter 7, describe 8, cluster action 9, describe configs 10, alter configs 11,
# idempotent write 12
TOPIC_OPERATIONS = sum(1 << code for code in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER_OPERATIONS = sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))

MAX_PARTITIONS_DESCRIBED = 2_000
"""Largest number of partitions in a response of DescribeTopicPartitions (Kafka's max.request.partition.size.limit)."""


class Describing:
    """Handlers that describe topics. `create` creates topics with default settings, and skips invalid names."""

    def __init__(
        self,
        settings: Settings,
        catalogue: Catalogue,
        nodes: Nodes,
        cluster_id: str,
        create: Callable[[RequestContext, Sequence[str]], TaskSteps],
    ) -> None:
        self.catalogue = catalogue
        self.nodes = nodes
        self.cluster_id = cluster_id
        self._create = create
        self._may_create = settings.auto_create_topics_enable

    def handlers(self) -> dict[int, Any]:
        """Return the handlers by API key."""
        return {
            ApiKey.METADATA: self.metadata,
            ApiKey.DESCRIBE_CLUSTER: self.describe_cluster,
            ApiKey.DESCRIBE_PRODUCERS: self.describe_producers,
            ApiKey.DESCRIBE_TOPIC_PARTITIONS: self.describe_topic_partitions,
        }

    # Metadata

    def metadata(self, context: RequestContext, request: MetadataRequest) -> MetadataResponse | CooperativeTask:
        """Handle Metadata. An empty list requests all topics in v0, null in later versions. v12+ may request topics by
        id. "All topics" excludes topics that Kafka does not have (`UNLISTED`).
        """
        self.catalogue.refresh()
        asked = request.topics
        is_all = asked is None or (not asked and context.api_version == 0)
        many = self.catalogue.partition_count if asked is None or is_all else len(asked)
        may_create = bool(asked) and request.allow_auto_topic_creation and self._may_create
        creates = may_create and (many > SLICE_ITEMS or any(self._is_missing(each.name) for each in asked or ()))
        steps = self._metadata(context, request, may_create=may_create)
        if creates or many > SLICE_ITEMS:
            return CooperativeTask(steps, is_change=creates)
        response: MetadataResponse = run_through(steps)
        return response

    def _is_missing(self, name: str | None) -> bool:
        """Return whether a topic does not exist and may be created."""
        return name is not None and name not in self.catalogue.by_name and name not in RESERVED

    def _metadata(self, context: RequestContext, request: MetadataRequest, *, may_create: bool) -> TaskSteps:
        asked = request.topics
        if asked:
            identified = yield from by_one_identity(asked, context.api_version)
            if isinstance(identified, ErrorCode):
                refused = yield from made_of(
                    asked, lambda each: MetadataResponseTopic(identified, each.name or "", each.topic_id)
                )
                return MetadataResponse(topics=refused, error_code=identified)
            asked = identified
            missing = yield from made_of(
                asked if may_create else (), lambda each: each.name if self._is_missing(each.name) else None
            )
            if any(missing):
                yield from self._create(context, [name for name in missing if name is not None])
        topics: list[MetadataResponseTopic] = []
        if asked is None or (not asked and context.api_version == 0):
            for topic in list(self.catalogue):
                if topic.name not in UNLISTED:
                    topics.append(self._topic(topic))
                    yield None
        else:
            for each in asked:
                topics.append(self._by_id(each.topic_id) if each.name is None else self._by_name(each.name))
                yield None
        if request.include_topic_authorized_operations:
            for found in topics:
                if found.error_code != ErrorCode.UNKNOWN_TOPIC_ID:
                    found.topic_authorized_operations = TOPIC_OPERATIONS
        response = MetadataResponse(
            0,
            [
                MetadataResponseBroker(node.node_id, node.host, node.port, node.rack)
                for node in self.nodes.alive(context.listener)
            ],
            self.cluster_id,
            self.nodes.controller_id,
            topics,
        )
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = CLUSTER_OPERATIONS
        return response

    def _by_id(self, topic_id: bytes) -> MetadataResponseTopic:
        topic = self.catalogue.by_id.get(topic_id)
        if topic is not None:
            return self._topic(topic)
        return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id)

    def _by_name(self, name: str) -> MetadataResponseTopic:
        topic = self.catalogue.by_name.get(name)
        if topic is not None:
            return self._topic(topic)
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if why_invalid(name) is not None:
            error = ErrorCode.INVALID_TOPIC_EXCEPTION
        return MetadataResponseTopic(error, name, ZERO_UUID, name in INTERNAL)

    def _topic(self, topic: Topic) -> MetadataResponseTopic:
        partitions = [
            MetadataResponsePartition(0, index, node_id, partition.log.leader_epoch, [node_id], [node_id], [])
            if node_id >= 0
            else MetadataResponsePartition(ErrorCode.LEADER_NOT_AVAILABLE, index, node_id, -1, [], [], [])
            for index, partition in enumerate(topic.partitions)
            for node_id in (partition.leader_id,)
        ]
        return MetadataResponseTopic(0, topic.name, topic.topic_id, topic.internal, partitions)

    # DescribeCluster

    def describe_producers(
        self, _context: RequestContext, request: DescribeProducersRequest
    ) -> DescribeProducersResponse:
        """Handle DescribeProducers (KIP-664): the producer state of partitions, and the start offsets of open
        transactions.
        """
        topics = []
        for asked in request.topics:
            partitions = []
            reason = why_invalid(asked.name)
            for index in asked.partition_indexes:
                partition = self.catalogue.partition(asked.name, index)
                if reason is not None:
                    answered = PartitionResponse(index, ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
                elif asked.name not in self.catalogue.by_name:
                    message = "This server does not host this topic-partition."
                    answered = PartitionResponse(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
                elif partition is None:
                    answered = PartitionResponse(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                elif not partition.is_here:
                    answered = PartitionResponse(index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
                else:
                    answered = PartitionResponse(index, active_producers=_producers(partition))
                partitions.append(answered)
            topics.append(TopicResponse(asked.name, partitions))
        return DescribeProducersResponse(topics=topics)

    def describe_cluster(self, context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
        """Handle DescribeCluster (KIP-700). A request for controllers gets an error, as from a Kafka broker."""
        if request.endpoint_type != BROKERS:
            controllers = request.endpoint_type == 2
            error = ErrorCode.MISMATCHED_ENDPOINT_TYPE if controllers else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
            message = (
                "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
                if controllers
                else f"Unsupported endpoint type {request.endpoint_type}"
            )
            return DescribeClusterResponse(error_code=error, error_message=message)
        response = DescribeClusterResponse(
            cluster_id=self.cluster_id,
            controller_id=self.nodes.controller_id,
            brokers=[
                DescribeClusterBroker(node.node_id, node.host, node.port, node.rack)
                for node in self.nodes.alive(context.listener)
            ],
        )
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = CLUSTER_OPERATIONS
        return response

    # DescribeTopicPartitions

    def describe_topic_partitions(
        self, context: RequestContext, request: DescribeTopicPartitionsRequest
    ) -> DescribeTopicPartitionsResponse:
        """Handle DescribeTopicPartitions. Paginated, sorted by name: a response that reaches its limit ends with a
        cursor to the next page. Topics that the client may not describe are on no page; requested names among them
        follow the page, with an error.
        """
        self.catalogue.refresh()
        cursor = request.cursor
        first = cursor.topic_name if cursor is not None else ""
        fetch_all = not request.topics
        names = list(self.catalogue.by_name.keys() - UNLISTED) if fetch_all else [each.name for each in request.topics]
        if cursor is not None and (cursor.partition_index < 0 or (not fetch_all and first not in names)):
            return DescribeTopicPartitionsResponse(
                topics=[
                    DescribeTopicPartitionsResponseTopic(ErrorCode.INVALID_REQUEST, each.name)
                    for each in request.topics
                ]
            )
        wanted = sorted({name for name in names if name >= first})
        may = context.may_describe
        denied = [] if may is None or fetch_all else [name for name in wanted if not may(name)]
        left = max(1, min(MAX_PARTITIONS_DESCRIBED, request.response_partition_limit))
        response = DescribeTopicPartitionsResponse()
        for name in wanted:
            if may is not None and not may(name):
                continue
            if left == 0:
                response.next_cursor = Cursor(name, 0)
                break
            topic = self.catalogue.by_name.get(name)
            if topic is None:
                if not fetch_all:
                    response.topics.append(self._undescribed(name))
                continue
            start = cursor.partition_index if cursor is not None and name == first else 0
            stop = min(len(topic.partitions), start + left)
            response.topics.append(self._described(topic, start, stop))
            if stop < len(topic.partitions):
                response.next_cursor = Cursor(name, stop)
                break
            left -= max(0, stop - start)
        for name in denied:
            refused = DescribeTopicPartitionsResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name, ZERO_UUID)
            response.topics.append(refused)
        return response

    def _described(self, topic: Topic, start: int, stop: int) -> DescribeTopicPartitionsResponseTopic:
        return DescribeTopicPartitionsResponseTopic(
            0,
            topic.name,
            topic.topic_id,
            topic.internal,
            [
                DescribeTopicPartitionsResponsePartition(
                    0, index, node_id, topic.partitions[index].log.leader_epoch, [node_id], [node_id], [], [], []
                )
                if node_id >= 0
                else DescribeTopicPartitionsResponsePartition(
                    ErrorCode.LEADER_NOT_AVAILABLE, index, node_id, -1, [], [], [], [], []
                )
                for index in range(start, stop)
                for node_id in (topic.partitions[index].leader_id,)
            ],
            TOPIC_OPERATIONS,
        )

    def _undescribed(self, name: str) -> DescribeTopicPartitionsResponseTopic:
        invalid = why_invalid(name) is not None
        error = ErrorCode.INVALID_TOPIC_EXCEPTION if invalid else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return DescribeTopicPartitionsResponseTopic(
            error, name, ZERO_UUID, name in INTERNAL, topic_authorized_operations=TOPIC_OPERATIONS
        )


def by_one_identity(
    asked: list[MetadataRequestTopic], version: int
) -> Generator[None, Any, list[MetadataRequestTopic] | ErrorCode]:
    """Return the topics of a Metadata request, each once, by the identity that is authorized and returned: if one has
    an id (v12+), only ids are used, and no name creates a topic (KafkaApis.handleTopicMetadataRequest). Returns
    INVALID_REQUEST for ids and null names in versions that have the fields but not their meaning, and for a topic with
    neither. Pauses.
    """
    ids: dict[bytes, None] = {}
    names: dict[str | None, None] = {}
    for number, each in enumerate(asked):
        names[each.name] = None
        if each.topic_id != ZERO_UUID:
            ids[each.topic_id] = None
        if number % SLICE_COSTLY_ITEMS == SLICE_COSTLY_ITEMS - 1:
            yield None
    if (None in names and not ids) or (version < 12 and (None in names or ids)):
        return ErrorCode.INVALID_REQUEST
    if ids:
        return (yield from made_of(ids, lambda topic_id: MetadataRequestTopic(topic_id, None)))
    return (yield from made_of(names, lambda name: MetadataRequestTopic(ZERO_UUID, name)))


def _producers(partition: Partition) -> list[ProducerState]:
    return [
        ProducerState(
            producer.producer_id,
            producer.epoch,
            producer.last_sequence,
            producer.last_timestamp,
            producer.coordinator_epoch,
            producer.current_txn_first_offset,
        )
        for producer in partition.producers
    ]
