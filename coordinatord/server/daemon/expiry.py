"""Expiry of committed offsets in slices, between which other work runs."""

from __future__ import annotations

import asyncio

from coordinatord.base.budget import Budget
from coordinatord.broker.topics.group_configs import GroupConfigs
from coordinatord.coordination.service.groups import Coordinator


async def expire_offsets(group_configs: GroupConfigs, coordinator: Coordinator, interval_s: float) -> None:
    """Search every `interval_s` seconds, for ever."""
    while True:
        await asyncio.sleep(interval_s)
        group_configs.refresh()
        budget = Budget()
        for _ in coordinator.expire_offsets(group_configs.retention_ms):
            if budget.is_spent():
                await asyncio.sleep(0)
                budget = Budget()
