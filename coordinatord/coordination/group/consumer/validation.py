"""Validation of ConsumerGroupHeartbeat. The messages are Kafka's: clients show them."""

from __future__ import annotations

from collections.abc import Collection, Container
from typing import NamedTuple

from coordinatord.coordination.group.consumer.expressions import InvalidExpression, compile_expression
from coordinatord.coordination.group.consumer.state import (
    LEAVING,
    LEAVING_FOR_NOW,
    ConsumerGroup,
    ConsumerMember,
    Limits,
)
from coordinatord.coordination.group.state import MAX_ID_CHARACTERS, Group
from coordinatord.coordination.group.states import EMPTY
from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kafka_wire.errors import ErrorCode


class Refusal(NamedTuple):
    """An error and its explanation."""

    error: ErrorCode
    message: str | None


def request_refusal(
    request: ConsumerGroupHeartbeatRequest, limits: Limits, *, member_id_required: bool
) -> Refusal | None:
    """Return the error in the request itself, or None. From v1 on, the client generates the member's id."""
    epoch = request.member_epoch
    if (member_id_required or epoch > 0 or epoch == LEAVING) and not request.member_id.strip():
        return _invalid("MemberId can't be empty.")
    if not request.group_id.strip():
        return _invalid("GroupId can't be empty.")
    if request.instance_id is not None and not request.instance_id.strip():
        return _invalid("InstanceId can't be empty.")
    if request.rack_id is not None and not request.rack_id.strip():
        return _invalid("RackId can't be empty.")
    if epoch == 0:
        if request.rebalance_timeout_ms == -1:
            return _invalid("RebalanceTimeoutMs must be provided in first request.")
        if request.topic_partitions is None or request.topic_partitions:
            return _invalid("TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            return _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
    elif epoch == LEAVING_FOR_NOW and request.instance_id is None:
        return _invalid("InstanceId can't be null.")
    elif epoch < LEAVING_FOR_NOW:
        return _invalid("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in limits.assignors:
        return Refusal(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(sorted(limits.assignors, reverse=True))}.",  # in Kafka a set of two
        )
    if len(request.member_id) > MAX_ID_CHARACTERS or _is_too_long(request):
        return _invalid(f"Ids and names may have {MAX_ID_CHARACTERS} characters.")  # more could not be logged
    return None


def _is_too_long(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether an id or name that a member sends when it joins is too long."""
    texts = (request.instance_id, request.rack_id, request.subscribed_topic_regex)
    return any(len(text or "") > MAX_ID_CHARACTERS for text in (*texts, *(request.subscribed_topic_names or ())))


def group_refusal(group: Group, limits: Limits, member_epoch: int) -> Refusal | None:
    """Return the error if the group accepts no heartbeats of this member epoch: the first one, of epoch 0, may convert
    the group into a consumer group.
    """
    if group.consumer is not None:
        return None
    group_id = group.group_id
    if not group.exists:
        return None if member_epoch == 0 else _not_found(f"Consumer group {group_id} not found.")
    if member_epoch != 0:
        return _not_found(f"Group {group_id} is not a consumer group.")
    if group.state is EMPTY:
        return None
    cannot = f"Cannot upgrade classic group {group_id} to consumer group because"
    if not limits.upgrades:
        return _not_found(f"{cannot} online upgrade is disabled.")
    if not group.uses_consumer_protocol():
        return _not_found(f"{cannot} the group does not use the consumer embedded protocol.")
    if len(group.members) > limits.max_size:
        return _not_found(f"{cannot} the group size exceeds the consumer group maximum size.")
    return None


def size_refusal(
    members: Collection[str], static_members: Container[str], limits: Limits, member_id: str, instance_id: str | None
) -> Refusal | None:
    """Return the error if group.consumer.max.size is reached and the member is new, and no static member comes back."""
    if len(members) < limits.max_size or (member_id and member_id in members) or instance_id in static_members:
        return None
    return Refusal(
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        f"The consumer group has reached its maximum capacity of {limits.max_size} members.",
    )


def member_refusal(group_id: str, consumer: ConsumerGroup, request: ConsumerGroupHeartbeatRequest) -> Refusal | None:
    """Return the error if the heartbeat is not that of the member it names, or contains an outdated member epoch."""
    joins = request.member_epoch == 0
    if request.instance_id is not None:
        return _static_refusal(group_id, consumer, request)
    member = consumer.members.get(request.member_id)
    if member is None:
        return None if joins else unknown_member(group_id, request.member_id)
    return epoch_refusal(member, request.member_epoch, request.topic_partitions)


def _static_refusal(group_id: str, consumer: ConsumerGroup, request: ConsumerGroupHeartbeatRequest) -> Refusal | None:
    instance_id = request.instance_id
    owner = consumer.static_member(instance_id)
    if request.member_epoch != 0:
        refusal = static_refusal(owner, request.member_id, instance_id)
        if refusal is not None or owner is None:
            return refusal
        return epoch_refusal(owner, request.member_epoch, request.topic_partitions)
    if owner is None or owner.classic is not None or owner.epoch == LEAVING_FOR_NOW:
        return None
    return Refusal(
        ErrorCode.UNRELEASED_INSTANCE_ID,
        f"Static member {request.member_id} with instance id {instance_id} cannot join the group because the instance "
        f"id is owned by {owner.member_id} member.",
    )


def static_refusal(owner: ConsumerMember | None, member_id: str, instance_id: str | None) -> Refusal | None:
    """Return the error if a member may not use this instance id."""
    if owner is None:
        return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if owner.member_id != member_id:
        return Refusal(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {owner.member_id}.",
        )
    return None


def unknown_member(group_id: str, member_id: str) -> Refusal:
    """Return the error for an unknown member."""
    return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}.")


def epoch_refusal(member: ConsumerMember, epoch: int, owned: list[TopicPartitions] | None) -> Refusal | None:
    """Return the error if a member of this epoch is fenced. A member that has missed the response that raised its epoch
    may continue if all partitions that it owns are still assigned to it.
    """
    if epoch == 0 or epoch == member.epoch:
        return None
    if epoch < member.epoch and epoch == member.previous_epoch and _owns_all(member, owned):
        return None
    than = "greater" if epoch > member.epoch else "smaller"
    return Refusal(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {than} member epoch ({epoch}) than the one known by the group coordinator "
        f"({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


def expression_refusal(expression: str | None) -> Refusal | None:
    """Return the error if an expression cannot be subscribed to."""
    if not expression:
        return None
    try:
        compile_expression(expression)
    except InvalidExpression as error:
        return Refusal(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            str(error),
        )
    return None


def _owns_all(member: ConsumerMember, owned: list[TopicPartitions] | None) -> bool:
    if owned is None:
        return False
    return all(member.assigned.get(each.topic_id, {}).keys() >= set(each.partitions) for each in owned)


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, message)


def _not_found(message: str) -> Refusal:
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, message)
