"""Conversion into a group of the consumer protocol: of a new group, one without members, or one of classic consumers.

The last case is the migration of KIP-848. The first member that joins with the consumer protocol makes
the classic members members of a consumer group: in the epoch that was their generation, owning the
partitions that they owned. They continue with JoinGroup, SyncGroup and Heartbeat (classic_members.py)
until they, too, rejoin with the consumer protocol.

In the middle of a classic rebalance they may own no partitions. A member that is new to the group raises the epoch, so
that partitions are assigned. A static member that rejoins with the same subscription does not: as in Kafka 4.3, no
member owns any partition until the group's next change.
"""

from __future__ import annotations

from coordinatord.coordination.group.classic.members import answer_join, answer_sync, join_error
from coordinatord.coordination.group.consumer.consumer_protocol import by_topic_id, read_assignment, read_subscription
from coordinatord.coordination.group.consumer.records import group_records
from coordinatord.coordination.group.consumer.sessions import keep_alive
from coordinatord.coordination.group.consumer.state import ConsumerGroup, ConsumerMember, GroupEnvironment
from coordinatord.coordination.group.consumer.validation import Refusal
from coordinatord.coordination.group.replay import write
from coordinatord.coordination.group.result import JOIN, SESSION, SYNC, Cancel, Result, TimerKey
from coordinatord.coordination.group.state import NEVER, Group, Member
from coordinatord.coordination.group.states import EMPTY
from kafka_wire.api.sync_group import SyncGroupResponse
from kafka_wire.errors import DecodeError, ErrorCode
from kafka_wire.records.consumer_group import ClassicMemberMetadata, ClassicProtocol
from kafka_wire.records.offsets import GroupMetadataKey


class _CustomAssignorError(Exception):
    """The leader's assignor has sent user data in addition to the partitions."""


class _OtherProtocolError(Exception):
    """A member that joined since the last generation does not support its protocol, or there was no generation yet."""


def upgrade_refusal(group: Group, surroundings: GroupEnvironment, result: Result) -> Refusal | None:
    """Return the error if a classic group with members cannot become a consumer group. Parked requests get
    REBALANCE_IN_PROGRESS: as in Kafka also if the conversion is not possible, or if the request that causes it is
    rejected after all.
    """
    _disturb(group, result)
    cannot = f"Cannot upgrade classic group {group.group_id} to consumer group because"
    try:
        _converted(group, surroundings)
    except DecodeError:
        why = f"{cannot} the embedded consumer protocol is malformed."
        return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, why)
    except _CustomAssignorError:
        why = (
            f"{cannot} an unsupported custom assignor is in use. Please refer to the documentation or switch to a "
            "default assignor before re-attempting the upgrade."
        )
        return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, why)
    except _OtherProtocolError:
        return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, None)  # in Kafka an uncaught exception
    return None


def become_consumer_group(group: Group, surroundings: GroupEnvironment, now_ms: int, result: Result) -> None:
    """Convert the group into a consumer group unless it is one. Offsets stay. The caller has checked that it may."""
    if group.consumer is not None:
        return
    converted = _converted(group, surroundings) if group.members else ConsumerGroup()
    if group.exists:
        write(group, GroupMetadataKey(group.group_id), None, result)
    timeouts = {member_id: member.session_timeout_ms for member_id, member in group.members.items()}
    forget_classic(group, result)
    group.consumer = ConsumerGroup()
    if converted.members:
        for record in group_records(group.group_id, converted):
            write(group, *record, result)
        for member_id, timeout_ms in timeouts.items():
            keep_alive(group.group_id, group.consumer, member_id, timeout_ms, now_ms, result)


def _disturb(group: Group, result: Result) -> None:
    """Respond to parked requests with REBALANCE_IN_PROGRESS, so that members start again."""
    for member in group.members.values():
        answer_join(group, member, join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id), result)
        answer_sync(member, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), result)


def forget_classic(group: Group, result: Result) -> None:
    """Cancel all timers of a classic group, and remove its members. Parked requests get REBALANCE_IN_PROGRESS."""
    _disturb(group, result)
    for member_id in [*group.members, *group.pending_members]:
        result.timers.append(Cancel(TimerKey(group.group_id, SESSION, member_id)))
    for kind, deadline_ms in ((JOIN, group.join_deadline_ms), (SYNC, group.sync_deadline_ms)):
        if deadline_ms != NEVER:
            result.timers.append(Cancel(TimerKey(group.group_id, kind)))
    group.version += 1
    group.state = EMPTY
    group.generation_id = 0
    group.protocol_type = group.protocol_name = group.leader_id = group.subscribed_topics = None
    group.join_deadline_ms = group.sync_deadline_ms = group.initial_remaining_ms = NEVER
    group.members.clear()
    group.static_members.clear()
    group.pending_members.clear()
    group.pending_sync_members.clear()
    group.supported_protocols.clear()


def _converted(group: Group, surroundings: GroupEnvironment) -> ConsumerGroup:
    """Return the group as a consumer group. Raises DecodeError, _CustomAssignorError and _OtherProtocolError."""
    consumer = ConsumerGroup(epoch=group.generation_id)
    consumer.set_assignment_epoch(group.generation_id, 0)
    for member in group.members.values():
        converted = _converted_member(group, member, surroundings)
        consumer.put(converted)
        consumer.target[member.member_id] = {
            topic_id: frozenset(epochs) for topic_id, epochs in converted.assigned.items()
        }
    consumer.metadata_hash = consumer.hash_of(surroundings.topics)
    return consumer


def _converted_member(group: Group, member: Member, surroundings: GroupEnvironment) -> ConsumerMember:
    if group.protocol_name is None or all(name != group.protocol_name for name, _ in member.protocols):
        raise _OtherProtocolError
    epoch = group.generation_id
    assigned: dict[bytes, dict[int, int]] = {}
    if member.assignment:
        assignment = read_assignment(member.assignment)
        if assignment.user_data:
            raise _CustomAssignorError
        for part in by_topic_id(assignment.assigned_partitions, surroundings.topics):
            assigned[part.topic_id] = dict.fromkeys(part.partitions, epoch)
    subscription = read_subscription(member.metadata(group.protocol_name))
    return ConsumerMember(
        member.member_id,
        epoch,
        epoch,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=frozenset(subscription.topics),
        assigned=assigned,
        classic=ClassicMemberMetadata(
            member.session_timeout_ms, [ClassicProtocol(name, metadata) for name, metadata in member.protocols]
        ),
    )
