"""ConsumerGroupHeartbeat: the only request of the consumer protocol (KIP-848).

A member joins with epoch 0 and sends its complete state; later requests contain only changes, and the owned partitions
when these have changed. The response contains the member's epoch, and its assignment if the assignment has changed
since the last response, or if the request was complete. A static or dynamic member leaves with member epoch -1; a
static member leaves temporarily with -2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from coordinatord.coordination.group.consumer.epoch_record import moved
from coordinatord.coordination.group.consumer.group_epoch import (
    Before,
    preferred_assignor,
    refresh_epoch,
    update_target,
)
from coordinatord.coordination.group.consumer.leaving import leave, replace_static_member
from coordinatord.coordination.group.consumer.patterns import Change, update_expression
from coordinatord.coordination.group.consumer.rebalance_triggers import assignor_changed, member_changed
from coordinatord.coordination.group.consumer.reconcile import Reconciliation
from coordinatord.coordination.group.consumer.records import current_record, member_record
from coordinatord.coordination.group.consumer.sessions import await_revocation, keep_alive, revoked
from coordinatord.coordination.group.consumer.state import (
    ConsumerGroup,
    ConsumerMember,
    Epochs,
    GroupEnvironment,
    MemberState,
    Session,
)
from coordinatord.coordination.group.consumer.upgrade import become_consumer_group, upgrade_refusal
from coordinatord.coordination.group.consumer.validation import (
    Refusal,
    expression_refusal,
    group_refusal,
    member_refusal,
    request_refusal,
    size_refusal,
    unknown_member,
)
from coordinatord.coordination.group.events import ConsumerHeartbeat
from coordinatord.coordination.group.replay import write
from coordinatord.coordination.group.result import NO_REASON, Joined, Result
from coordinatord.coordination.group.state import Group
from kafka_wire.api.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kafka_wire.errors import ErrorCode

NOT_SET = -1


def heartbeat(group: Group, event: ConsumerHeartbeat, now_ms: int) -> Result:
    """Handle a heartbeat."""
    surroundings = group.surroundings
    assert surroundings is not None, "a shard that serves requests has set it"
    request = event.request
    unchanged = steady(group, surroundings, request, event.client_id, event.client_host)
    if unchanged is not None:
        session, result = unchanged
        timeout_ms = surroundings.limits.session_timeout_ms(group.group_id)
        if now_ms + timeout_ms >= session.timer_ms:  # else the timeout is shorter than before: the timer is set again
            session.timeout_ms, session.deadline_ms = timeout_ms, now_ms + timeout_ms
            return result
    result = Result()
    refusal = request_refusal(request, surroundings.limits, member_id_required=event.member_id_required)
    if refusal is None and request.member_epoch < 0:
        refusal = leave(group, request, surroundings, now_ms, result)
    elif refusal is None:
        refusal = _refusal(group, request, surroundings, result)
        if refusal is None:
            _accept(group, event, surroundings, now_ms, result)
    if refusal is not None:
        answer = refused(refusal)
        answer.replies = result.replies  # of a classic group that cannot become a consumer group
        return answer
    return result


def steady(
    group: Group,
    surroundings: GroupEnvironment,
    request: ConsumerGroupHeartbeatRequest,
    client_id: str,
    client_host: str,
) -> tuple[Session, Result] | None:
    """Return the response to nearly all heartbeats: the request contains at most the member's owned partitions, no
    topics or expressions have to be checked, and the member owns its whole target. None for any other heartbeat. As
    long as the group's version, the topics and the limits are unchanged, the response is the same; only the session's
    deadline moves.
    """
    consumer = group.consumer
    if consumer is None:
        return None
    member = consumer.members.get(request.member_id)
    session = consumer.sessions.get(request.member_id)
    if (
        member is None
        or session is None
        or not (0 < request.member_epoch == member.epoch == consumer.assignment_epoch == consumer.epoch)
        or member.state is not MemberState.STABLE
        or request.subscribed_topic_names is not None
        or request.subscribed_topic_regex is not None
        or request.server_assignor is not None
        or request.rack_id is not None
        or request.rebalance_timeout_ms != NOT_SET
        or member.classic is not None
        or consumer.expressions
        or len(consumer.assignors) > 1  # any heartbeat may then change the preferred one
        or consumer.topics_version != surroundings.topics.version
        or client_id != member.client_id
        or client_host != member.client_host
    ):
        return None
    instance_id, epoch = request.instance_id, member.epoch
    if instance_id is not None and consumer.static_members.get(instance_id) != member.member_id:
        return None
    interval_ms = surroundings.limits.heartbeat_interval_ms(group.group_id)
    known: Result | None = session.steady
    if known is None or (known.reply.member_epoch, known.reply.heartbeat_interval_ms) != (epoch, interval_ms):
        reply = ConsumerGroupHeartbeatResponse(
            member_id=member.member_id, member_epoch=epoch, heartbeat_interval_ms=interval_ms
        )
        session.steady = known = Result(reply=reply)
    return session, known


def refused(refusal: Refusal) -> Result:
    """Return a result with an error response and no changes."""
    reply = ConsumerGroupHeartbeatResponse(error_code=refusal.error, error_message=refusal.message)
    return Result(reply=reply)


def _refusal(
    group: Group, request: ConsumerGroupHeartbeatRequest, surroundings: GroupEnvironment, result: Result
) -> Refusal | None:
    limits, consumer, member_id = surroundings.limits, group.consumer, request.member_id
    refusal = group_refusal(group, limits, request.member_epoch)
    if refusal is None and group.members:
        refusal = upgrade_refusal(group, surroundings, result)
    if refusal is not None:
        return refusal
    kept: Group | ConsumerGroup = group if consumer is None else consumer
    refusal = size_refusal(kept.members, kept.static_members, limits, member_id, request.instance_id)
    if refusal is None and consumer is not None:
        refusal = member_refusal(group.group_id, consumer, request)
    if refusal is None and request.subscribed_topic_regex:
        is_known = consumer is not None and request.subscribed_topic_regex in consumer.expressions
        refusal = None if is_known else expression_refusal(request.subscribed_topic_regex)
    if refusal is None and _is_of_unknown_state(consumer, request):
        text = "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin."
        refusal = Refusal(ErrorCode.FENCED_MEMBER_EPOCH, text)
    return refusal


def _accept(
    group: Group, event: ConsumerHeartbeat, surroundings: GroupEnvironment, now_ms: int, result: Result
) -> None:
    request, group_id = event.request, group.group_id
    is_classic = bool(group.members)
    become_consumer_group(group, surroundings, now_ms, result)
    consumer = group.consumer
    assert consumer is not None
    epoch_before = consumer.assignment_epoch
    is_unlisted = request.instance_id is not None and request.instance_id not in consumer.static_members
    order = Before.of(consumer, request.subscribed_topic_names, joins=request.member_epoch == 0, converted=is_classic)
    default = surroundings.limits.assignors[0]
    assignor_before = preferred_assignor(consumer, default)
    before = _member(group, consumer, event, result)
    said = _updated(before, event)
    if said is not before and said != before:
        write(group, *member_record(group_id, said), result)
    expression = update_expression(
        group, consumer, surroundings, before, said, now_ms, result,
        may_describe=event.may_describe, is_converted=is_classic,
    )  # fmt: skip
    changed = said.topics != before.topics
    assignor = preferred_assignor(consumer, default, said.assignor)
    if changed or expression is Change.KNOWN or assignor != assignor_before:
        if changed or expression is Change.KNOWN:
            trigger = member_changed(before, said, result, is_converted=is_classic)
        else:
            trigger = assignor_changed(said, assignor_before, assignor)
        refresh_epoch(group, consumer, surroundings, trigger, now_ms, result)
    elif consumer.topics_version != surroundings.topics.version:
        refresh_epoch(group, consumer, surroundings, None, now_ms, result)
    is_changed = changed or expression is not Change.NONE
    heard = PendingHeartbeat(event, said.member_id, before.assigned, is_changed, is_unlisted, epoch_before)
    _answer(group, consumer, surroundings, order, heard, now_ms, result)


def _answer(
    group: Group,
    consumer: ConsumerGroup,
    surroundings: GroupEnvironment,
    before: Before,
    heard: PendingHeartbeat,
    now_ms: int,
    result: Result,
) -> None:
    """Respond to an accepted heartbeat, now or when the target assignment has been computed."""
    group_id, member_id = group.group_id, heard.member_id
    keep_alive(group_id, consumer, member_id, surroundings.limits.session_timeout_ms(group_id), now_ms, result)
    may_wait = heard.event.reply_to is not None
    if update_target(group, consumer, surroundings, before, member_id, now_ms, result, may_wait=may_wait):
        assert consumer.assigning is not None
        consumer.assigning.heard = heard
    else:
        result.reply = answer(group, consumer, surroundings, heard, now_ms, result)


class PendingHeartbeat(NamedTuple):
    """An accepted heartbeat whose response is pending."""

    event: ConsumerHeartbeat
    member_id: str
    assigned: Epochs
    """The partitions that the member owned before the heartbeat."""
    changed: bool
    """The subscription has changed."""
    is_unlisted: bool
    """A static member without a target before the heartbeat."""
    assignment_epoch: int
    """The group's assignment epoch before the heartbeat."""


def answer(
    group: Group,
    consumer: ConsumerGroup,
    surroundings: GroupEnvironment,
    heard: PendingHeartbeat,
    now_ms: int,
    result: Result,
) -> ConsumerGroupHeartbeatResponse:
    """Reconcile the member with its target, and return the response."""
    request, member_id = heard.event.request, heard.member_id
    member = consumer.members.get(member_id)
    if member is None:  # the member left while its heartbeat was parked
        refusal = unknown_member(group.group_id, member_id)
        return ConsumerGroupHeartbeatResponse(error_code=refusal.error, error_message=refusal.message)
    after = reconcile(
        group,
        consumer,
        surroundings,
        member,
        request.topic_partitions,
        now_ms,
        result,
        changed=heard.changed,
        has_target=not heard.is_unlisted or consumer.assignment_epoch != heard.assignment_epoch,
    )
    response = ConsumerGroupHeartbeatResponse(
        member_id=member_id,
        member_epoch=after.epoch,
        heartbeat_interval_ms=surroundings.limits.heartbeat_interval_ms(group.group_id),
    )
    if request.member_epoch == 0 or is_full(request) or after.assigned != heard.assigned:
        response.assignment = Assignment(
            [TopicPartitions(topic_id, sorted(epochs)) for topic_id, epochs in after.assigned.items()]
        )
    return response


def is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether the request contains the complete state of the member."""
    subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout_ms != NOT_SET and subscribes and request.topic_partitions is not None


def reconcile(
    group: Group,
    consumer: ConsumerGroup,
    surroundings: GroupEnvironment,
    member: ConsumerMember,
    owned: list[TopicPartitions] | None,
    now_ms: int,
    result: Result,
    *,
    changed: bool,
    has_target: bool = True,
) -> ConsumerMember:
    """Reconcile a member with its target. `changed`: its subscription has changed. Returns the member after that.

    Kafka looks up the targets of static members by instance id, in the state before the step. So a static member that
    is new to the group has no target until the next assignment: `has_target` is false.
    """
    if not changed and member.is_reconciled_to(consumer.assignment_epoch):
        return member
    is_subscribed = _subscription(consumer, member, surroundings)
    target = consumer.target.get(member.member_id, {}) if has_target else {}
    reconciliation = Reconciliation(member, consumer.assignment_epoch, target, owned, is_subscribed, consumer.is_owned)
    after = reconciliation.result(subscription_changed=changed)
    assert after is not None, "refused before"
    if after is member or after.has_not_moved(member):
        return member
    write(group, *current_record(group.group_id, after), result)
    moved(consumer, member, after, now_ms)
    if after.classic is None:
        if after.state is MemberState.UNREVOKED_PARTITIONS:
            await_revocation(group.group_id, consumer, after, now_ms, result)
        else:
            revoked(group.group_id, consumer, after.member_id, result)
    return after


def _subscription(
    consumer: ConsumerGroup, member: ConsumerMember, surroundings: GroupEnvironment
) -> Callable[[bytes], bool]:
    """Return a function that checks whether the member subscribes to a topic id."""
    names, find_id = consumer.topics_of(member), surroundings.topics.find_id

    def is_subscribed(topic_id: bytes) -> bool:
        topic = find_id(topic_id)
        return topic is not None and topic.name in names

    return is_subscribed


def _is_of_unknown_state(consumer: ConsumerGroup | None, request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether a later version of Kafka has put the member into a state that is unknown here."""
    if consumer is None:
        return False
    member = consumer.members.get(request.member_id)
    if member is None or member.state is not MemberState.UNKNOWN:
        return False
    return request.topic_partitions is None or bool(request.topic_partitions)


def _member(group: Group, consumer: ConsumerGroup, event: ConsumerHeartbeat, result: Result) -> ConsumerMember:
    """Return the member before this request."""
    request = event.request
    member_id = request.member_id or group.new_member_id()
    old = consumer.static_member(request.instance_id)
    if request.member_epoch == 0 and old is not None:
        member = replace_static_member(group, consumer, old, member_id, result)
    else:
        member = consumer.members.get(member_id) or ConsumerMember(member_id)
    if request.member_epoch == 0:
        is_new = member_id not in consumer.members
        result.changes.append(Joined(member_id, request.instance_id, event.client_id, NO_REASON, is_new))
    return member


def _updated(member: ConsumerMember, event: ConsumerHeartbeat) -> ConsumerMember:
    """Return the member with the values of the request; values that the request leaves out stay."""
    request = event.request
    names, timeout_ms = request.subscribed_topic_names, request.rebalance_timeout_ms
    if (
        names is None
        and timeout_ms == NOT_SET
        and (request.instance_id is None or request.instance_id == member.instance_id)
        and request.rack_id is request.server_assignor is request.subscribed_topic_regex is None
        and event.client_id == member.client_id
        and event.client_host == member.client_host
        and member.classic is None
    ):
        return member
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == NOT_SET else timeout_ms,
        assignor=member.assignor if request.server_assignor is None else request.server_assignor,
        topics=member.topics if names is None else frozenset(names),
        expression=member.expression if request.subscribed_topic_regex is None else request.subscribed_topic_regex,
        client_id=event.client_id,
        client_host=event.client_host,
        classic=None,
    )
