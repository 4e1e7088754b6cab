"""Looks at the share groups of a cluster: the rows of their partitions, judged by the looks of a window."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from coordinatord.monitoring.admin import share_offsets
from coordinatord.monitoring.admin.connection import Cluster
from coordinatord.monitoring.admin.groups import SHARE, describe, list_groups
from coordinatord.monitoring.admin.offsets import LATEST, at_time, partitions_of
from coordinatord.monitoring.admin.record_times import record_times
from coordinatord.monitoring.analysis.current_lag import Now
from coordinatord.monitoring.analysis.offset_timeline import time_lag
from coordinatord.monitoring.analysis.share_groups import NO_AGE, Look, standing, with_look
from coordinatord.monitoring.analysis.share_state import DELIVERY_COUNT_LIMIT, Deliveries, Replayed, deliveries
from coordinatord.monitoring.analysis.status import Rules
from coordinatord.monitoring.offsets_log.source.share_state_topic import SharePartition
from kafka_wire.api.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from kafka_wire.api.list_groups import ListGroupsRequest

TYPES_FROM = 5
"""The first version of ListGroups that has the types of groups."""

Key = tuple[str, str, int]
TopicPartition = tuple[str, int]


Stored = Mapping[SharePartition, Replayed]


class ShareGroupRows(NamedTuple):
    """A share group at present: the number of its members, a row for each share partition with a start offset, and of
    those whose stored state is known the deliveries, and the times in ms at which the state changed last.
    """

    group_id: str
    members: int
    rows: list[Now]
    deliveries: dict[TopicPartition, Deliveries]
    changes_ms: dict[TopicPartition, int]


@dataclass(slots=True)
class ShareLooks:
    """The looks at one cluster."""

    rules: Rules = field(default_factory=Rules)
    limits: dict[str, int] = field(default_factory=dict)
    """Delivery count limits of the groups, from the last look."""
    _looks: dict[Key, list[Look]] = field(default_factory=dict)
    _times: dict[tuple[str, int, int], int] = field(default_factory=dict)
    """Timestamps of records, by topic, partition and offset: of those that were the oldest ones at the last look."""

    def look(
        self, cluster: Cluster, now_ms: int, is_wanted: Callable[[str], bool], stored: Callable[[], Stored]
    ) -> list[ShareGroupRows]:
        """Return the wanted share groups, by name; none of a cluster that has no such groups. `stored` returns the
        stored states, and is called only if there are share groups. Raises AdminError.
        """
        if cluster.newest(ListGroupsRequest) < TYPES_FROM or not cluster.serves(DescribeShareGroupOffsetsRequest):
            return []
        names = [each.group_id for each in list_groups(cluster, kinds=[SHARE]) if is_wanted(each.group_id)]
        groups = {name: group for name, group in describe(cluster, names).items() if group.is_shared}
        shared = {name: share_offsets.described(cluster, name) for name in groups}
        leaders, _ = partitions_of(cluster, {topic for places in shared.values() for topic, _ in places})
        led = {place: LATEST for places in shared.values() for place in places if leaders.get(place, -1) >= 0}
        ends = {place: offset for place, (offset, _) in at_time(cluster, led).items()}
        self.limits = share_offsets.delivery_limits(cluster, list(groups))
        states = stored() if groups else {}
        looks: dict[Key, Look] = {}
        changes_ms: dict[Key, int] = {}
        for name, group in groups.items():
            limit = self.limits.get(name, DELIVERY_COUNT_LIMIT)
            for (topic, number), it in sorted(shared[name].items()):
                if it.start_offset is None:
                    continue
                replayed = states.get(SharePartition(name, it.topic_id, number))
                state = None if replayed is None else replayed.state()
                looks[name, topic, number] = Look(
                    now_ms, it.start_offset, ends.get((topic, number)), it.lag, len(group.members),
                    None if state is None else deliveries(state, limit),
                )  # fmt: skip
                if replayed is not None and replayed.changed_ms is not None:
                    changes_ms[name, topic, number] = replayed.changed_ms
        self._read_times(cluster, looks, leaders)
        window_ms = self.rules.window_ms
        self._looks = {key: with_look(self._looks.get(key, ()), look, window_ms) for key, look in looks.items()}
        found = {name: ShareGroupRows(name, len(group.members), [], {}, {}) for name, group in groups.items()}
        for key, look in looks.items():
            name, topic, number = key
            found[name].rows.append(self._row(*key, now_ms))
            if look.deliveries is not None:
                found[name].deliveries[topic, number] = look.deliveries
            if key in changes_ms:
                found[name].changes_ms[topic, number] = changes_ms[key]
        return [*found.values()]

    def _row(self, name: str, topic: str, number: int, now_ms: int) -> Now:
        looks, age = self._looks[name, topic, number], NO_AGE
        oldest, end = _oldest(looks[-1]), looks[-1].end_offset
        if oldest is not None and end is not None:
            age = time_lag(oldest, end, now_ms, (), self._times.get((topic, number, oldest)))
        return standing(name, topic, number, looks, now_ms, rules=self.rules, age=age)

    def _read_times(self, cluster: Cluster, looks: Mapping[Key, Look], leaders: Mapping[TopicPartition, int]) -> None:
        """Read the timestamps of the oldest unacknowledged records that are not known from the look before."""
        wanted = {
            (topic, number, oldest)
            for (_, topic, number), look in looks.items()
            for oldest in [_oldest(look)]
            if oldest is not None and look.end_offset is not None and oldest < look.end_offset
        }
        self._times = {place: time_ms for place, time_ms in self._times.items() if place in wanted}
        left = wanted - self._times.keys()
        while left:  # as often as several groups stand at different offsets of a partition
            some = {(topic, number): offset for topic, number, offset in left}
            for (topic, number), time_ms in record_times(cluster, some, leaders).items():
                self._times[topic, number, some[topic, number]] = time_ms
            left = {(topic, number, offset) for topic, number, offset in left if some[topic, number] != offset}


def _oldest(look: Look) -> int | None:
    """Return the first offset that is not acknowledged: without a stored state, the start offset."""
    return look.start_offset if look.deliveries is None else look.deliveries.oldest
