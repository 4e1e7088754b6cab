"""Further state of partitions from a broker: tails (source/markers.py), earlier ends, retention.ms; the session
timeouts of groups; and the retention of unused offsets. Values that the user may not request stay unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kafka.protocol.admin import DescribeConfigsRequest, ListTransactionsRequest

from coordinatord.monitoring.analysis.ends import Open, Tail
from coordinatord.monitoring.analysis.generations import TopicPartition
from coordinatord.monitoring.analysis.offset_timeline import Point
from coordinatord.monitoring.offsets_log.source.cluster import LATEST, Cluster
from coordinatord.monitoring.offsets_log.source.markers import BACK_BYTES, batches, readable_end
from coordinatord.monitoring.offsets_log.source.options import PATIENCE_S
from kafka_wire.records.batch import TRANSACTIONAL

MARKER_BYTES = 512
"""Size limit of a marker's batch, which has 78 bytes: a larger batch is no marker."""
BACK = 256
"""Number of offsets before the end that are searched for the last record that can be read."""
OPEN_BYTES = 64 << 10
"""A first batch of an open transaction that is larger is not read, and its producer stays unknown."""
MAX_PRODUCERS = 100
"""Maximum number of producers whose transactional ids are requested."""
TOPIC, BROKER, GROUP = 2, 4, 32
"""Types of resources whose configurations are described: org.apache.kafka.common.config.ConfigResource."""
PARTS = (0.05, 0.25, 0.5, 0.75, 1.0)
LONGEST_MS = 24 * 3_600_000
"""Ages of the timestamps for which the ends of a partition are requested: these parts of a window, then twice as long
each time, up to LONGEST_MS.
"""


def tails(
    cluster: Cluster, bounds: Mapping[TopicPartition, tuple[int, int]], among: Collection[TopicPartition] | None = None
) -> dict[TopicPartition, Tail]:
    """Return the tails of partitions with these first offsets and ends. The tails of `among` are read; for the other
    partitions only the last stable offset is requested. Raises SourceError.
    """
    filled = {place: end for place, (start, end) in bounds.items() if end > start}
    stable = cluster.list_offsets(filled, LATEST, committed=True)
    chosen = {place: end for place, end in filled.items() if among is None or place in among}
    last = cluster.peek({place: end - 1 for place, end in chosen.items()}, MARKER_BYTES)
    suspects = {place for place, data in last.items() if any(each.marker is not None for each in batches(data))}
    waiting = {place for place, end in chosen.items() if stable.get(place, end) < end}
    begins = {place: max(bounds[place][0], chosen[place] - BACK) for place in suspects}
    ends = _readable(cluster, begins, chosen)
    before = {place: max(bounds[place][0], stable[place] - BACK) for place in waiting}
    stable_ends = _readable(cluster, before, stable)
    opened = _opened(cluster, {place: stable[place] for place in waiting})
    return {
        place: Tail(ends.get(place), stable.get(place), stable_ends.get(place), opened.get(place)) for place in filled
    }


def _readable(
    cluster: Cluster, begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for place, data in cluster.peek(begins, BACK_BYTES).items() if begins else ():
        end = readable_end(batches(data), begins[place], ends[place])
        if end is not None:
            found[place] = end
    return found


def _opened(cluster: Cluster, stable: Mapping[TopicPartition, int]) -> dict[TopicPartition, Open]:
    """Return the transactions that begin at last stable offsets, with their ids if the user may describe them."""
    found: dict[TopicPartition, Open] = {}
    for place, data in cluster.peek(stable, OPEN_BYTES).items() if stable else ():
        header = next((each.header for each in batches(data)), None)
        if header is not None and header.attributes & TRANSACTIONAL:
            found[place] = Open(header.producer_id, header.base_timestamp)
    producers = sorted({each.producer_id for each in found.values() if each.producer_id is not None})[:MAX_PRODUCERS]
    names: dict[int, str] = {}
    for node in cluster.nodes if producers else ():
        answer = cluster.ask(ListTransactionsRequest(state_filters=[], producer_id_filters=producers), node)
        for each in () if answer is None else answer.transaction_states or ():
            names[each.producer_id] = each.transactional_id
    return {place: each._replace(transactional_id=names.get(each.producer_id or -1)) for place, each in found.items()}


def retention(cluster: Cluster, topics: Collection[str]) -> dict[str, int]:
    """Return retention.ms of the topics that the user may describe; without compacted ones, or those that keep all."""
    found: dict[str, int] = {}
    for topic, values in _configs(cluster, TOPIC, topics, ["retention.ms", "cleanup.policy"]).items():
        if "delete" in values.get("cleanup.policy", "") and values.get("retention.ms", "-1") != "-1":
            found[topic] = int(values["retention.ms"])
    return found


def offsets_retention(cluster: Cluster) -> int | None:
    """Return the retention of unused offsets in ms, as a broker has it; None if the user may not describe it."""
    name = "offsets.retention.minutes"
    for node in sorted(cluster.nodes)[:1]:
        minutes = _configs(cluster, BROKER, [str(node)], [name], node).get(str(node), {}).get(name, "")
        return int(minutes) * 60_000 if minutes.isdecimal() else None
    return None


def sessions_from_broker(bootstrap: str, settings: Mapping[str, Any], groups: Collection[str]) -> dict[str, int]:
    """Return consumer.session.timeout.ms of the groups that the user may describe: their own, or the cluster's. None of
    a cluster without the consumer protocol. Raises SourceError.
    """
    with Cluster(bootstrap, settings, PATIENCE_S) as cluster:
        return {
            group: int(value) for group, value in group_configs(cluster, "consumer.session.timeout.ms", groups).items()
        }


def group_configs(cluster: Cluster, name: str, groups: Collection[str]) -> dict[str, str]:
    """Return the value of a setting of the groups that the user may describe: their own, or the cluster's."""
    found = _configs(cluster, GROUP, groups, [name])
    return {group: values[name] for group, values in found.items() if values.get(name)}


def _configs(
    cluster: Cluster, kind: int, resources: Collection[str], keys: Sequence[str], node: int | None = None
) -> dict[str, dict[str, str]]:
    """Return the values of these configurations of each resource that the user may describe."""
    resource = DescribeConfigsRequest.DescribeConfigsResource
    wanted = [resource(resource_type=kind, resource_name=name, configuration_keys=keys) for name in sorted(resources)]
    answer = cluster.ask(DescribeConfigsRequest(resources=wanted), node) if wanted else None
    return {
        each.resource_name: {config.name: config.value or "" for config in each.configs or ()}
        for each in (() if answer is None else answer.results)
    }


def times_ago(window_ms: int) -> list[int]:
    """Return the ages in milliseconds for which the ends are requested."""
    found = [round(part * window_ms) for part in PARTS]
    while found[-1] < LONGEST_MS:
        found.append(2 * found[-1])
    return found


def earlier(
    cluster: Cluster, bounds: Mapping[TopicPartition, tuple[int, int]], now_ms: int, window_ms: int
) -> dict[TopicPartition, list[Point]]:
    """Return earlier ends of partitions, by the timestamps of their records: the offset of the first record of a time
    or later. For a caller that has no earlier samples of a cluster.
    """
    found: dict[TopicPartition, list[Point]] = {}
    for ago_ms in times_ago(window_ms):
        for place, offset in cluster.list_offsets(bounds, now_ms - ago_ms).items():
            start, end = bounds[place]
            found.setdefault(place, []).append(Point(end if offset < 0 else max(start, offset), now_ms - ago_ms))
    return found
