"""The periodic work of a daemon."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from coordinatord.base.budget import Budget
from coordinatord.broker.topics.group_configs import GroupConfigs
from coordinatord.coordination.service.groups import Coordinator

if TYPE_CHECKING:
    from coordinatord.server.daemon.assembled import Assembled

CLOCK_INTERVAL_S: Final = 1.0

LEAST_CLEANER_BACKOFF_S: Final = 0.01
"""Shortest pause of the cleaner in seconds. With a log.cleaner.backoff.ms of 0 Kafka's cleaner never pauses."""


def begin_periodic_work(daemon: Assembled) -> None:
    """Start everything that recurs, each with its interval in the settings. `daemon` is an assembled daemon.Daemon."""
    settings, every = daemon.settings, daemon.every
    if daemon.now_ms is daemon.clock:  # another clock is advanced by the caller that passed it
        every(CLOCK_INTERVAL_S, daemon.clock.follow_wall)
    every(60.0, daemon.metrics.longest_turn.roll)
    every(settings.log_retention_check_interval_ms / 1000, lambda: daemon.topics.enforce_retention(daemon.now_ms()))
    producers_s = settings.producer_id_expiration_check_interval_ms / 1000
    every(producers_s, lambda: daemon.topics.expire_producers(daemon.now_ms()))
    if settings.log_cleaner_enable:
        every(max(settings.log_cleaner_backoff_ms / 1000, LEAST_CLEANER_BACKOFF_S), daemon.compaction.look)
    every(settings.transaction_remove_expired_transaction_cleanup_interval_ms / 1000, daemon.transactions.expire_ids)
    expiry_s = settings.offsets_retention_check_interval_ms / 1000
    daemon.spawn(expire_offsets(daemon.topics.group_configs, daemon.coordinator, expiry_s))
    every(settings.share_coordinator_state_topic_prune_interval_ms / 1000, lambda: prune_share_topic(daemon))
    daemon.spawn(repeat_share_snapshots(daemon))
    close_idle(daemon)


def close_idle(daemon: Assembled) -> None:
    """Close idle connections, now and periodically. A timer does this, because timers expire after requests were
    read.
    """
    idle_ms = daemon.settings.connections_max_idle_ms
    daemon.timers.alarm(daemon.now_ms() + max(1, min(idle_ms // 4, 60_000)), lambda: close_idle(daemon))
    daemon.connections.close_idle(idle_ms)


async def expire_offsets(group_configs: GroupConfigs, coordinator: Coordinator, interval_s: float) -> None:
    """Search for expired offsets every `interval_s` seconds, for ever, in slices between which other work runs."""
    while True:
        await asyncio.sleep(interval_s)
        group_configs.refresh()
        budget = Budget()
        for _ in coordinator.expire_offsets(group_configs.retention_ms):
            if budget.is_spent():
                await asyncio.sleep(0)
                budget = Budget()


def prune_share_topic(daemon: Assembled) -> None:
    """Delete redundant records of `__share_group_state`, if share groups are used."""
    if daemon.used_share is not None:
        daemon.used_share.coordinator.prune()


async def repeat_share_snapshots(daemon: Assembled) -> None:
    """Repeat the snapshots of cold share partitions, in slices; for ever."""
    interval_ms = daemon.settings.share_coordinator_cold_partition_snapshot_interval_ms
    while True:
        await asyncio.sleep(interval_ms / 1000)
        if daemon.used_share is None:
            continue
        budget = Budget()
        for _ in daemon.used_share.coordinator.snapshot_cold(interval_ms):
            if budget.is_spent():
                await asyncio.sleep(0)
                budget = Budget()
