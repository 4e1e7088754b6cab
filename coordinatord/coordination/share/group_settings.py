"""The settings of share groups: a group's own, or the broker's."""

from __future__ import annotations

from coordinatord.broker.topics.group_configs import (
    SHARE_AUTO_OFFSET_RESET,
    SHARE_DELIVERY_COUNT_LIMIT,
    SHARE_ISOLATION_LEVEL,
    SHARE_PARTITION_MAX_RECORD_LOCKS,
    SHARE_RECORD_LOCK_DURATION,
    SHARE_RENEW_ACKNOWLEDGE,
    GroupConfigs,
    reset_duration_ms,
)
from coordinatord.coordination.share.leader import EARLIEST, LATEST
from coordinatord.coordination.share.partition.state import Limits


class GroupShareSettings:
    """The settings of share groups (leader.ShareSettings). Changes apply at once, as in Kafka."""

    def __init__(self, configs: GroupConfigs) -> None:
        self._configs = configs
        self._changes = configs.changes
        self._limits: dict[str, Limits] = {}

    def limits(self, group_id: str) -> Limits:
        """Return the limits of the group's share partitions."""
        configs = self._configs
        if self._changes != configs.changes:
            self._changes = configs.changes
            self._limits.clear()
        if group_id not in configs.group_ids:
            group_id = ""  # all groups without own settings have the same limits
        found = self._limits.get(group_id)
        if found is None:
            broker = configs.brokers.settings
            found = self._limits[group_id] = Limits(
                configs.number(group_id, SHARE_RECORD_LOCK_DURATION, broker.group_share_record_lock_duration_ms),
                configs.number(group_id, SHARE_DELIVERY_COUNT_LIMIT, broker.group_share_delivery_count_limit),
                configs.number(
                    group_id, SHARE_PARTITION_MAX_RECORD_LOCKS, broker.group_share_partition_max_record_locks
                ),
                configs.own(group_id).get(SHARE_RENEW_ACKNOWLEDGE, "true").strip().lower() == "true",
            )
        return found

    def reset_timestamp(self, group_id: str, now_ms: int) -> int:
        """Return the start that share.auto.offset.reset asks for: LATEST, EARLIEST, or a time in ms."""
        text = self._configs.own(group_id).get(SHARE_AUTO_OFFSET_RESET, "latest").strip()
        duration_ms = reset_duration_ms(text)
        if duration_ms is not None:
            return max(0, now_ms - duration_ms)
        return EARLIEST if text == "earliest" else LATEST

    def reads_committed(self, group_id: str) -> bool:
        """Return whether share.isolation.level is read_committed."""
        return self._configs.own(group_id).get(SHARE_ISOLATION_LEVEL, "").strip() == "read_committed"
