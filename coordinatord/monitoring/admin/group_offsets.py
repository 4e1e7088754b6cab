"""Offsets of a group of any type: committed offsets, or the start offsets of a share group."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from coordinatord.monitoring.admin import offsets, share_offsets
from coordinatord.monitoring.admin.connection import Cluster
from coordinatord.monitoring.admin.groups import Group

TopicPartition = tuple[str, int]


def offsets_of(cluster: Cluster, group: Group) -> dict[TopicPartition, int | None]:
    """Return the offset at which the group goes on, by partition; None for a share partition without a start offset.
    Raises AdminError.
    """
    if group.is_shared:
        return {each: it.start_offset for each, it in share_offsets.described(cluster, group.group_id).items()}
    return {each: it.offset for each, it in offsets.committed(cluster, group.group_id).items()}


def move(cluster: Cluster, group: str, wanted: Mapping[TopicPartition, int], *, is_shared: bool) -> None:
    """Set the offsets of a group without members. Raises AdminError if one is rejected."""
    if is_shared:
        share_offsets.alter(cluster, group, wanted)
    else:
        offsets.commit(cluster, group, {each: offsets.Committed(offset) for each, offset in wanted.items()})


def delete(cluster: Cluster, group: Group, partitions: Collection[TopicPartition]) -> dict[TopicPartition, str | None]:
    """Delete offsets; return the reasons of failures, by partition, None for a deleted one. A share group's state of
    the whole topics is deleted. Raises AdminError.
    """
    if not group.is_shared:
        return offsets.delete(cluster, group.group_id, partitions)
    refused = share_offsets.delete(cluster, group.group_id, {topic for topic, _ in partitions})
    return {each: refused.get(each[0]) for each in partitions}
