"""The series of a view. Names and units are those of kafka-lag-exporter (`kafka_…`) and kminion (`kminion_…`) where
the meaning is equal, so that existing dashboards continue to work; series that neither has are `coordinatord_…`.

An unknown value has no sample: a lag of 0 is a sample. Members are not labels: each rebalance would make new series.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from coordinatord.monitoring.analysis.current_lag import Now
from coordinatord.monitoring.analysis.members import CRASH_LOOP
from coordinatord.monitoring.analysis.severity import ORDER
from coordinatord.monitoring.analysis.status import STUCK, UNSUBSCRIBED
from coordinatord.monitoring.dashboard.view import GroupView, View

PARTITION = ("cluster_name", "topic", "partition")
PLACE = ("cluster_name", "group", "topic", "partition")
GROUP = ("cluster_name", "group")
KMINION = ("cluster_name", "group_id")

SERIES: dict[str, tuple[tuple[str, ...], str]] = {
    "kafka_partition_earliest_offset": (PARTITION, "The first offset that retention has kept."),
    "kafka_partition_latest_offset": (PARTITION, "The end offset of a partition that a group reads."),
    "kafka_consumergroup_group_offset": (PLACE, "The committed offset, or the start offset of a share group."),
    "kafka_consumergroup_group_lag": (PLACE, "Unread records; never negative. Of a share group as the cluster counts."),
    "kafka_consumergroup_group_lag_seconds": (
        PLACE,
        "Seconds for which the oldest unread record has waited, at least: the watcher knows of a record from the look "
        "after it was appended.",
    ),
    "kafka_consumergroup_group_topic_sum_lag": (("cluster_name", "group", "topic"), "Unread records of a topic."),
    "kafka_consumergroup_group_sum_lag": (GROUP, "Unread records of all partitions."),
    "kafka_consumergroup_group_max_lag": (GROUP, "The largest lag of a partition."),
    "kafka_consumergroup_group_max_lag_seconds": (
        GROUP,
        "The longest time lag of a partition, without topics that no member subscribes to.",
    ),
    "coordinatord_group_lost_records": (
        PLACE,
        "Records between the committed offset and the first one that is kept: deleted before they were read.",
    ),
    "coordinatord_group_retention_left_seconds": (
        PLACE,
        "Seconds until retention.ms lets the oldest unread record be deleted, at most; only where it is known.",
    ),
    "kminion_kafka_consumer_group_members": (KMINION, "Members; 0 for a group that has lost all of them."),
    "kminion_kafka_consumer_group_offset_commits_total": (
        KMINION,
        "Offsets committed, one for each partition of a commit, since the watcher started.",
    ),
    "coordinatord_group_last_commit_timestamp_seconds": (GROUP, "When the group committed last."),
    "coordinatord_group_status": (
        (*GROUP, "status"),
        f"1 for the worst that is to be said of the group: {', '.join(ORDER[:-1])} or {ORDER[-1]}.",
    ),
    "coordinatord_group_info": ((*GROUP, "type"), "1 for the type of the group: classic, consumer or share."),
    "coordinatord_group_alarming_partitions": (
        GROUP,
        "Partitions whose own status needs attention, whatever the status of the group.",
    ),
    "coordinatord_group_stuck_partitions": (GROUP, "Partitions whose offset is committed again and again, unmoved."),
    "coordinatord_share_group_done_records": (
        PLACE,
        "Records from the start offset of a share group on that are acknowledged or archived.",
    ),
    "coordinatord_share_group_suspected_records": (
        PLACE,
        "Records of a share group that wait for another delivery, with half of the deliveries that the limit allows.",
    ),
    "coordinatord_share_group_most_deliveries": (
        PLACE,
        "The highest delivery count of a record from the start offset of a share group on.",
    ),
    "coordinatord_share_group_state_changed_timestamp_seconds": (
        PLACE,
        "Time at which the stored state of a share group's partition changed last.",
    ),
    "coordinatord_share_group_redeliveries_total": (
        GROUP,
        "Deliveries of records that had been delivered before, as far as they are stored, since the watcher started.",
    ),
    "coordinatord_share_group_archived_total": (
        GROUP,
        "Records of a share group that were archived: rejected, or delivered as often as the limit allows, since the "
        "watcher started.",
    ),
    "coordinatord_group_storm": (GROUP, "1 while rebalances follow each other: five or more within ten minutes."),
    "coordinatord_group_crash_loops": (GROUP, "Clients that join again and again, each time for a short while."),
    "coordinatord_group_rebalances_total": (
        (*GROUP, "cause"),
        "Rebalances by what triggered them, since the watcher started.",
    ),
    "coordinatord_watch_groups": (("cluster_name",), "Groups that have series."),
    "coordinatord_watch_left_out": (
        ("cluster_name", "kind"),
        "Groups and partitions beyond the limits, without series.",
    ),
    "coordinatord_watch_age_seconds": (
        ("cluster_name",),
        "Age of the other series' values: it grows while the cluster cannot be read.",
    ),
}
"""Labels and meaning of each series, under the name that a query uses."""

Row = tuple[str, tuple[str, ...], float]


class WatchCollector(Collector):
    """The series of the latest view. `view` is called at each scrape; None if there is none yet."""

    def __init__(self, view: Callable[[], View | None], cluster: Callable[[], str], now_ms: Callable[[], int]) -> None:
        self._view = view
        self._cluster = cluster
        self._now_ms = now_ms

    def describe(self) -> Iterable[Metric]:
        """Empty: the registry only uses it to detect duplicate names."""
        return ()

    def collect(self) -> Iterator[Metric]:
        view = self._view()
        if view is None:
            return
        families = {name: _family(name) for name in SERIES}
        cluster = self._cluster()
        for name, labels, value in rows(view, self._now_ms()):
            families[name].add_metric((cluster, *labels), value)
        yield from families.values()


def _family(name: str) -> Any:
    labels, text = SERIES[name]
    if name.endswith("_total"):
        return CounterMetricFamily(name.removesuffix("_total"), text, labels=labels)
    return GaugeMetricFamily(name, text, labels=labels)


def rows(view: View, now_ms: int) -> Iterator[Row]:
    """Yield (name, labels after the cluster's, value) of each sample."""
    for ending in view.endings:
        place = (ending.topic, str(ending.partition))
        if ending.log_start_offset is not None:
            yield "kafka_partition_earliest_offset", place, ending.log_start_offset
        yield "kafka_partition_latest_offset", place, ending.end_offset
    for group, word, _why in view.by_urgency:
        yield from _of_partitions(group)
        yield from _of_group(group, word)
    yield "coordinatord_watch_groups", (), len(view.groups)
    yield "coordinatord_watch_left_out", ("groups",), view.left_out_groups
    yield "coordinatord_watch_left_out", ("partitions",), view.left_out_partitions
    yield "coordinatord_watch_age_seconds", (), max(0, now_ms - view.at_ms) / 1000


def _of_partitions(group: GroupView) -> Iterator[Row]:
    sums: dict[str, int] = {}
    prefix = "kafka_consumergroup_group_"
    for row in group.rows:
        place = (group.group_id, row.topic, str(row.partition))
        if row.committed_offset is not None:
            yield f"{prefix}offset", place, row.committed_offset
        if row.lag is not None:
            yield f"{prefix}lag", place, row.lag
            sums[row.topic] = sums.get(row.topic, 0) + row.lag
        if row.time_lag_ms is not None:
            yield f"{prefix}lag_seconds", place, _waited_s(row)
        if row.lost_records is not None:
            yield "coordinatord_group_lost_records", place, row.lost_records
        if row.retention_left_ms is not None:
            yield "coordinatord_group_retention_left_seconds", place, row.retention_left_ms / 1000
    for (topic, number), shared in group.deliveries.items():
        place = (group.group_id, topic, str(number))
        yield "coordinatord_share_group_done_records", place, shared.done
        yield "coordinatord_share_group_suspected_records", place, shared.suspected
        yield "coordinatord_share_group_most_deliveries", place, shared.most_deliveries
    for (topic, number), changed_ms in group.state_changes_ms.items():
        place = (group.group_id, topic, str(number))
        yield "coordinatord_share_group_state_changed_timestamp_seconds", place, changed_ms / 1000
    for topic, lag in sums.items():
        yield f"{prefix}topic_sum_lag", (group.group_id, topic), lag


def _waited_s(row: Now) -> float:
    """Return the least time in seconds that the oldest unread record of the row has waited."""
    return max(0, (row.time_lag_ms or 0) - (row.time_lag_error_ms or 0)) / 1000


def _of_group(group: GroupView, word: str) -> Iterator[Row]:
    now, name = group.now, (group.group_id,)
    if now is not None:
        if now.lag is not None and now.max_lag is not None:
            yield "kafka_consumergroup_group_sum_lag", name, now.lag
            yield "kafka_consumergroup_group_max_lag", name, now.max_lag
        if now.max_time_lag_ms is not None:
            rows = [row for row in group.rows if row.status != UNSUBSCRIBED]
            yield "kafka_consumergroup_group_max_lag_seconds", name, max(map(_waited_s, rows), default=0)
        if now.last_commit_ms is not None:
            yield "coordinatord_group_last_commit_timestamp_seconds", name, now.last_commit_ms / 1000
    if group.members is not None:
        yield "kminion_kafka_consumer_group_members", name, group.members
    if group.commits is not None:
        yield "kminion_kafka_consumer_group_offset_commits_total", name, group.commits
    yield "coordinatord_group_status", (*name, word), 1
    if group.group_type is not None:
        yield "coordinatord_group_info", (*name, group.group_type), 1
    yield "coordinatord_group_alarming_partitions", name, sum(row.alarming for row in group.rows)
    yield "coordinatord_group_stuck_partitions", name, sum(row.status == STUCK for row in group.rows)
    yield "coordinatord_group_storm", name, float(group.has_storm)
    yield "coordinatord_group_crash_loops", name, sum(each.kind == CRASH_LOOP for each in group.trouble)
    if group.redelivered is not None:
        yield "coordinatord_share_group_redeliveries_total", name, group.redelivered
    if group.archived is not None:
        yield "coordinatord_share_group_archived_total", name, group.archived
    for cause, count in sorted(group.causes.items()):
        yield "coordinatord_group_rebalances_total", (*name, cause), count
