"""What a start leaves for later: modules that the first requests of some kinds need.

A start imports what it takes to load groups and to answer the first requests of a classic consumer. Each of MODULES is
imported where it is first used. `import_later` does so before, once clients can connect and groups are loaded, one
module at a time, so that it delays a request by some milliseconds at most, and the first heartbeat of the consumer
protocol by nothing.
"""

from __future__ import annotations

import asyncio
import importlib

MODULES = (
    "coordinatord.topics.fetch",
    "coordinatord.topics.produce",
    "kafka_wire.records.compressors",
    "coordinatord.topics.describe",
    "coordinatord.topics.offsets",
    "coordinatord.group.consumer.checks",
    "coordinatord.group.consumer.epochs",
    "coordinatord.group.consumer.upgrade",
    "coordinatord.group.consumer.leaving",
    "coordinatord.group.consumer.heartbeat",
    "coordinatord.group.consumer.classic_members",
    "coordinatord.group.consumer.step",
    "coordinatord.group.consumer.assignors.uniform",
    "coordinatord.group.consumer.assignors.range",
    "coordinatord.group.consumer.describe",
    "coordinatord.coordinator.apis.admin",
    "coordinatord.coordinator.apis.consumer_groups",
    "coordinatord.shortcuts.consumer_heartbeats",
    "coordinatord.topics.admin",
    "coordinatord.log.survey",
    "coordinatord.log.cleaning",
    "coordinatord.log.cleaner",
    "coordinatord.log.cleaner_process",
)
"""In the order in which they are likely to be needed; what a module imports is before it where that is large."""

PAUSE_S = 0.01
"""Between two modules: requests that have arrived are answered."""


async def import_later() -> None:
    """Import all of MODULES."""
    for module in MODULES:
        await asyncio.sleep(PAUSE_S)
        importlib.import_module(module)
