"""The node's topics and settings, as consumer and share groups see them; a group's own settings take precedence."""

from __future__ import annotations

from coordinatord.base.config import Settings
from coordinatord.broker.topics import Topics
from coordinatord.broker.topics.group_configs import (
    ASSIGNMENT_INTERVAL,
    HEARTBEAT_INTERVAL,
    SESSION_TIMEOUT,
    SHARE_ASSIGNMENT_INTERVAL,
    SHARE_HEARTBEAT_INTERVAL,
    SHARE_SESSION_TIMEOUT,
    GroupConfigs,
)
from coordinatord.coordination.group.consumer.state import GroupEnvironment
from coordinatord.coordination.service.topics_image import TopicsImage
from coordinatord.transport.cluster.nodes import Nodes


def surroundings(settings: Settings, topics: Topics, nodes: Nodes) -> GroupEnvironment:
    """Return the topics and settings for the groups of a node."""
    configs = topics.group_configs
    image = TopicsImage(topics.catalogue, nodes)
    return GroupEnvironment(image, ConsumerLimits(settings, configs), ShareLimits(settings, configs))


class ConsumerLimits:
    """The settings of consumer groups (coordinatord.coordination.group.consumer.state.Limits)."""

    def __init__(self, settings: Settings, configs: GroupConfigs) -> None:
        self._settings = settings
        self._configs = configs
        self.assignors = settings.group_consumer_assignors
        self.max_size = settings.group_consumer_max_size
        policy = settings.group_consumer_migration_policy
        self.upgrades = policy in ("upgrade", "bidirectional")
        self.downgrades = policy in ("downgrade", "bidirectional")
        self.expression_refresh_ms = settings.group_consumer_regex_refresh_interval_ms
        self.strict_commits = settings.group_consumer_strict_member_epoch

    @property
    def version(self) -> int:
        """Number of changes of groups' settings."""
        return self._configs.changes

    def session_timeout_ms(self, group_id: str) -> int:
        """Return group.consumer.session.timeout.ms."""
        return self._configs.number(group_id, SESSION_TIMEOUT, self._settings.group_consumer_session_timeout_ms)

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """Return group.consumer.heartbeat.interval.ms."""
        return self._configs.number(group_id, HEARTBEAT_INTERVAL, self._settings.group_consumer_heartbeat_interval_ms)

    def assignment_interval_ms(self, group_id: str) -> int:
        """Return group.consumer.assignment.interval.ms."""
        settings = self._configs.brokers.settings  # it may change while the broker runs
        return self._configs.number(group_id, ASSIGNMENT_INTERVAL, settings.group_consumer_assignment_interval_ms)


class ShareLimits:
    """The settings of share groups (coordinatord.coordination.group.consumer.state.ShareLimits)."""

    def __init__(self, settings: Settings, configs: GroupConfigs) -> None:
        self._settings = settings
        self._configs = configs
        self.max_size = settings.group_share_max_size
        # As in Kafka: below that time, an initialisation may still be waiting for the log.
        self.initialize_retry_interval_ms = max(
            settings.group_share_initialize_retry_interval_ms, settings.offsets_commit_timeout_ms
        )

    def session_timeout_ms(self, group_id: str) -> int:
        """Return group.share.session.timeout.ms."""
        return self._configs.number(group_id, SHARE_SESSION_TIMEOUT, self._settings.group_share_session_timeout_ms)

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """Return group.share.heartbeat.interval.ms."""
        return self._configs.number(
            group_id, SHARE_HEARTBEAT_INTERVAL, self._settings.group_share_heartbeat_interval_ms
        )

    def assignment_interval_ms(self, group_id: str) -> int:
        """Return group.share.assignment.interval.ms."""
        settings = self._configs.brokers.settings  # it may change while the broker runs
        return self._configs.number(group_id, SHARE_ASSIGNMENT_INTERVAL, settings.group_share_assignment_interval_ms)
