"""Conversion of a consumer group into a classic one, when the last member that uses the consumer protocol has left.

The members keep their ids, and their targets as assignments; the group epoch becomes their generation. The group
rebalances at once, unless a static member has replaced the last one and the assignment is up to date.
"""

from __future__ import annotations

from collections.abc import Collection

from coordinatord.coordination.group.classic.members import add_member
from coordinatord.coordination.group.classic.members import keep_alive as keep_classic_alive
from coordinatord.coordination.group.classic.protocol_selection import select_protocol
from coordinatord.coordination.group.classic.rebalance import prepare_rebalance, write_metadata
from coordinatord.coordination.group.classic.subscription import subscribed_topics
from coordinatord.coordination.group.consumer.consumer_protocol import write_assignment
from coordinatord.coordination.group.consumer.epoch_record import abandon
from coordinatord.coordination.group.consumer.records import group_tombstones
from coordinatord.coordination.group.consumer.sessions import forget_all
from coordinatord.coordination.group.consumer.state import ConsumerGroup, ConsumerMember, GroupEnvironment
from coordinatord.coordination.group.replay import write
from coordinatord.coordination.group.result import Result, Trigger
from coordinatord.coordination.group.state import HEARTBEAT_RESULTS, Group, Member
from coordinatord.coordination.group.states import STABLE
from kafka_wire.errors import DecodeError
from kafka_wire.records.consumer_assignment import version_of

CONSUMER = "consumer"


def may_become_classic(group: Group, surroundings: GroupEnvironment, staying: int) -> bool:
    """Return whether group.consumer.migration.policy and group.max.size allow the conversion of `staying` members."""
    return surroundings.limits.downgrades and 0 < staying <= group.settings.max_size


def become_classic_group(
    group: Group,
    consumer: ConsumerGroup,
    surroundings: GroupEnvironment,
    leaving: Collection[str],
    generation_id: int,
    trigger: Trigger | None,
    now_ms: int,
    result: Result,
) -> None:
    """Convert the group into a classic one, without members that are
    `leaving`. With a `trigger` the group rebalances.
    """
    members = [_converted(member) for member_id, member in consumer.members.items() if member_id not in leaving]
    targets = dict(consumer.target)
    abandon(consumer, trigger, now_ms, result)
    forget_all(group.group_id, consumer, result)
    for record in group_tombstones(group.group_id, list(consumer.members), list(consumer.resolved)):
        write(group, *record, result)
    group.consumer = None
    group.generation_id = generation_id
    for member in members:
        add_member(group, member, CONSUMER)
    group.protocol_name = protocol_name = select_protocol(group)
    group.subscribed_topics = subscribed_topics(group)
    group.state = STABLE
    group.heartbeat_result = HEARTBEAT_RESULTS[STABLE]
    group.current_state_timestamp_ms = now_ms
    for member in members:
        target = targets.get(member.member_id, {})
        try:
            version = version_of(member.metadata(protocol_name))
        except DecodeError:
            version = 0  # the metadata of a protocol that is not the member's first has not been validated
        member.assignment = write_assignment(target, surroundings.topics, version)
    write_metadata(group, result)
    for member in members:
        keep_classic_alive(group, member, member.session_timeout_ms, now_ms, result)
    if trigger is not None:
        prepare_rebalance(group, trigger, now_ms, result)


def _converted(member: ConsumerMember) -> Member:
    classic = member.classic
    assert classic is not None, "the remaining members use the classic protocol"
    return Member(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        classic.session_timeout_ms,
        tuple((protocol.name, protocol.metadata) for protocol in classic.supported_protocols),
    )
