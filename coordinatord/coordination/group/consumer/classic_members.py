"""Classic requests to a consumer group: those of members that have not been restarted with the new protocol yet.

Such members use their member epochs as generations. A JoinGroup contains the member's subscription and owned
partitions, as a full heartbeat would, and its response contains the member's epoch; a SyncGroup response contains the
partitions that the member owns now. A heartbeat response requests a member to rejoin (27, REBALANCE_IN_PROGRESS) when
it has partitions to revoke or to get. Equivalent to Kafka's classicGroup…ToConsumerGroup.
"""

from __future__ import annotations

from dataclasses import replace

from coordinatord.coordination.group.classic.members import join_error
from coordinatord.coordination.group.consumer.consumer_protocol import (
    by_topic_id,
    read_subscription,
    write_assignment,
)
from coordinatord.coordination.group.consumer.downgrade import become_classic_group, may_become_classic
from coordinatord.coordination.group.consumer.group_epoch import Before, refresh_epoch, update_target
from coordinatord.coordination.group.consumer.heartbeat import reconcile
from coordinatord.coordination.group.consumer.leaving import fence, replace_static_member
from coordinatord.coordination.group.consumer.patterns import Change, update_expression
from coordinatord.coordination.group.consumer.rebalance_triggers import member_changed
from coordinatord.coordination.group.consumer.records import member_record
from coordinatord.coordination.group.consumer.sessions import await_join, await_sync, joined, keep_alive, synced
from coordinatord.coordination.group.consumer.state import ConsumerGroup, ConsumerMember, GroupEnvironment, MemberState
from coordinatord.coordination.group.consumer.validation import size_refusal, static_refusal
from coordinatord.coordination.group.events import Join, Leave, Sync
from coordinatord.coordination.group.replay import write
from coordinatord.coordination.group.result import NO_REASON, Joined, Result, Trigger
from coordinatord.coordination.group.state import MAX_ID_CHARACTERS, Group
from coordinatord.coordination.group.states import Cause, Why
from kafka_wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_wire.api.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_wire.api.leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse
from kafka_wire.api.sync_group import SyncGroupRequest, SyncGroupResponse
from kafka_wire.errors import DecodeError, ErrorCode
from kafka_wire.records.consumer import ConsumerProtocolSubscription
from kafka_wire.records.consumer_assignment import version_of
from kafka_wire.records.consumer_group import ClassicMemberMetadata, ClassicProtocol

CONSUMER = "consumer"


def join(group: Group, consumer: ConsumerGroup, surroundings: GroupEnvironment, event: Join, now_ms: int) -> Result:
    """Handle a JoinGroup. The response is sent at once: the coordinator does not wait for other members."""
    request = event.request
    member_id = request.member_id or group.new_member_id()
    instance_id, limits = request.group_instance_id, surroundings.limits
    if not (limits.upgrades or limits.downgrades):  # group.consumer.migration.policy is "disabled"
        return Result(reply=join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    if size_refusal(consumer.members, consumer.static_members, limits, member_id, instance_id) is not None:
        return Result(reply=join_error(ErrorCode.GROUP_MAX_SIZE_REACHED))
    if not _supports(consumer, request):
        return Result(reply=join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    if not request.member_id and instance_id is None and event.require_known_member_id:
        return Result(reply=join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id))
    if len(member_id) > MAX_ID_CHARACTERS or len(instance_id or "") > MAX_ID_CHARACTERS:
        return Result(reply=join_error(ErrorCode.INVALID_REQUEST))
    if instance_id is not None and request.member_id:
        refusal = static_refusal(consumer.static_member(instance_id), member_id, instance_id)
        if refusal is not None:
            return Result(reply=join_error(refusal.error))
    try:
        subscription = read_subscription(request.protocols[0].metadata)
    except DecodeError:
        return Result(reply=join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    result = Result()
    _join(group, consumer, surroundings, event, member_id, subscription, now_ms, result)
    return result


def _join(
    group: Group,
    consumer: ConsumerGroup,
    surroundings: GroupEnvironment,
    event: Join,
    member_id: str,
    subscription: ConsumerProtocolSubscription,
    now_ms: int,
    result: Result,
) -> None:
    request, group_id, topics = event.request, group.group_id, surroundings.topics
    epoch_before, assignment_epoch = consumer.epoch, consumer.assignment_epoch
    order = Before.of(consumer, subscription.topics, joins=True)
    old = consumer.static_member(request.group_instance_id)
    # It replaces the last member that uses the new protocol.
    is_last = old is not None and old.classic is None and consumer.are_all_classic_without([old])
    ends = is_last and may_become_classic(group, surroundings, len(consumer.members))
    is_new = member_id not in consumer.members
    if old is not None and not request.member_id:
        before = replace_static_member(group, consumer, old, member_id, result)
    else:
        before = consumer.members.get(member_id) or ConsumerMember(member_id)
    result.changes.append(Joined(member_id, request.group_instance_id, event.client_id, NO_REASON, is_new))
    said = _updated(before, event, subscription)
    if said != before:
        write(group, *member_record(group_id, said), result)
    expression = update_expression(
        group, consumer, surroundings, before, said, now_ms, result, may_describe=event.may_describe
    )
    changed = said.topics != before.topics or expression is not Change.NONE
    if changed or consumer.topics_version != topics.version:
        why = member_changed(before, said, result) if changed else None
        refresh_epoch(group, consumer, surroundings, why, now_ms, result)
    is_stale = consumer.assignment_epoch < consumer.epoch
    if not ends:
        update_target(group, consumer, surroundings, order, member_id, now_ms, result, may_wait=True)
    after = said
    if not (ends and is_stale):
        owned = by_topic_id(subscription.owned_partitions, topics)
        is_unlisted = request.group_instance_id is not None and old is None
        has_target = not is_unlisted or consumer.assignment_epoch != assignment_epoch
        after = reconcile(
            group, consumer, surroundings, said, owned, now_ms, result, changed=changed, has_target=has_target
        )
    result.reply = JoinGroupResponse(
        generation_id=after.epoch,
        protocol_type=CONSUMER,
        protocol_name=request.protocols[0].name,
        member_id=member_id,
    )
    joined(group_id, consumer, member_id, result)
    if ends:
        text = f"Downgrade group {group_id} from consumer to classic with stale assignment."
        trigger = Trigger(Why.STATIC_MEMBER_RESTARTED, text, member_id) if is_stale else None
        become_classic_group(group, consumer, surroundings, (), epoch_before, trigger, now_ms, result)
        return
    keep_alive(group_id, consumer, member_id, request.session_timeout_ms, now_ms, result)
    await_sync(group_id, consumer, member_id, _rebalance_timeout_ms(event), now_ms, result)


def sync(group: Group, consumer: ConsumerGroup, surroundings: GroupEnvironment, event: Sync, now_ms: int) -> Result:
    """Handle a SyncGroup: respond with the partitions that the member owns now."""
    request, group_id = event.request, group.group_id
    if event.require_protocol and (request.protocol_type is None or request.protocol_name is None):
        return Result(reply=SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    member, error = _classic_member(consumer, request.member_id, request.group_instance_id)
    if member is None or member.classic is None:
        return Result(reply=SyncGroupResponse(error_code=error))
    first = member.classic.supported_protocols[0]
    if request.generation_id != member.epoch:
        error = ErrorCode.ILLEGAL_GENERATION
    elif request.protocol_type not in (None, CONSUMER) or request.protocol_name not in (None, first.name):
        error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    elif consumer.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        error = ErrorCode.REBALANCE_IN_PROGRESS
    result = Result()
    if error is not ErrorCode.NONE:
        if error is ErrorCode.REBALANCE_IN_PROGRESS:
            await_join(group_id, consumer, member, now_ms, result)
        result.reply = SyncGroupResponse(error_code=error)
        return result
    synced(group_id, consumer, member.member_id, result)
    keep_alive(group_id, consumer, member.member_id, member.classic.session_timeout_ms, now_ms, result)
    assignment = write_assignment(member.assigned, surroundings.topics, version_of(first.metadata))
    result.reply = _synced(request, assignment)
    return result


def heartbeat(
    group: Group, consumer: ConsumerGroup, surroundings: GroupEnvironment, request: HeartbeatRequest, now_ms: int
) -> Result:
    """Handle a Heartbeat: request the member to rejoin if it has
    partitions to revoke, or may have partitions to get.
    """
    member, error = _classic_member(consumer, request.member_id, request.group_instance_id)
    if member is None or member.classic is None:
        return Result(reply=HeartbeatResponse(error_code=error))
    if request.generation_id != member.epoch:
        return Result(reply=HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION))
    result = Result()
    keep_alive(group.group_id, consumer, member.member_id, member.classic.session_timeout_ms, now_ms, result)
    if (
        member.epoch < consumer.assignment_epoch
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.state is MemberState.UNRELEASED_PARTITIONS and not _waits_for_others(consumer, member))
    ):
        error = ErrorCode.REBALANCE_IN_PROGRESS
        await_join(group.group_id, consumer, member, now_ms, result)
    result.reply = HeartbeatResponse(error_code=error)
    return result


def leave(group: Group, consumer: ConsumerGroup, surroundings: GroupEnvironment, event: Leave, now_ms: int) -> Result:
    """Handle a LeaveGroup: remove members of both protocols, with one new epoch for all."""
    leaving: dict[str, ConsumerMember] = {}
    responses = []
    for identity in event.members:
        member, error = _leaving_member(consumer, identity)
        if member is not None:
            leaving[member.member_id] = member
        responses.append(MemberResponse(identity.member_id, identity.group_instance_id, error))
    result = Result()
    if event.single:
        result.reply = LeaveGroupResponse(error_code=responses[0].error_code)
    else:
        result.reply = LeaveGroupResponse(members=responses)
    fence(group, consumer, surroundings, list(leaving.values()), Cause.LEFT, now_ms, result)
    return result


def _supports(consumer: ConsumerGroup, request: JoinGroupRequest) -> bool:
    """Return whether the member is a consumer with a protocol that all other classic members have."""
    if request.protocol_type != CONSUMER:
        return False
    return any(consumer.protocols[each.name] == consumer.classic_members for each in request.protocols)


def _classic_member(
    consumer: ConsumerGroup, member_id: str, instance_id: str | None
) -> tuple[ConsumerMember | None, ErrorCode]:
    """Return the member that a request names, or the error: the member is unknown, fenced, or uses the new protocol."""
    if instance_id is None:
        member = consumer.members.get(member_id)
    else:
        member = consumer.static_member(instance_id)
        if member is not None and member.member_id != member_id:
            return None, ErrorCode.FENCED_INSTANCE_ID
    if member is None or member.classic is None:
        return None, ErrorCode.UNKNOWN_MEMBER_ID
    return member, ErrorCode.NONE


def _leaving_member(consumer: ConsumerGroup, identity: MemberIdentity) -> tuple[ConsumerMember | None, ErrorCode]:
    """Return the member to remove, or the error. Operators remove static members without knowing their member ids."""
    if identity.group_instance_id is None:
        member = consumer.members.get(identity.member_id)
        return member, ErrorCode.UNKNOWN_MEMBER_ID if member is None else ErrorCode.NONE
    member = consumer.static_member(identity.group_instance_id)
    if member is None:
        return None, ErrorCode.UNKNOWN_MEMBER_ID
    if identity.member_id and identity.member_id != member.member_id:
        return None, ErrorCode.FENCED_INSTANCE_ID
    return member, ErrorCode.NONE


def _waits_for_others(consumer: ConsumerGroup, member: ConsumerMember) -> bool:
    """Return whether other members still own some partitions of the member's target."""
    for topic_id, partitions in consumer.target.get(member.member_id, {}).items():
        assigned = member.assigned.get(topic_id, {})
        if any(each not in assigned and consumer.is_owned(topic_id, each) for each in partitions):
            return True
    return False


def _synced(request: SyncGroupRequest, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=request.protocol_type, protocol_name=request.protocol_name, assignment=assignment
    )


def _rebalance_timeout_ms(event: Join) -> int:
    return event.request.rebalance_timeout_ms if event.rebalance_timeout_ms is None else event.rebalance_timeout_ms


def _updated(member: ConsumerMember, event: Join, subscription: ConsumerProtocolSubscription) -> ConsumerMember:
    request = event.request
    timeout_ms = _rebalance_timeout_ms(event)
    first = {protocol.name: protocol.metadata for protocol in reversed(request.protocols)}
    protocols = [ClassicProtocol(each.name, first[each.name]) for each in request.protocols]
    return replace(
        member,
        instance_id=member.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topics=frozenset(subscription.topics),
        expression="",
        client_id=event.client_id,
        client_host=event.client_host,
        classic=ClassicMemberMetadata(request.session_timeout_ms, protocols),
    )
