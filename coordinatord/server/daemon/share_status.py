"""The share groups of a daemon for group_status: rows and share windows from the memory of the leaders of their share
partitions, which also have what members have acquired, or from the stored state, if a share partition is not in
delivery. One that another worker or node has is not shown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from coordinatord.coordination.group.state import Group
from coordinatord.coordination.share.coordinator.state import SharePartitionState
from coordinatord.coordination.share.leader import SharePartitionActor
from coordinatord.coordination.share.partition.state import RecordState
from coordinatord.monitoring.analysis.current_lag import Now, Partition
from coordinatord.monitoring.analysis.generations import TopicPartition
from coordinatord.monitoring.analysis.offset_timeline import time_lag
from coordinatord.monitoring.analysis.share_groups import NO_AGE, Look, lag_of, standing, with_look
from coordinatord.monitoring.analysis.share_state import Batch, Deliveries, ShareState, combined, deliveries
from coordinatord.monitoring.analysis.status import Rules
from coordinatord.server.control.share_groups import initialized

if TYPE_CHECKING:
    from coordinatord.server.daemon.assembled import Assembled

Key = tuple[str, str, int]


@dataclass(slots=True)
class Window:
    """The share partitions of a group."""

    rows: list[Now] = field(default_factory=list)
    deliveries: dict[TopicPartition, Deliveries] = field(default_factory=dict)
    acquired: dict[TopicPartition, int] = field(default_factory=dict)


class ShareStatus:
    """The share groups of an assembled daemon."""

    def __init__(self, daemon: Assembled, rules: Rules) -> None:
        self._daemon = daemon
        self._rules = rules
        self._looks: dict[Key, list[Look]] = {}

    def window(self, group: Group, partition_of: Callable[[str, int], Partition], now_ms: int) -> Window:
        """Look at a share group. Called on the admin thread."""
        found, share, group_id = Window(), self._daemon.used_share, group.group_id
        if share is None or group.share is None:
            return found
        members, limit = (
            len(group.share.members),
            share.delivery.partitions.settings.limits(group_id).delivery_count_limit,
        )
        for share_key in initialized(group_id, group.share):
            name, actor = self._daemon.topics.topic_name(share_key[1]), share.delivery.partitions.find(share_key)
            stored = share.stored(share_key)
            if name is None or (stored is None and actor is None):
                continue
            place = (name, share_key[2])
            partition, key = partition_of(*place), (group_id, *place)
            if actor is not None and actor.is_active:
                state, found.acquired[place] = _state(actor)
            elif stored is not None and stored.exists:
                state, found.acquired[place] = _stored_state(stored), 0
            else:
                continue
            shown = found.deliveries[place] = deliveries(state, limit)
            end = None if partition.ends is None else partition.ends.end_offset
            lag = lag_of(state.start_offset, state.delivery_complete_count, end)
            look = Look(now_ms, state.start_offset, end, lag, members, shown)
            looks = self._looks[key] = with_look(self._looks.get(key, ()), look, self._rules.window_ms)
            age = NO_AGE
            if end is not None and shown.oldest is not None:
                age = time_lag(shown.oldest, end, now_ms, partition.points)
            found.rows.append(standing(group_id, *place, looks, now_ms, rules=self._rules, age=age))
        found.rows.sort(key=lambda row: (row.topic, row.partition))
        return found

    def forget(self, now_ms: int) -> None:
        """Drop the looks at share partitions that are not shown any more."""
        self._looks = {key: looks for key, looks in self._looks.items() if looks[-1].time_ms == now_ms}


def _stored_state(stored: SharePartitionState) -> ShareState:
    batches = tuple(Batch(*each) for each in stored.batches)
    return ShareState(stored.state_epoch, 0, stored.start_offset, stored.delivery_complete_count, batches)


def _state(actor: SharePartitionActor) -> tuple[ShareState, int]:
    """Return the present state of a share partition, without the records that members have acquired, and their number.
    A change that is being persisted counts.
    """
    share, batches, acquired = actor.share, list[Batch](), 0
    for each in list(share.batches):
        for first, last, record in each.states():
            if record.state is RecordState.ACQUIRED:
                acquired += last - first + 1
            elif record.delivery_count:  # others were never delivered
                batches.append(Batch(first, last, int(record.state), record.delivery_count))
    start_offset, done = share.start_offset, share.delivery_complete_count
    return ShareState(share.state_epoch, 0, start_offset, done, combined(batches, start_offset)), acquired
