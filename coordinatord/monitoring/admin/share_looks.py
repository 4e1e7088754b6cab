"""Looks at the share groups of a cluster: the rows of their partitions, judged by the looks of a window."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from coordinatord.monitoring.admin import share_offsets
from coordinatord.monitoring.admin.connection import Cluster
from coordinatord.monitoring.admin.groups import SHARE, describe, list_groups
from coordinatord.monitoring.admin.offsets import LATEST, at_time, partitions_of
from coordinatord.monitoring.analysis.current_lag import Now
from coordinatord.monitoring.analysis.share_groups import Look, standing
from coordinatord.monitoring.analysis.share_state import DELIVERY_COUNT_LIMIT, Deliveries, ShareState, deliveries
from coordinatord.monitoring.analysis.status import Rules
from coordinatord.monitoring.offsets_log.source.share_state_topic import SharePartition
from kafka_wire.api.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from kafka_wire.api.list_groups import ListGroupsRequest

LOOKS = 120
"""Maximum number of looks that are kept of a share partition: further ones replace every second one of the older."""
TYPES_FROM = 5
"""The first version of ListGroups that has the types of groups."""

Key = tuple[str, str, int]
TopicPartition = tuple[str, int]


States = Mapping[SharePartition, ShareState]


class ShareGroupRows(NamedTuple):
    """A share group at present: the number of its members, a row for each share partition with a start offset, and the
    deliveries of those whose stored state is known.
    """

    group_id: str
    members: int
    rows: list[Now]
    deliveries: dict[TopicPartition, Deliveries]


@dataclass(slots=True)
class ShareLooks:
    """The looks at one cluster."""

    rules: Rules = field(default_factory=Rules)
    limits: dict[str, int] = field(default_factory=dict)
    """Delivery count limits of the groups, from the last look."""
    _looks: dict[Key, list[Look]] = field(default_factory=dict)

    def look(
        self, cluster: Cluster, now_ms: int, is_wanted: Callable[[str], bool], stored: Callable[[], States]
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
        kept: dict[Key, list[Look]] = {}
        found = []
        for name, group in groups.items():
            rows = []
            counted = {}
            limit = self.limits.get(name, DELIVERY_COUNT_LIMIT)
            for (topic, number), it in sorted(shared[name].items()):
                if it.start_offset is None:
                    continue
                state = states.get(SharePartition(name, it.topic_id, number))
                if state is not None:
                    counted[topic, number] = deliveries(state, limit)
                look = Look(
                    now_ms, it.start_offset, ends.get((topic, number)), it.lag, len(group.members),
                    counted.get((topic, number)),
                )  # fmt: skip
                looks = kept[name, topic, number] = self._with((name, topic, number), look)
                rows.append(standing(name, topic, number, looks, now_ms, rules=self.rules))
            found.append(ShareGroupRows(name, len(group.members), rows, counted))
        self._looks = kept
        return found

    def _with(self, key: Key, look: Look) -> list[Look]:
        """Return the looks of the window at a share partition, with this one."""
        since_ms = look.time_ms - self.rules.window_ms
        looks = [each for each in self._looks.get(key, ()) if each.time_ms >= since_ms]
        if looks and look.start_offset < looks[-1].start_offset:
            looks = []  # it was reset
        if len(looks) >= LOOKS:
            looks = [*looks[: LOOKS // 2 : 2], *looks[LOOKS // 2 :]]
        return [*looks, look]
