"""CreateTopics v2-v7, DeleteTopics v1-v6, CreatePartitions v0-v3.

The checks, their order and their errors are those of Kafka's controller (ReplicationControlManager, ControllerApis)
with one broker in its cluster. All topics of a request are validated first and then changed in one write of the
catalogue; the response is sent once that write is durable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from coordinatord.base.budget import SLICE_COSTLY_ITEMS
from coordinatord.base.config import Settings
from coordinatord.broker.log.errors import LogFailed
from coordinatord.broker.log.writer import LogWriter
from coordinatord.broker.topics.catalogue import Catalogue, New, Topic, internal_configs
from coordinatord.broker.topics.config_table import InvalidConfig
from coordinatord.broker.topics.configs import Configs, text_of
from coordinatord.broker.topics.names import CREATABLE, RESERVED, why_invalid
from coordinatord.transport.cluster.nodes import Nodes
from coordinatord.transport.net.cooperative_tasks import CooperativeTask, TaskSteps, let_go
from kafka_wire.api.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from kafka_wire.api.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafka_wire.api.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode
from kafka_wire.schema import ZERO_UUID

if TYPE_CHECKING:
    from coordinatord.transport.net.request import RequestContext

MAX_PARTITIONS_PER_REQUEST = 10_000
"""Kafka's `MAX_PARTITIONS_PER_BATCH`."""


class Refusal(Exception):
    """Rejection of one topic of a request, with the error and Kafka's message."""

    def __init__(self, error: ErrorCode, message: str | None = None) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


class Administration:
    """Handlers that create, delete and grow topics. `on_deleted` is called with (name, id) of each deleted topic."""

    def __init__(
        self,
        catalogue: Catalogue,
        writer: LogWriter,
        nodes: Nodes,
        on_deleted: Callable[[str, bytes], object],
    ) -> None:
        self.catalogue = catalogue
        self.writer = writer
        self.nodes = nodes
        self.on_deleted = on_deleted

    @property
    def settings(self) -> Settings:
        """The node's settings, with the changes since its start."""
        return self.catalogue.settings

    def handlers(self) -> dict[int, Any]:
        """Return the handlers by API key."""
        return {
            ApiKey.CREATE_TOPICS: self.create_topics,
            ApiKey.DELETE_TOPICS: self.delete_topics,
            ApiKey.CREATE_PARTITIONS: self.create_partitions,
        }

    # CreateTopics

    def create_topics(self, context: RequestContext, request: CreateTopicsRequest) -> CooperativeTask:
        """Handle CreateTopics. A name that occurs twice gets a single result, an error, after all other results."""
        return self._changing(self._create_topics(context, request))

    def _changing(self, steps: TaskSteps) -> CooperativeTask:
        """Return the slices of a change of the catalogue, which runs after the changes requested earlier."""
        return CooperativeTask(self.catalogue.one_at_a_time.steps(steps), is_change=True)

    def _create_topics(self, context: RequestContext, request: CreateTopicsRequest) -> TaskSteps:
        counts = Counter(topic.name for topic in request.topics)
        once = [topic for topic in request.topics if counts[topic.name] == 1]
        if self._requested_partitions(once) > MAX_PARTITIONS_PER_REQUEST:
            message = "Excessively large number of partitions per request."
            refused = [_refused_topic(topic.name, ErrorCode.POLICY_VIOLATION, message) for topic in once]
            return CreateTopicsResponse(topics=refused)
        results, new = [], []
        planned_partitions = 0
        self.catalogue.refresh()
        for topic in once:
            yield None
            try:
                count, configs = self._check_new(topic, planned_partitions)
                _charge(context, count)
            except Refusal as refusal:
                results.append(_refused_topic(topic.name, refusal.error, refusal.message))
                continue
            planned_partitions += count
            topic_id = self.catalogue.new_id()
            new.append((topic.name, topic_id, count, configs))
            results.append(CreatableTopicResult(topic.name, topic_id, 0, None, 0, count, 1, _described(configs)))
        if not request.validate_only:
            failures = yield from self._create(new)
            for result in results:
                if not result.error_code and result.name in failures:
                    result.error_code, result.error_message = failures[result.name]
        for name, count in counts.items():
            if count > 1:
                results.append(_refused_topic(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
        return CreateTopicsResponse(topics=results)

    def _create(self, planned: list[New]) -> TaskSteps:
        """Create topics that have been checked. Return (error, message) of those that could not be created, by name."""
        failures: dict[str, tuple[ErrorCode, str]] = {}
        new = planned
        try:
            with (yield from self.catalogue.changing_in_steps()):
                new = []
                for each in planned:
                    if self.catalogue.has(each[0]):  # created since the check
                        failures[each[0]] = ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{each[0]}' already exists."
                    else:
                        new.append(each)
                if new:
                    yield from self.catalogue.write_new(new)
        except OSError as error:
            failures.update((name, (ErrorCode.KAFKA_STORAGE_ERROR, str(error))) for name, *_ in new)
            new = []
        yield from self.catalogue.add_new(new)
        for name, *_ in new:
            if name in self.catalogue.by_name:
                self.catalogue.on_added(self.catalogue.by_name[name])
        return failures

    def create_now(self, name: str, own: Mapping[str, str]) -> Topic:
        """Create a topic with these settings durably, without slices: for the broker's own use. Raises Refusal, or
        OSError.
        """
        with self.catalogue.changing():
            configs = [CreatableTopicConfig(key, value) for key, value in own.items()]
            count, checked = self._check_new(CreatableTopic(name, -1, -1, configs=configs), 0)
            return self.catalogue.create([(name, self.catalogue.new_id(), count, checked)])[0]

    def create_with_defaults(self, context: RequestContext, names: Sequence[str]) -> TaskSteps:
        """Create topics that a client requested by name (auto.create.topics.enable). Skips invalid names, and topics
        that the client's quota does not admit.
        """
        yield from self.catalogue.one_at_a_time.steps(self._create_with_defaults(context, names))

    def _create_with_defaults(self, context: RequestContext, names: Sequence[str]) -> TaskSteps:
        new: list[New] = []
        planned_partitions = 0
        for name in names:
            yield None
            if name in RESERVED:  # their coordinators create them, with other defaults
                continue
            try:
                count, configs = self._check_new(CreatableTopic(name, -1, -1), planned_partitions)
                _charge(context, count)
            except Refusal:
                continue
            planned_partitions += count
            new.append((name, self.catalogue.new_id(), count, configs))
        yield from self._create(new)  # after a failure, the client repeats its request

    def _requested_partitions(self, topics: Iterable[CreatableTopic]) -> int:
        total = 0
        for topic in topics:
            if topic.assignments:
                total += len(topic.assignments)
            else:
                total += self.settings.num_partitions if topic.num_partitions == -1 else max(0, topic.num_partitions)
        return total

    def _check_new(self, topic: CreatableTopic, planned_partitions: int) -> tuple[int, Configs]:
        """Return the number of partitions and the settings of a topic that can be created. Raises Refusal for any
        other.
        """
        name = topic.name
        if name in RESERVED - CREATABLE and name not in self.catalogue.by_name:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
        reason = why_invalid(name)
        if reason is not None:
            raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
        if self.catalogue.has(name):
            raise Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        other = self.catalogue.collides_with(name)
        if other is not None:
            raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")
        nulls = [config.name for config in topic.configs if config.value is None]
        if nulls:
            raise Refusal(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(nulls)}")
        try:
            asked = {config.name: config.value or "" for config in topic.configs}
            configs = Configs(self.settings, {**internal_configs(self.settings, name), **asked})
        except InvalidConfig as error:
            raise Refusal(ErrorCode.INVALID_CONFIG, str(error)) from None
        count = self._partition_count(topic)
        if not self.catalogue.has_room_for(planned_partitions + count):
            raise Refusal(
                ErrorCode.POLICY_VIOLATION,
                f"{count} more partitions would be more than max.partitions ({self.settings.max_partitions}) allows.",
            )
        return count, configs

    def _partition_count(self, topic: CreatableTopic) -> int:
        if topic.assignments:
            if topic.replication_factor != -1:
                raise Refusal(
                    ErrorCode.INVALID_REQUEST,
                    "A manual partition assignment was specified, but replication factor was not set to -1.",
                )
            if topic.num_partitions != -1:
                raise Refusal(
                    ErrorCode.INVALID_REQUEST,
                    "A manual partition assignment was specified, but numPartitions was not set to -1.",
                )
            indexes: set[int] = set()
            for assignment in topic.assignments:
                if assignment.partition_index in indexes:
                    raise Refusal(
                        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                        f"Found multiple manual partition assignments for partition {assignment.partition_index}",
                    )
                self._check_assignment(topic.name, assignment.partition_index, assignment.broker_ids)
                indexes.add(assignment.partition_index)
            if indexes != set(range(len(indexes))):
                raise Refusal(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
                )
            return len(indexes)
        if topic.replication_factor < -1 or topic.replication_factor == 0:
            raise Refusal(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        if topic.num_partitions < -1 or topic.num_partitions == 0:
            raise Refusal(
                ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
            )
        if topic.replication_factor > 1:
            raise Refusal(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"Unable to replicate the partition {topic.replication_factor} time(s): The target replication factor "
                f"of {topic.replication_factor} cannot be reached because only 1 broker(s) are registered or some "
                "brokers have all their log directories cordoned.",
            )
        return self.settings.num_partitions if topic.num_partitions == -1 else topic.num_partitions

    def _check_assignment(self, topic: str, partition: int, broker_ids: list[int]) -> None:
        """Check a manual assignment, which may only contain the one node that leads the partition anyway."""
        if not broker_ids:
            raise Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, "The manual partition assignment includes an empty replica list."
            )
        previous = None
        for broker_id in sorted(broker_ids):
            if not self.nodes.leads(broker_id):
                raise Refusal(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"The manual partition assignment includes broker {broker_id}, but no such broker is registered.",
                )
            if broker_id == previous:
                raise Refusal(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"The manual partition assignment includes the broker {broker_id} more than once.",
                )
            previous = broker_id
        leader_id = self.nodes.leader_of(topic, partition)
        if broker_ids != [leader_id]:
            raise Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Partitions are spread over workers by their numbers: partition {partition} of topic '{topic}' can be "
                f"on broker {leader_id} only.",
            )

    # DeleteTopics

    def delete_topics(self, context: RequestContext, request: DeleteTopicsRequest) -> CooperativeTask:
        """Handle DeleteTopics, by name, since v6 also by id. A topic that is listed twice, by name or id, is not
        deleted.
        """
        return self._changing(self._delete_topics(context, request))

    def _delete_topics(self, context: RequestContext, request: DeleteTopicsRequest) -> TaskSteps:
        version = context.api_version
        self.catalogue.refresh()
        asked = request.topics if version >= 6 else [DeleteTopicState(name) for name in request.topic_names]
        if not self.settings.delete_topic_enable:
            old = version < 3
            error = ErrorCode.INVALID_REQUEST if old else ErrorCode.TOPIC_DELETION_DISABLED
            return DeleteTopicsResponse(0, [DeletableTopicResult(each.name, each.topic_id, error) for each in asked])
        results: list[DeletableTopicResult] = []
        counts = Counter((each.name, each.topic_id) for each in asked)
        twice = {topic_id for (name, topic_id), count in counts.items() if name is None and count > 1}
        found: dict[Topic, DeleteTopicState] = {}
        doubled: set[Topic] = set()
        for each in asked:
            yield None
            count = counts.pop((each.name, each.topic_id), 0)
            if not count:
                continue
            try:
                topic = self._to_delete(each, count)
            except Refusal as refusal:
                results.append(DeletableTopicResult(each.name, each.topic_id, refusal.error, refusal.message))
                continue
            if topic in found or topic.topic_id in twice:
                doubled.add(topic)
                message = "The provided topic name maps to an ID that was already supplied."
                results.append(DeletableTopicResult(topic.name, topic.topic_id, ErrorCode.INVALID_REQUEST, message))
            found[topic] = each
        going = []
        for topic in found:
            if topic in doubled:
                continue
            try:
                _charge(context, len(topic.partitions))
            except Refusal as refusal:
                results.append(DeletableTopicResult(topic.name, topic.topic_id, refusal.error, refusal.message))
            else:
                going.append(topic)
        error_code, failure = yield from self._delete(going)
        for topic in going:
            results.append(DeletableTopicResult(topic.name, topic.topic_id, error_code, failure))
        return DeleteTopicsResponse(0, results)

    def _to_delete(self, asked: DeleteTopicState, count: int) -> Topic:
        name, topic_id = asked.name, asked.topic_id
        if name is None and topic_id == ZERO_UUID:
            raise Refusal(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
        if name is not None and topic_id != ZERO_UUID:
            raise Refusal(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
        if count > 1:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"Duplicate topic {'name' if name is not None else 'id'}.")
        if name is not None:
            topic, unknown = self.catalogue.by_name.get(name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            message = "This server does not host this topic-partition."
        else:
            topic, unknown = self.catalogue.by_id.get(topic_id), ErrorCode.UNKNOWN_TOPIC_ID
            message = "This server does not host this topic ID."
        if topic is None:
            raise Refusal(unknown, message)
        if topic.name in RESERVED:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"Deletion of internal topic {topic.name} is prohibited.")
        return topic

    def _delete(self, topics: list[Topic]) -> TaskSteps:
        """Delete topics in slices. Return (error, message)."""
        catalogue = self.catalogue
        if topics:
            try:
                with (yield from catalogue.changing_in_steps()):
                    logs = yield from catalogue.delete(
                        topic for topic in topics if catalogue.by_name.get(topic.name) is topic
                    )
                for first in range(0, len(logs), SLICE_COSTLY_ITEMS):
                    self.writer.delete(logs[first : first + SLICE_COSTLY_ITEMS])
                    yield None
            except (OSError, LogFailed) as error:
                return ErrorCode.KAFKA_STORAGE_ERROR, str(error)
            catalogue.deleted()
        for topic in topics:
            for partition in topic.partitions:
                partition.wake()
            self.on_deleted(topic.name, topic.topic_id)
            yield None
        return 0, None

    # CreatePartitions

    def create_partitions(self, context: RequestContext, request: CreatePartitionsRequest) -> CooperativeTask:
        """Handle CreatePartitions, where `count` is the new total."""
        return self._changing(self._create_partitions(context, request))

    def _create_partitions(self, context: RequestContext, request: CreatePartitionsRequest) -> TaskSteps:
        self.catalogue.refresh()
        counts = Counter(topic.name for topic in request.topics)
        results = [
            CreatePartitionsTopicResult(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            for name, count in counts.items()
            if count > 1
        ]
        grown: list[tuple[Topic, int]] = []
        planned = 0
        for asked in request.topics:
            yield None
            if counts[asked.name] > 1:
                continue
            try:
                topic = self._to_grow(asked, planned)
                _charge(context, asked.count - len(topic.partitions))
            except Refusal as refusal:
                results.append(CreatePartitionsTopicResult(asked.name, refusal.error, refusal.message))
                continue
            planned += asked.count - len(topic.partitions)
            grown.append((topic, asked.count))
        error_code, message = 0, None
        if grown and not request.validate_only:
            try:
                with (yield from self.catalogue.changing_in_steps()):
                    yield from self.catalogue.grow(
                        (topic, count) for topic, count in grown if self._can_grow(topic, count)
                    )
            except OSError as error:
                error_code, message = ErrorCode.KAFKA_STORAGE_ERROR, str(error)
        for topic, _ in grown:
            results.append(CreatePartitionsTopicResult(topic.name, error_code, message))
        for asked in request.topics:
            yield from let_go(asked.assignments or [])
        return CreatePartitionsResponse(0, results)

    def _can_grow(self, topic: Topic, count: int) -> bool:
        """Return whether the topic still exists and has fewer partitions."""
        return self.catalogue.by_name.get(topic.name) is topic and len(topic.partitions) < count

    def _to_grow(self, asked: CreatePartitionsTopic, planned_partitions: int) -> Topic:
        topic = self.catalogue.by_name.get(asked.name)
        if topic is None:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if topic.name in RESERVED:
            # A group's partition is its id's hash modulo the number of partitions.
            raise Refusal(ErrorCode.INVALID_REQUEST, f"Partitions of internal topic {topic.name} cannot be added.")
        have = len(topic.partitions)
        if asked.count == have:
            raise Refusal(ErrorCode.INVALID_PARTITIONS, f"Topic already has {have} partition(s).")
        if asked.count < have:
            raise Refusal(
                ErrorCode.INVALID_PARTITIONS,
                f"The topic {asked.name} currently has {have} partition(s); {asked.count} would not be an increase.",
            )
        more = asked.count - have
        if asked.assignments is not None:
            if len(asked.assignments) != more:
                raise Refusal(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"Attempted to add {more} additional partition(s), but only {len(asked.assignments)} assignment(s) "
                    "were specified.",
                )
            for index, assignment in enumerate(asked.assignments, have):
                self._check_assignment(asked.name, index, assignment.broker_ids)
        if more > MAX_PARTITIONS_PER_REQUEST or not self.catalogue.has_room_for(planned_partitions + more):
            raise Refusal(
                ErrorCode.POLICY_VIOLATION,
                f"{more} more partitions would be more than max.partitions ({self.settings.max_partitions}) allows.",
            )
        return topic


def _charge(context: RequestContext, partitions: int) -> None:
    """Raise Refusal if the client's quota does not admit the change."""
    if not context.may_change(partitions):
        raise Refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED)


def _described(configs: Configs) -> list[CreatableTopicConfigs]:
    """Return the settings of a new topic as in v5+ responses; the topic's own settings have their original text."""
    return [
        CreatableTopicConfigs(
            row.name, configs.own.get(row.name) or text_of(configs.value(row.name)), False, configs.source(row), False
        )
        for row in configs.rows
    ]


def _refused_topic(name: str, error: ErrorCode, message: str | None) -> CreatableTopicResult:
    return CreatableTopicResult(name, ZERO_UUID, error, message, configs=[])
