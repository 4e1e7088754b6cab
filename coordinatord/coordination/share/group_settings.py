"""The settings of share groups: a group's own, or the broker's."""

from __future__ import annotations

from coordinatord.broker.topics.group_configs import (
    DEAD_LETTER_COPY,
    DEAD_LETTER_TOPIC,
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

    def __init__(self, configs: GroupConfigs, *, dead_letters: bool = True) -> None:
        """`dead_letters`: share.version is 2 or higher."""
        self._configs = configs
        self._dead_letters = dead_letters
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
                self._dead_letters and bool(self.dead_letter_topic(group_id)),
            )
        return found

    def dead_letter_topic(self, group_id: str) -> str:
        """Return the name of the topic for the group's dead letters; empty if it has none."""
        return self._configs.own(group_id).get(DEAD_LETTER_TOPIC, "").strip()

    def copies_dead_records(self, group_id: str) -> bool:
        """Return whether dead letters have the key and the value of their record."""
        return self._configs.own(group_id).get(DEAD_LETTER_COPY, "").strip().lower() == "true"

    @property
    def dead_letter_prefix(self) -> str:
        """The prefix that names of topics for dead letters must have."""
        return self._configs.brokers.settings.errors_deadletterqueue_topic_name_prefix

    @property
    def creates_dead_letter_topics(self) -> bool:
        """True if topics for dead letters are created when they are needed."""
        return self._configs.brokers.settings.errors_deadletterqueue_auto_create_topics_enable

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
