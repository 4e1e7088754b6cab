"""Settings of share groups: Kafka's names and defaults. They are rows of the one table (settings.py)."""

from __future__ import annotations

import dataclasses

from coordinatord.base.config.access import AdmissionSettings
from coordinatord.base.config.setting_types import Setting, boolean, declared, integer, parsed, text, words

HOUR_MS = 3_600_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False, init=False, eq=False)
class ShareSettings(AdmissionSettings):
    """The settings of share groups (KIP-932)."""

    group_share_session_timeout_ms: int = integer(45_000, "Session timeout of share group members.", minimum=1)
    group_share_min_session_timeout_ms: int = integer(
        45_000, "The least share.session.timeout.ms of a group.", minimum=1
    )
    group_share_max_session_timeout_ms: int = integer(
        60_000, "The largest share.session.timeout.ms of a group.", minimum=1
    )
    group_share_heartbeat_interval_ms: int = integer(5_000, "Heartbeat interval of share group members.", minimum=1)
    group_share_min_heartbeat_interval_ms: int = integer(
        5_000, "The least share.heartbeat.interval.ms of a group.", minimum=1
    )
    group_share_max_heartbeat_interval_ms: int = integer(
        15_000, "The largest share.heartbeat.interval.ms of a group.", minimum=1
    )
    group_share_assignment_interval_ms: int = integer(
        1_000, "The least time between two assignments of a share group; 0: no limit."
    )
    group_share_min_assignment_interval_ms: int = integer(0, "The least share.assignment.interval.ms of a group.")
    group_share_max_assignment_interval_ms: int = integer(
        15_000, "The largest share.assignment.interval.ms of a group."
    )
    group_share_max_size: int = integer(200, "Maximum number of members of one share group.", minimum=1, maximum=1_000)
    group_share_assignors: tuple[str, ...] = words(("simple",), "Assignor of the server.", allowed=("simple",))
    group_share_initialize_retry_interval_ms: int = integer(
        30_000, "Time after which the state of share partitions is initialised again, if that has not ended.", minimum=1
    )
    group_share_record_lock_duration_ms: int = integer(
        30_000, "Time for which a share group member has acquired a record.", minimum=1_000, maximum=HOUR_MS
    )
    group_share_min_record_lock_duration_ms: int = integer(
        15_000, "The least share.record.lock.duration.ms of a group.", minimum=1_000, maximum=30_000
    )
    group_share_max_record_lock_duration_ms: int = integer(
        60_000, "The largest share.record.lock.duration.ms of a group.", minimum=30_000, maximum=HOUR_MS
    )
    group_share_delivery_count_limit: int = integer(
        5, "Maximum number of deliveries of a record to a share group.", minimum=2, maximum=10
    )
    group_share_min_delivery_count_limit: int = integer(
        2, "The least share.delivery.count.limit of a group.", minimum=2, maximum=5
    )
    group_share_max_delivery_count_limit: int = integer(
        10, "The largest share.delivery.count.limit of a group.", minimum=5, maximum=25
    )
    group_share_partition_max_record_locks: int = integer(
        2_000, "Maximum number of acquired records of one share partition.", minimum=100, maximum=10_000
    )
    group_share_min_partition_max_record_locks: int = integer(
        100, "The least share.partition.max.record.locks of a group.", minimum=100, maximum=2_000
    )
    group_share_max_partition_max_record_locks: int = integer(
        4_000, "The largest share.partition.max.record.locks of a group.", minimum=2_000, maximum=10_000
    )
    group_share_max_share_sessions: int = integer(2_000, "Maximum number of share sessions.", minimum=1)
    errors_deadletterqueue_auto_create_topics_enable: bool = boolean(
        False, "Create the topic for a share group's dead letters if it does not exist."
    )
    errors_deadletterqueue_topic_name_prefix: str = parsed(
        "dlq.", text, "text", "Prefix that the names of topics for dead letters must have; empty: any name."
    )


ROWS: dict[str, Setting] = {
    name: row
    for name, row in declared(ShareSettings).items()
    if name.startswith(("group.share.", "errors.deadletterqueue."))
}
"""Dotted name -> row."""

_BOUNDED = (
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "assignment.interval.ms",
    "record.lock.duration.ms",
    "delivery.count.limit",
    "partition.max.record.locks",
)

AT_MOST = tuple(
    pair
    for name in _BOUNDED
    for pair in (
        (f"group.share.min.{name}", f"group.share.{name}"),
        (f"group.share.{name}", f"group.share.max.{name}"),
    )
)
"""Pairs of settings: the first may be at most the second."""
