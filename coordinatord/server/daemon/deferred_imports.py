"""Deferred imports: modules that only the first requests of some kinds need.

A start imports the modules that load groups and serve the first requests of a classic consumer. Each of MODULES is
imported where it is first used. `import_later` imports them earlier, once clients can connect and groups are loaded,
one module at a time: an import delays a request by some milliseconds at most, and the first heartbeat of the consumer
protocol not at all.
"""

from __future__ import annotations

import asyncio
import importlib

MODULES = (
    "coordinatord.broker.topics.fetch",
    "coordinatord.broker.topics.produce",
    "kafka_wire.records.compressors",
    "coordinatord.broker.topics.describe",
    "coordinatord.broker.topics.offsets",
    "coordinatord.coordination.group.consumer.validation",
    "coordinatord.coordination.group.consumer.group_epoch",
    "coordinatord.coordination.group.consumer.upgrade",
    "coordinatord.coordination.group.consumer.leaving",
    "coordinatord.coordination.group.consumer.heartbeat",
    "coordinatord.coordination.group.consumer.classic_members",
    "coordinatord.coordination.group.consumer.step",
    "coordinatord.coordination.group.consumer.assignors.uniform",
    "coordinatord.coordination.group.consumer.assignors.range",
    "coordinatord.coordination.group.consumer.describe",
    "coordinatord.coordination.service.apis.admin",
    "coordinatord.coordination.service.apis.consumer_groups",
    "coordinatord.server.fastpath.consumer_heartbeats",
    "coordinatord.broker.topics.admin",
    "coordinatord.broker.log.transaction_scan",
    "coordinatord.broker.log.cleaning",
    "coordinatord.broker.log.cleaner",
    "coordinatord.broker.log.cleaner_process",
)
"""The modules in the order in which they are likely to be needed. The large imports of a module are listed before
it.
"""

PAUSE_S = 0.01
"""Pause between two modules in seconds, in which requests that have arrived are served."""


async def import_later() -> None:
    """Import all of MODULES."""
    for module in MODULES:
        await asyncio.sleep(PAUSE_S)
        importlib.import_module(module)
