"""Expiry of committed offsets in slices, between which other work runs."""

from __future__ import annotations

import asyncio
import time

from coordinatord.broker.topics.group_configs import GroupConfigs
from coordinatord.coordination.service.groups import Coordinator

EXPIRY_SLICE_S = 0.001
"""Longest time in seconds that a search for expired offsets may occupy the event loop before other work runs."""


async def expire_offsets(group_configs: GroupConfigs, coordinator: Coordinator, interval_s: float) -> None:
    """Search every `interval_s` seconds, for ever."""
    while True:
        await asyncio.sleep(interval_s)
        group_configs.refresh()
        slice_began_s = time.monotonic()
        for _ in coordinator.expire_offsets(group_configs.retention_ms):
            if time.monotonic() - slice_began_s > EXPIRY_SLICE_S:
                await asyncio.sleep(0)
                slice_began_s = time.monotonic()
