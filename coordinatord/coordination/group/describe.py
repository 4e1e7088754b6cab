"""Responses to DescribeGroups and ListGroups for one group. Read-only."""

from __future__ import annotations

from collections.abc import Sequence, Set

from coordinatord.coordination.group.state import Group, Member
from coordinatord.coordination.group.states import DEAD, STABLE
from kafka_wire.api.describe_groups import DescribedGroup, DescribedGroupMember
from kafka_wire.api.list_groups import ListedGroup
from kafka_wire.errors import ErrorCode

CLASSIC = "classic"
CONSUMER = "consumer"
SHARE = "share"
"""The group types that ListGroups returns."""


def describe(group: Group | None, group_id: str, version: int) -> DescribedGroup:
    """Return a group's state and members. A group that does not exist is Dead, from v6 with an error (KIP-1043). A
    group of the consumer protocol is Dead, too: ConsumerGroupDescribe describes it, as ShareGroupDescribe does share
    groups.
    """
    if group is None or not group.exists or group.consumer is not None or group.share is not None:
        if version >= 6:
            is_there = group is not None and group.exists
            return DescribedGroup(
                error_code=ErrorCode.GROUP_ID_NOT_FOUND,
                error_message=f"Group {group_id} {'is not a classic group' if is_there else 'not found'}.",
                group_id=group_id,
                group_state=DEAD.value,
            )
        return DescribedGroup(group_id=group_id, group_state=DEAD.value)
    # Outside of Stable, no generation has agreed on the protocol and the metadata.
    protocol_name = group.protocol_name if group.state is STABLE else None
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol_name or "",
        members=[_described(member, protocol_name) for member in group.members.values()],
    )


def states_of(filters: Sequence[str] | None) -> Set[str]:
    """Return the states that a ListGroups request filters by, in lower case: filters ignore case."""
    return {name.lower().strip() for name in filters or ()}


def types_of(filters: Sequence[str] | None) -> Set[str]:
    """Return the group types that a ListGroups request filters by, in lower case."""
    return {name.lower() for name in filters or ()}


def list_group(group: Group, states: Set[str] = frozenset(), types: Set[str] = frozenset()) -> ListedGroup | None:
    """Return the group's entry in ListGroups; None if the group does not exist, or does not match the filters."""
    if not group.exists:
        return None
    modern = group.share or group.consumer
    state = group.state.value if modern is None else modern.state.shown
    group_type = SHARE if group.share is not None else CLASSIC if modern is None else CONSUMER
    if (states and state.lower() not in states) or (types and group_type not in types):
        return None
    protocol_type = group.protocol_type or "" if modern is None else group_type
    return ListedGroup(group.group_id, protocol_type, state, group_type)


def _described(member: Member, protocol_name: str | None) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=b"" if protocol_name is None else member.metadata(protocol_name),
        member_assignment=member.assignment,
    )
