"""The permissions of share groups' requests, as Kafka's KafkaApis checks them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coordinatord.server.access.rules import Client, Handler, Rule, amend
from coordinatord.server.access.special import checked_within, group_operations
from coordinatord.transport.net.request import RequestContext
from coordinatord.transport.security.authorizer import Operation, ResourceType
from kafka_wire.errors import ErrorCode, message_of
from kafka_wire.registry import error_response

READ, DESCRIBE = Operation.READ, Operation.DESCRIBE
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
NO_TOPIC, NO_GROUP = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED


def share_reading(client: Client, context: RequestContext, request: Any, handler: Handler) -> Any:
    """Check ShareFetch and ShareAcknowledge as KafkaApis.handleShareFetchRequest does: READ for the group, and for each
    topic of the session. A request without a group is invalid for everybody.
    """
    if request.group_id is not None and not client.may(READ, GROUP, request.group_id):
        return error_response(request, context.api_version, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    checked_within(context, lambda name, topic_id: client.may_topic(READ, name, topic_id))
    return handler(context, request)


def described_groups(client: Client, request: Any, response: Any) -> None:
    """Replace a group by an error if it has assigned topics that the client may not describe."""
    from kafka_wire.api.share_group_describe import DescribedGroup

    group_operations(client, request, response)
    for at, group in enumerate(response.groups):
        topics = {each.topic_name for member in group.members for each in member.assignment.topic_partitions}
        if not all(client.may(DESCRIBE, TOPIC, name) for name in topics):
            message = "The group has described topic(s) that the client is not authorized to describe."
            response.groups[at] = DescribedGroup(NO_TOPIC, message, group.group_id)


def _topics(error_of: Callable[[Any], Any]) -> Rule:
    """Return a rule by which each topic of a request needs READ. Those that the client may not read are removed from
    the request, and `error_of(topic)` precedes the response's topics.
    """

    def rule(client: Client, context: RequestContext, request: Any, handler: Handler) -> Any:
        denied = [error_of(each) for each in request.topics if not client.may(READ, TOPIC, each.topic_name)]
        if denied:
            request.topics = [each for each in request.topics if client.may(READ, TOPIC, each.topic_name)]

            def completed(response: Any) -> Any:
                if response.error_code == ErrorCode.NONE:
                    response.responses = [*denied, *response.responses]
                return response

            amend(context, completed)
        return handler(context, request)

    return rule


def _not_altered(topic: Any) -> Any:
    from kafka_wire.api import alter_share_group_offsets as alter_api

    partitions = [
        alter_api.AlterShareGroupOffsetsResponsePartition(each.partition_index, NO_TOPIC, message_of(NO_TOPIC))
        for each in topic.partitions
    ]
    return alter_api.AlterShareGroupOffsetsResponseTopic(topic.topic_name, partitions=partitions)


def _not_deleted(topic: Any) -> Any:
    from kafka_wire.api import delete_share_group_offsets as delete_api

    text = message_of(NO_TOPIC)
    return delete_api.DeleteShareGroupOffsetsResponseTopic(topic.topic_name, error_code=NO_TOPIC, error_message=text)


altered_offsets = _topics(_not_altered)
deleted_offsets = _topics(_not_deleted)


def described_offsets(client: Client, context: RequestContext, request: Any, handler: Handler) -> Any:
    """Check DescribeShareGroupOffsets: each group needs DESCRIBE, and each topic. The response for all topics of a
    group omits topics that the client may not describe. A request may name a group several times, so the responses for
    groups are distinguished by their position.
    """
    from kafka_wire.api import describe_share_group_offsets as describe_api

    refused = [
        None
        if client.may(DESCRIBE, GROUP, each.group_id)
        else describe_api.DescribeShareGroupOffsetsResponseGroup(each.group_id, error_code=NO_GROUP)
        for each in request.groups
    ]
    request.groups = [group for group, error in zip(request.groups, refused, strict=True) if error is None]
    changes = [_without_topics(client, each) for each in request.groups]

    def completed(response: Any) -> Any:
        for answer, change in zip(response.groups, changes, strict=True):
            change(answer)
        answers = iter(response.groups)
        response.groups = [next(answers) if error is None else error for error in refused]
        return response

    amend(context, completed)
    return handler(context, request)


def _without_topics(client: Client, asked: Any) -> Callable[[Any], None]:
    """Remove topics that the client may not describe from the request for a group. Return the change of its response:
    it adds the errors of those topics, or removes them from a response with all topics.
    """
    if asked.topics is None:

        def filtered(answer: Any) -> None:
            answer.topics = [each for each in answer.topics if client.may(DESCRIBE, TOPIC, each.topic_name)]

        return filtered
    denied = [each for each in asked.topics if not client.may(DESCRIBE, TOPIC, each.topic_name)]
    asked.topics = [each for each in asked.topics if each not in denied]

    def added(answer: Any) -> None:
        if answer.error_code == ErrorCode.NONE:
            answer.topics += map(_not_described, denied)

    return added


def _not_described(topic: Any) -> Any:
    from kafka_wire.api import describe_share_group_offsets as describe_api

    text = message_of(NO_TOPIC)
    partitions = [
        describe_api.DescribeShareGroupOffsetsResponsePartition(each, -1, error_code=NO_TOPIC, error_message=text)
        for each in topic.partitions
    ]
    return describe_api.DescribeShareGroupOffsetsResponseTopic(topic.topic_name, partitions=partitions)
