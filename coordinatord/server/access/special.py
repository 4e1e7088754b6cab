"""Rules of single APIs. table.py assigns them; each names the method of Kafka whose checks it repeats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from coordinatord.broker.topics.describe import by_one_identity
from coordinatord.coordination.runtime.versions import fetch_error, fetch_groups, fetch_response
from coordinatord.server.access.rules import ERRORS, Client, Handler, May, Parts, amend, in_slices
from coordinatord.transport.net.cooperative_tasks import TaskSteps, any_of, made_of
from coordinatord.transport.net.request import RequestContext
from coordinatord.transport.security.authorizer import Operation, ResourceType
from kafka_wire.api.consumer_group_describe import DescribedGroup
from kafka_wire.errors import ErrorCode
from kafka_wire.registry import error_response
from kafka_wire.schema import ZERO_UUID

T = TypeVar("T")

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTION = ResourceType.TRANSACTIONAL_ID
READ, WRITE, CREATE, DELETE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE
DESCRIBE = Operation.DESCRIBE

NO_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED

TRANSACTIONAL = 0x10
_ATTRIBUTES_AT = 22
"""Position of the low byte of a batch's attributes, which has the transactional bit."""


# Topics


def producing(client: Client, context: RequestContext, request: Any, handler: Handler) -> Any:
    """Check Produce as KafkaApis.handleProduceRequest does: a transaction's records need the transactional id, each
    topic needs WRITE. The handler may decode the request again later, so it calls `may_write` for each topic itself.
    """
    if _has_transactional(request):
        name = request.transactional_id
        if name is None or not client.may(WRITE, TRANSACTION, name):
            return error_response(request, context.api_version, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    checked_within(context, lambda name, topic_id: client.may_topic(WRITE, name, topic_id))
    return handler(context, request)


def checked_within(context: RequestContext, may: Callable[[str | None, bytes], bool]) -> None:
    assert context.admitted is not None, "the guard has made it"
    context.admitted.may = may


def _has_transactional(request: Any) -> bool:
    return any(
        len(records) > _ATTRIBUTES_AT and records[_ATTRIBUTES_AT] & TRANSACTIONAL
        for topic in request.topic_data
        for data in topic.partition_data
        if (records := data.records)
    )


def fetching(client: Client, context: RequestContext, request: Any, handler: Handler) -> Any:
    """Check Fetch as KafkaApis.handleFetchRequest does: a replica needs CLUSTER_ACTION, a consumer READ for each topic
    of its session.
    """
    replica_id = request.replica_state.replica_id if context.api_version >= 15 else request.replica_id
    if replica_id >= 0:
        is_allowed = client.may_cluster(Operation.CLUSTER_ACTION)
        checked_within(context, lambda name, topic_id: is_allowed)
    else:
        checked_within(context, lambda name, topic_id: client.may_topic(READ, name, topic_id))
    return handler(context, request)


def metadata(client: Client, context: RequestContext, request: Any, handler: Handler) -> Any:
    """Check Metadata as KafkaApis.handleTopicMetadataRequest does: unknown topics are created for clients that may
    create them; a request for all topics gets the topics that the client may describe.
    """
    return in_slices(_metadata(client, context, request, handler), len(request.topics or ()))


def _metadata(client: Client, context: RequestContext, request: Any, handler: Handler) -> TaskSteps:
    asked = request.topics
    if asked is None or (not asked and context.api_version == 0):
        amend(context, lambda response: _only_described(client, response))
    elif asked:
        identified = yield from by_one_identity(asked, context.api_version)
        if isinstance(identified, ErrorCode):
            return handler(context, request)  # which rejects it
        asked = request.topics = identified
    if request.include_cluster_authorized_operations or request.include_topic_authorized_operations:
        amend(context, lambda response: _operations(client, request, response))
    if not asked:
        return handler(context, request)

    def may(client: Client, topic: Any) -> ErrorCode | None:
        if not client.may_topic(DESCRIBE, topic.name, topic.topic_id):
            return NO_TOPIC
        is_new = topic.topic_id == ZERO_UUID and topic.name and client.topics.topic_id(topic.name) is None
        if not (is_new and request.allow_auto_topic_creation and client.creates_topics):
            return None
        return None if client.may_cluster(CREATE) or client.may(CREATE, TOPIC, topic.name) else NO_TOPIC

    if not (yield from any_of(asked, lambda topic: may(client, topic) is None)):
        request.allow_auto_topic_creation = False  # the brokers are in the response nevertheless
        denied = yield from made_of(asked, lambda topic: _denied(request, context.api_version, topic))
        request.topics = []
        amend(context, lambda response: _with_topics(response, denied))
        return handler(context, request)
    return (yield from Parts(may, "topics", "topics", ("name", "topic_id")).steps(client, context, request, handler))


def _denied(request: Any, version: int, topic: Any) -> Any:
    request.topics = [topic]
    return error_response(request, version, NO_TOPIC).topics[0]


def _with_topics(response: Any, topics: list[Any]) -> Any:
    response.topics = topics
    return response


def _only_described(client: Client, response: Any) -> Any:
    response.topics = [topic for topic in response.topics if client.may(DESCRIBE, TOPIC, topic.name or "")]
    return response


def _operations(client: Client, request: Any, response: Any) -> Any:
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = _of_cluster(client)
    if request.include_topic_authorized_operations:
        for topic in response.topics:
            if topic.error_code not in (NO_TOPIC, ErrorCode.UNKNOWN_TOPIC_ID):
                topic.topic_authorized_operations = client.operations(TOPIC, topic.name or "")
    return response


def _of_cluster(client: Client) -> int:
    from coordinatord.transport.security.authorizer import CLUSTER_NAME

    return client.operations(CLUSTER, CLUSTER_NAME) if client.may_cluster(DESCRIBE) else 0


def cluster_operations(client: Client, request: Any, response: Any) -> None:
    """Set the operations on the cluster that the client may use (AuthHelper.computeDescribeClusterResponse)."""
    if request.include_cluster_authorized_operations and not response.error_code:
        response.cluster_authorized_operations = _of_cluster(client)


def topic_partitions(client: Client, context: RequestContext, request: Any, handler: Handler) -> Any:
    """Check DescribeTopicPartitions as DescribeTopicPartitionsRequestHandler does: pages and their cursors consist of
    topics that the client may describe, so the handler checks each topic.
    """

    def operations(response: Any) -> Any:
        for topic in response.topics:
            if topic.error_code not in (NO_TOPIC, ErrorCode.INVALID_REQUEST):
                topic.topic_authorized_operations = client.operations(TOPIC, topic.name or "")
        return response

    amend(context, operations)
    return matched_topics(client, context, request, handler)


def _repeated(names: Iterable[T]) -> set[T]:
    """Return the names that occur several times in a request that must not repeat them: the handler rejects each once,
    before Kafka's controller checks permissions.
    """
    return {name for name, count in Counter(names).items() if count > 1}


def create_topics(client: Client, context: RequestContext, request: Any, handler: Handler) -> Any:
    """Check CreateTopics as ControllerApis.createTopics does: a client that may not describe a new topic's settings
    does not get them.
    """
    repeated = _repeated(topic.name for topic in request.topics)

    def may(client: Client, topic: Any) -> ErrorCode | None:
        is_allowed = client.may_cluster(CREATE) or client.may(CREATE, TOPIC, topic.name)
        return None if is_allowed or topic.name in repeated else NO_TOPIC

    def settings(response: Any) -> Any:
        for topic in response.topics:
            if not topic.error_code and not client.may(Operation.DESCRIBE_CONFIGS, TOPIC, topic.name):
                topic.topic_config_error_code = NO_TOPIC
                topic.configs = []
                topic.num_partitions = topic.replication_factor = -1
        return response

    amend(context, settings)
    return Parts(may, "topics", "topics", ("name",))(client, context, request, handler)


def create_partitions(client: Client, context: RequestContext, request: Any, handler: Handler) -> Any:
    """Check CreatePartitions as ControllerApis.createPartitions does: each topic needs ALTER, unless the request
    repeats it.
    """
    repeated = _repeated(topic.name for topic in request.topics)

    def may(client: Client, topic: Any) -> ErrorCode | None:
        return None if topic.name in repeated or client.may(Operation.ALTER, TOPIC, topic.name) else NO_TOPIC

    return Parts(may, "topics", "results")(client, context, request, handler)


def delete_topics(client: Client, context: RequestContext, request: Any, handler: Handler) -> Any:
    """Check DeleteTopics as ControllerApis.deleteTopics does: the response names a topic that was given by id only to a
    client that may describe it.
    """
    if client.may_cluster(DELETE):
        return handler(context, request)

    def identity(topic: Any) -> tuple[str | None, bytes]:
        return (topic, ZERO_UUID) if isinstance(topic, str) else (topic.name, topic.topic_id)

    asked = "topics" if context.api_version >= 6 else "topic_names"
    repeated = _repeated(map(identity, getattr(request, asked)))

    def may(client: Client, topic: Any) -> ErrorCode | None:
        name, topic_id = identity(topic)
        if (name, topic_id) in repeated or (name is not None and topic_id != ZERO_UUID):
            return None  # the handler rejects it, whatever it is
        if name is None:
            return None if client.may_topic(DELETE, None, topic_id) else NO_TOPIC
        if not client.may(DESCRIBE, TOPIC, name):
            return NO_TOPIC
        exists = client.topics.topic_id(name) is not None
        return NO_TOPIC if exists and not client.may(DELETE, TOPIC, name) else None

    def names(response: Any) -> Any:
        for result in response.responses:
            if result.error_code == NO_TOPIC and result.name is None:
                name = client.topics.topic_name(result.topic_id)
                if name is not None and client.may(DESCRIBE, TOPIC, name):
                    result.name = name
        return response

    amend(context, names)
    return Parts(may, asked, "responses", ("name", "topic_id"))(client, context, request, handler)


# Groups


def offset_fetch(client: Client, context: RequestContext, request: Any, handler: Handler) -> Any:
    """Check OffsetFetch as KafkaApis.handleOffsetFetchRequest does: each group needs DESCRIBE, and each topic. The
    response for all topics of a group omits topics that the client may not describe. A request may name a group several
    times, so the responses for groups are distinguished by their position.
    """
    version = context.api_version
    refused = [
        None
        if client.may(DESCRIBE, GROUP, group.group_id)
        else fetch_error(group, ErrorCode.GROUP_AUTHORIZATION_FAILED, version)
        for group in fetch_groups(request, version)
    ]
    denied = [each for each in refused if each is not None]
    if denied and len(denied) == len(refused):
        return fetch_response(denied, version)
    asked = [request]
    if version >= 8:
        asked = [group for group, error in zip(request.groups, refused, strict=True) if error is None]
        request.groups = asked
    changes = [_without_topics(client, each) for each in asked]

    def completed(response: Any) -> Any:
        for answer, change in zip(response.groups if version >= 8 else [response], changes, strict=True):
            if change is not None:
                change(answer)
        if denied:
            answers = iter(response.groups)
            response.groups = [next(answers) if error is None else error for error in refused]
        return response

    if denied or any(changes):
        amend(context, completed)
    return handler(context, request)


def _without_topics(client: Client, asked: Any) -> Callable[[Any], None] | None:
    """Remove topics that the client may not describe from the request for a group. Return the change of the group's
    response: it adds the errors of those topics, or removes them from a response with all topics; None for no change.
    """
    from kafka_wire.api import offset_fetch as api

    def may(topic: Any) -> bool:
        return client.may_topic(DESCRIBE, topic.name, getattr(topic, "topic_id", b""))

    if asked.topics is None:

        def filtered(answer: Any) -> None:
            answer.topics = [topic for topic in answer.topics if may(topic)]

        return filtered
    allowed: list[Any] = []
    denied: list[Any] = []
    for topic in asked.topics:
        (allowed if may(topic) else denied).append(topic)
    if not denied:
        return None
    is_new = isinstance(asked, api.OffsetFetchRequestGroup)
    topic_class: Any = api.OffsetFetchResponseTopics if is_new else api.OffsetFetchResponseTopic
    partition_class: Any = api.OffsetFetchResponsePartitions if is_new else api.OffsetFetchResponsePartition
    added: list[Any] = []
    for topic in denied:
        made = topic_class(topic.name)
        if is_new:
            made.topic_id = topic.topic_id
        made.partitions = [partition_class(index, -1, -1, "", NO_TOPIC) for index in topic.partition_indexes]
        added.append(made)
    asked.topics = allowed

    def marked(answer: Any) -> None:
        if not answer.error_code:
            answer.topics += added

    return marked


def find_coordinator(client: Client, context: RequestContext, request: Any, handler: Handler) -> Any:
    """Check FindCoordinator as KafkaApis.getCoordinator does: a group or transactional id needs DESCRIBE."""
    resource_type = {0: GROUP, 1: TRANSACTION}.get(request.key_type)
    if resource_type is None:
        if request.key_type == 2 and context.api_version >= 6 and not client.may_cluster(Operation.CLUSTER_ACTION):
            return error_response(request, context.api_version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return handler(context, request)
    if context.api_version < 4:
        if client.may(DESCRIBE, resource_type, request.key):
            return handler(context, request)
        return error_response(request, context.api_version, ERRORS[resource_type])

    def may(client: Client, key: str) -> ErrorCode | None:
        return None if client.may(DESCRIBE, resource_type, key) else ERRORS[resource_type]

    return Parts(may, "coordinator_keys", "coordinators", ("key",))(client, context, request, handler)


def sync_group(client: Client, context: RequestContext, request: Any, handler: Handler) -> Any:
    """Check SyncGroup as KafkaApis.handleSyncGroupRequest does: the check of the fields that are mandatory since v5
    precedes permissions.
    """
    if context.api_version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        return error_response(request, context.api_version, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if client.may(READ, GROUP, request.group_id):
        return handler(context, request)
    return error_response(request, context.api_version, ErrorCode.GROUP_AUTHORIZATION_FAILED)


def group_operations(client: Client, request: Any, response: Any) -> None:
    """Set the operations that the client may apply to each group."""
    if request.include_authorized_operations:
        for group in response.groups:
            if not group.error_code:
                group.authorized_operations = client.operations(GROUP, group.group_id)


def listed_groups(client: Client, _request: Any, response: Any) -> None:
    """Remove groups that the client may not describe (KafkaApis.handleListGroupsRequest)."""
    response.groups = [group for group in response.groups if client.may(DESCRIBE, GROUP, group.group_id)]


def subscribed_topics(client: Client, context: RequestContext, request: Any, handler: Handler) -> Any:
    """Check ConsumerGroupHeartbeat as KafkaApis.handleConsumerGroupHeartbeat does: a member subscribes to topics that
    it may describe.
    """
    names: Sequence[str] = request.subscribed_topic_names or ()
    if all(client.may_describe(name) for name in names):
        return matched_topics(client, context, request, handler)
    return error_response(request, context.api_version, NO_TOPIC)


def matched_topics(client: Client, context: RequestContext, request: Any, handler: Handler) -> Any:
    """Limit the topics that the group's expressions match to those that the client may describe, if this request
    triggers their resolution (TopicRegexResolver).
    """
    assert context.admitted is not None, "the guard has made it"
    context.admitted.may_describe = client.may_describe
    return handler(context, request)


def described_groups(client: Client, request: Any, response: Any) -> None:
    """Replace a group by an error if it has assigned topics that the client may not describe
    (KafkaApis.handleConsumerGroupDescribe).
    """
    group_operations(client, request, response)
    for at, group in enumerate(response.groups):
        topics = {
            each.topic_name
            for member in group.members
            for assignment in (member.assignment, member.target_assignment)
            for each in assignment.topic_partitions
        }
        if not all(client.may(DESCRIBE, TOPIC, name) for name in topics):
            message = "The group has described topic(s) that the client is not authorized to describe."
            response.groups[at] = DescribedGroup(NO_TOPIC, message, group.group_id)


# Transactions


def init_producer_id(client: Client, context: RequestContext, request: Any, handler: Handler) -> Any:
    """Check InitProducerId as KafkaApis.handleInitProducerIdRequest does: a client that may write to some topic may
    write idempotently (KIP-679).
    """
    name = request.transactional_id
    if name is not None:
        is_allowed, error = client.may(WRITE, TRANSACTION, name), ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    else:
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        is_allowed = client.may_cluster(Operation.IDEMPOTENT_WRITE) or client.authorizer.allows_some(
            client.principal, client.host, WRITE, TOPIC
        )
    return handler(context, request) if is_allowed else error_response(request, context.api_version, error)


def add_partitions(client: Client, context: RequestContext, request: Any, handler: Handler) -> Any:
    """Check AddPartitionsToTxn as KafkaApis.handleAddPartitionsToTxnRequest does: requests up to v3 come from clients,
    and all their partitions are added or none.
    """
    version = context.api_version
    if version >= 4:
        if client.may_cluster(Operation.CLUSTER_ACTION):
            return handler(context, request)
        return error_response(request, version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if not client.may(WRITE, TRANSACTION, request.v3_and_below_transactional_id):
        return error_response(request, version, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    denied = {topic.name for topic in request.v3_and_below_topics if not client.may(WRITE, TOPIC, topic.name)}
    if not denied:
        return handler(context, request)
    response = error_response(request, version, ErrorCode.OPERATION_NOT_ATTEMPTED)
    for topic in response.results_by_topic_v3_and_below:
        error = NO_TOPIC
        if topic.name not in denied:
            if client.topics.topic_id(topic.name) is not None:
                continue
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for each in topic.results_by_partition:
            each.partition_error_code = error
    return response


def topics_of_transactions(client: Client, _request: Any, response: Any) -> None:
    """Remove topics that the client may not describe (KafkaApis.handleDescribeTransactionsRequest)."""
    for state in response.transaction_states:
        state.topics = [topic for topic in state.topics if client.may(DESCRIBE, TOPIC, topic.topic)]


def listing_transactions(client: Client, context: RequestContext, request: Any, handler: Handler) -> Any:
    """Limit ListTransactions to ids that the client may describe (KafkaApis.handleListTransactionsRequest). The handler
    checks this before it matches the pattern, so that no client can match its pattern with ids of others.
    """
    assert context.admitted is not None, "the guard has made it"
    context.admitted.may_describe = lambda name: client.may(DESCRIBE, TRANSACTION, name)
    return handler(context, request)


# Settings

_RESOURCES = {2: TOPIC, 32: GROUP, 4: CLUSTER, 8: CLUSTER, 16: CLUSTER}
"""The checked type of resource by Kafka's ConfigResource.Type (topic, group, broker, broker logger, client metrics)."""


def may_configs(operation: Operation) -> May:
    """Return a check that the client may apply `operation` to the resource (ConfigHelper.handleDescribeConfigsRequest,
    ControllerApis.authorizeAlterResource).
    """

    def may(client: Client, resource: Any) -> ErrorCode | None:
        resource_type = _RESOURCES.get(resource.resource_type)
        if resource_type is None:
            return None  # the handler rejects it
        if resource_type is CLUSTER:
            return None if client.may_cluster(operation) else ERRORS[CLUSTER]
        return None if client.may(operation, resource_type, resource.resource_name) else ERRORS[resource_type]

    return may


_may_alter = may_configs(Operation.ALTER_CONFIGS)


def altered_configs(client: Client, context: RequestContext, request: Any, handler: Handler) -> Any:
    """Check AlterConfigs and IncrementalAlterConfigs as ConfigAdminManager.preprocess does: a resource that occurs
    twice is rejected before permissions are checked.
    """
    repeated = _repeated((each.resource_type, each.resource_name) for each in request.resources)

    def may(client: Client, resource: Any) -> ErrorCode | None:
        is_repeated = (resource.resource_type, resource.resource_name) in repeated
        return None if is_repeated else _may_alter(client, resource)

    return Parts(may, "resources", "responses", ("resource_type", "resource_name"))(client, context, request, handler)
