"""The share groups of a log in directories or in a database: rows of their partitions by the rules for looks at a
cluster, from the stored states, the ends of partitions, and the members in the offsets log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from coordinatord.monitoring.analysis.current_lag import Partition
from coordinatord.monitoring.analysis.offset_timeline import Point
from coordinatord.monitoring.analysis.share_log import MEMBERS, Logged, logged, member_counts
from coordinatord.monitoring.analysis.share_state import DELIVERY_COUNT_LIMIT, Replayed
from coordinatord.monitoring.analysis.status import Rules
from coordinatord.monitoring.offsets_log.source.arrow import batches
from coordinatord.monitoring.offsets_log.source.end_offsets import (
    Ending,
    RecordTimes,
    from_broker,
    from_directories,
    is_place,
)
from coordinatord.monitoring.offsets_log.source.options import Options
from coordinatord.monitoring.offsets_log.source.share_limits import delivery_limits
from coordinatord.monitoring.offsets_log.source.share_state_topic import SharePartition
from coordinatord.monitoring.offsets_log.source.topic_names import names_in_directories, topic_text


def share_groups(
    options: Options,
    ends: str | None,
    broker: Mapping[str, Any],
    shared: Mapping[SharePartition, Replayed],
    now_ms: int,
    rules: Rules,
) -> list[Logged]:
    """Return the share partitions of a log. `ends` is a broker's log directory, a database or HOST:PORT, None without
    ends; `broker` are kafka-python's settings for it. Raises SourceError.
    """
    directories = [ends] if ends is not None and is_place(ends) else []
    names = names_in_directories([*options.paths, *directories])
    named = {place: names.get(text, text) for place in shared for text in [topic_text(place.topic_id)]}
    places = {(topic, place.partition) for place, topic in named.items()}
    endings: list[Ending] = []
    if directories:
        endings = from_directories(directories, now_ms, frozenset(topic for topic, _ in places))
    elif ends is not None:
        endings = from_broker(ends, now_ms, places, broker, rules.window_ms)
    partitions = {
        (each.topic, each.partition): Partition.of(
            each.topic, each.partition, each.ends, [*each.points, Point(each.end_offset, now_ms)]
        )
        for each in endings
    }
    members = member_counts(
        row for batch in batches(replace(options, kinds=(MEMBERS,)), MEMBERS) for row in batch.to_pylist()
    )
    limits = delivery_limits(options, {place.group_id for place in shared})
    time_of = RecordTimes(directories)
    rows = []
    for place, topic in named.items():
        row = logged(
            place.group_id,
            partitions.get((topic, place.partition), Partition(topic, place.partition)),
            shared[place],
            members.get(place.group_id, []),
            now_ms,
            rules=rules,
            limit=limits.get(place.group_id, DELIVERY_COUNT_LIMIT),
            record_time=time_of,
        )
        if row is not None:
            rows.append(row)
    return rows
