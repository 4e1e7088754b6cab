"""Jumps of the server's clock, and their consequences: sessions, rebalances, transactions, retention.

Clients keep their own clocks, and delays of faults and of the log's flushes pass in real time.
"""

from __future__ import annotations

import asyncio

from coordinatord.coordination.group.offsets.committed import has_no_members
from coordinatord.server.control.node import Node
from coordinatord.server.control.problems import ControlError, not_now

MAX_TURNS = 20_000
"""Largest number of turns of the loop in which due timers run. Each round of timers takes four turns."""

MAX_ADVANCE_MS = 100 * 365 * 24 * 60 * 60 * 1000


async def advance(node: Node, by_ms: int) -> int:
    """Move the clock ahead; return the server's time (epoch ms) when everything that became due has happened."""
    if not 0 <= by_ms <= MAX_ADVANCE_MS:
        raise ControlError(f"The clock can go ahead by at most a hundred years and never back, not by {by_ms} ms.")
    if node.now_ms is not node.clock:
        raise not_now("The clock of this server belongs to the program that started it: move it there.")
    peopled = {actor.id for actor in node.coordinator.actors.values() if not has_no_members(actor.group)}
    node.clock.jump(by_ms / 1000)
    node.timers.jumped()
    for _ in range(MAX_TURNS):
        if not node.timers.is_due:
            break
        await asyncio.sleep(0)
    # The daemon's periodic work runs by the loop's clock, which has not jumped.
    now_ms, topics = node.now_ms(), node.topics
    topics.group_configs.refresh()
    for _ in node.coordinator.expire_offsets(
        topics.group_configs.retention_ms,
        # The sessions of the members have ended in this jump. The group has been empty for no time: its members get an
        # error and rejoin.
        spared=lambda group: group.group_id in peopled and has_no_members(group),
    ):
        pass
    node.transactions.expire_ids()
    topics.expire_producers(now_ms)
    topics.enforce_retention(now_ms)
    # A log that is past its retention as a whole drops its segments when a new one is durable.
    durable = asyncio.get_running_loop().create_future()
    node.writer.hold(node.writer.last_epoch, lambda: durable.set_result(None), lambda: durable.set_result(None))
    await durable
    return now_ms
