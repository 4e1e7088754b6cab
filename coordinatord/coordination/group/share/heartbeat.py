"""ShareGroupHeartbeat: the only request of a share group's member (KIP-932).

A member joins with epoch 0 and the topics that it subscribes to, and leaves with epoch -1; later requests contain only
changes. The response contains the member's epoch, and its assignment if that has changed since the last response, or
if the request was complete. Subscribed partitions that have no state yet are returned to the shell, which asks the
share coordinator to initialise them; once they are, the next heartbeat assigns them.
"""

from __future__ import annotations

from dataclasses import replace

from coordinatord.coordination.group.consumer.sessions import forget, keep_alive
from coordinatord.coordination.group.consumer.state import LEAVING, GroupEnvironment
from coordinatord.coordination.group.consumer.validation import Refusal, unknown_member
from coordinatord.coordination.group.events import ShareHeartbeat
from coordinatord.coordination.group.replay import write
from coordinatord.coordination.group.result import NO_REASON, Dropped, Joined, Result, Trigger
from coordinatord.coordination.group.share.assigning import reconcile, update_target
from coordinatord.coordination.group.share.partitions import initialize
from coordinatord.coordination.group.share.records import (
    assignment_epoch_record,
    epoch_record,
    member_record,
    member_tombstones,
)
from coordinatord.coordination.group.share.state import Answer, ShareGroup, ShareMember, limits_of
from coordinatord.coordination.group.state import MAX_ID_CHARACTERS, Group
from coordinatord.coordination.group.states import Cause, Why
from kafka_wire.api.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from kafka_wire.errors import ErrorCode


def heartbeat(group: Group, event: ShareHeartbeat, now_ms: int) -> Result:
    """Handle a heartbeat. The reply is an `Answer`."""
    surroundings = group.surroundings
    assert surroundings is not None, "a shard that serves requests has set it"
    request = event.request
    refusal = _request_refusal(request)
    result = Result()
    if refusal is None:
        refusal = _refusal(group, request, surroundings)
    if refusal is not None:
        response = ShareGroupHeartbeatResponse(error_code=refusal.error, error_message=refusal.message)
        return Result(reply=Answer(response))
    if request.member_epoch == LEAVING:
        share = group.share
        assert share is not None
        remove(group, share, surroundings, request.member_id, Cause.LEFT, now_ms, result)
        response = ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=LEAVING)
        result.reply = Answer(response)
    else:
        _accept(group, event, surroundings, now_ms, result)
    return result


def _request_refusal(request: ShareGroupHeartbeatRequest) -> Refusal | None:
    """Return the error in the request itself, or None. The messages are Kafka's: clients show them."""
    text, names = None, request.subscribed_topic_names or ()
    if not request.member_id.strip():
        text = "MemberId can't be empty."
    elif not request.group_id.strip():
        text = "GroupId can't be empty."
    elif request.rack_id is not None and not request.rack_id.strip():
        text = "RackId can't be empty."
    elif request.member_epoch == 0 and not names:
        text = "SubscribedTopicNames must be set in first request."
    elif request.member_epoch < LEAVING:
        text = "MemberEpoch is invalid."
    elif any(
        len(each) > MAX_ID_CHARACTERS for each in (request.rack_id or "", *(request.subscribed_topic_names or ()))
    ):
        text = f"Ids and names may have {MAX_ID_CHARACTERS} characters."  # more could not be logged
    return None if text is None else Refusal(ErrorCode.INVALID_REQUEST, text)


def _refusal(group: Group, request: ShareGroupHeartbeatRequest, surroundings: GroupEnvironment) -> Refusal | None:
    """Return the error if the group or the member does not exist, or the member's epoch is not that of the group."""
    group_id, member_id, epoch = group.group_id, request.member_id, request.member_epoch
    share = group.share
    if share is None:
        if group.exists:
            return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
        if epoch != 0:
            named = "Group" if epoch == LEAVING else "Share group"
            return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"{named} {group_id} not found.")
        return None
    member = share.members.get(member_id)
    max_size = limits_of(surroundings).max_size
    if epoch != LEAVING and member is None and len(share.members) >= max_size:
        text = f"The share group has reached its maximum capacity of {max_size} members."
        return Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, text)
    if member is None:
        return None if epoch == 0 else unknown_member(group_id, member_id)
    if epoch in (LEAVING, 0, member.epoch) or epoch == member.previous_epoch < member.epoch:
        return None
    than, more = "greater", ""
    if epoch < member.epoch:
        than, more = "smaller", f", and it does not match the previous member epoch ({member.previous_epoch})"
    text = (
        f"The share group member has a {than} member epoch ({epoch}) than the one known by the group coordinator "
        f"({member.epoch}){more}. The member must abandon all its partitions and rejoin."
    )
    return Refusal(ErrorCode.FENCED_MEMBER_EPOCH, text)


def _accept(group: Group, event: ShareHeartbeat, surroundings: GroupEnvironment, now_ms: int, result: Result) -> None:
    request, group_id, topics = event.request, group.group_id, surroundings.topics
    names = request.subscribed_topic_names
    before = None if group.share is None else group.share.members.get(request.member_id)
    if request.member_epoch == 0:
        result.changes.append(Joined(request.member_id, None, event.client_id, NO_REASON, before is None))
    known = before or ShareMember(request.member_id)
    member = replace(
        known,
        client_id=event.client_id,
        client_host=event.client_host,
        rack_id=known.rack_id if request.rack_id is None else request.rack_id,
        topics=known.topics if names is None else frozenset(names),
    )
    if member != before:
        write(group, *member_record(group_id, member), result)
    share = group.share
    assert share is not None, "a member of it has been written"
    trigger = _trigger(before, member)
    if trigger is None and share.assignment_epoch >= share.epoch and has_unassigned(group, share):
        trigger = Trigger(Why.TOPICS_CHANGED, "partitions of the subscribed topics were initialised")
    if trigger is not None or share.topics_version != topics.version:
        metadata_hash = share.hash_of(topics)
        if trigger is None and metadata_hash != share.metadata_hash:
            trigger = Trigger(Why.TOPICS_CHANGED, "the subscribed topics have changed")
        if trigger is not None:
            raise_epoch(group, share, metadata_hash, trigger, result)
        share.topics_version = topics.version
    target = update_target(group, share, surroundings, member.member_id, names, now_ms, result)
    after = reconcile(group, share, topics, member, target, is_changed=trigger is not None, result=result)
    keep_alive(group_id, share, member.member_id, limits_of(surroundings).session_timeout_ms(group_id), now_ms, result)
    response = ShareGroupHeartbeatResponse(
        member_id=after.member_id,
        member_epoch=after.epoch,
        heartbeat_interval_ms=limits_of(surroundings).heartbeat_interval_ms(group_id),
    )
    if request.member_epoch == 0 or names is not None or after.assigned != member.assigned:
        response.assignment = Assignment(
            [TopicPartitions(topic_id, list(partitions)) for topic_id, partitions in after.assigned.items()]
        )
    result.reply = Answer(response, initialize(group, share, surroundings, now_ms, result))


def _trigger(before: ShareMember | None, after: ShareMember) -> Trigger | None:
    """Return the cause of a new epoch: a member that is new, or subscribes to other topics."""
    if before is None:
        return Trigger(Why.NEW_MEMBER, f"new member {after.member_id}", after.member_id)
    if before.topics != after.topics:
        return Trigger(
            Why.SUBSCRIPTION_CHANGED, f"member {after.member_id} subscribes to other topics", after.member_id
        )
    return None


def has_unassigned(group: Group, share: ShareGroup) -> bool:
    """Return whether the partitions that have state differ from those in the target, in a subscribed topic."""
    if share.settled_version == group.version or share.partitions is None:
        return False
    subscribed = share.subscribed_topics()
    assigned: dict[bytes, set[int]] = {}
    for target in share.target.values():
        for topic_id, partitions in target.items():
            assigned.setdefault(topic_id, set()).update(partitions)
    found = any(
        each.name in subscribed and bool(assigned.get(topic_id, set()) ^ each.partitions)
        for topic_id, each in share.partitions.initialized.items()
    )
    if not found:
        share.settled_version = group.version
    return found


def raise_epoch(group: Group, share: ShareGroup, metadata_hash: int, trigger: Trigger, result: Result) -> None:
    """Raise the group epoch: the partitions have to be assigned anew."""
    write(group, *epoch_record(group.group_id, share.epoch + 1, metadata_hash), result)
    result.trigger = trigger


def remove(
    group: Group,
    share: ShareGroup,
    surroundings: GroupEnvironment,
    member_id: str,
    cause: str,
    now_ms: int,
    result: Result,
) -> None:
    """Remove a member that leaves, or whose session has expired; the others take over at their next heartbeats."""
    for record in member_tombstones(group.group_id, member_id):
        write(group, *record, result)
    forget(group.group_id, share, member_id, result)
    result.changes.append(Dropped(member_id, None, cause))
    left = cause == Cause.LEFT
    text = f"member {member_id} left" if left else f"session of member {member_id} expired"
    trigger = Trigger(Why.MEMBER_LEFT if left else Why.SESSION_EXPIRED, text, member_id)
    raise_epoch(group, share, share.hash_of(surroundings.topics), trigger, result)
    if not share.members:
        # Since Kafka 4.4: nothing is to be assigned, and the next member need not wait for the assignment interval.
        write(group, *assignment_epoch_record(group.group_id, share.epoch, 0), result)
