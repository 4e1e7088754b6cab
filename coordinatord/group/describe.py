"""DescribeGroups and ListGroups of one group. Read-only."""

from __future__ import annotations

from collections.abc import Sequence

from coordinatord.group.state import Group, Member
from coordinatord.group.states import DEAD, STABLE
from kafka_wire.api.describe_groups import DescribedGroup, DescribedGroupMember
from kafka_wire.api.list_groups import ListedGroup
from kafka_wire.errors import ErrorCode

CLASSIC = "classic"
"""The group type that ListGroups shows."""


def describe(group: Group | None, group_id: str, version: int) -> DescribedGroup:
    """A group's state and members. A group that does not exist is Dead, from v6 with an error (KIP-1043)."""
    if group is None or not group.exists:
        if version >= 6:
            return DescribedGroup(
                error_code=ErrorCode.GROUP_ID_NOT_FOUND,
                error_message=f"Group {group_id} not found.",
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


def list_group(group: Group, states_filter: Sequence[str] = (), types_filter: Sequence[str] = ()) -> ListedGroup | None:
    """The group's entry in ListGroups; None if it does not exist or a filter excludes it. Filters ignore case."""
    if not group.exists:
        return None
    if states_filter and group.state.value.lower() not in {name.lower().strip() for name in states_filter}:
        return None
    if types_filter and CLASSIC not in {name.lower() for name in types_filter}:
        return None
    return ListedGroup(group.group_id, group.protocol_type or "", group.state.value, CLASSIC)


def _described(member: Member, protocol_name: str | None) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=b"" if protocol_name is None else member.metadata(protocol_name),
        member_assignment=member.assignment,
    )
