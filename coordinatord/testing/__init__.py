"""Kafka for tests: a coordinator in a thread, with verbs and faults. docs/testing.md has recipes.

    from coordinatord.testing import Kafka

    with Kafka(topics={"orders": 4}) as kafka:
        kafka.put("orders", range(8))
        consumer = KafkaConsumer("orders", bootstrap_servers=kafka.bootstrap_servers, group_id="billing")

Under pytest, the fixture `kafka` is a new `Kafka` for each test (plugin.py). The modules are imported on first use: a
run of pytest that does not use the fixtures does not import them.

    kafka.py            Kafka: the entry point, one object per test
    groups.py           Group and Transaction: reads, verbs, waits
    faults.py           Fault: a fault that is active during a block
    waits.py            waits and blocks, for tests and for coroutines
    views.py            results of reads: records, groups, members, rebalances
    servers.py          the server: in a thread, in a process, or an external broker
    links.py            transport of commands to the control of a server
    external_broker.py  the commands that work on an external broker
    wire.py             records and offsets, over Kafka's protocol
    report.py           sections of the report about a failed test
    plugin.py           fixtures, marker and options of pytest
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coordinatord.testing.faults import Fault as Fault
    from coordinatord.testing.groups import Group as Group
    from coordinatord.testing.groups import Transaction as Transaction
    from coordinatord.testing.kafka import Kafka as Kafka
    from coordinatord.testing.problems import KafkaError as KafkaError
    from coordinatord.testing.problems import KafkaLeftovers as KafkaLeftovers
    from coordinatord.testing.problems import NeverFired as NeverFired
    from coordinatord.testing.problems import NotInTime as NotInTime
    from coordinatord.testing.problems import OnlyHere as OnlyHere
    from coordinatord.testing.share_groups import AcquiredRecord as AcquiredRecord
    from coordinatord.testing.share_groups import Redelivery as Redelivery
    from coordinatord.testing.share_groups import ShareGroup as ShareGroup
    from coordinatord.testing.share_groups import ShareGroupView as ShareGroupView
    from coordinatord.testing.share_groups import SharePartition as SharePartition
    from coordinatord.testing.views import GroupView as GroupView
    from coordinatord.testing.views import MemberView as MemberView
    from coordinatord.testing.views import Rebalance as Rebalance
    from coordinatord.testing.views import Record as Record

__all__ = [
    "AcquiredRecord",
    "Fault",
    "Group",
    "GroupView",
    "Kafka",
    "KafkaError",
    "KafkaLeftovers",
    "MemberView",
    "NeverFired",
    "NotInTime",
    "OnlyHere",
    "Rebalance",
    "Record",
    "Redelivery",
    "ShareGroup",
    "ShareGroupView",
    "SharePartition",
    "Transaction",
]

_MODULES = {
    "AcquiredRecord": "share_groups",
    "Fault": "faults",
    "Group": "groups",
    "GroupView": "views",
    "Kafka": "kafka",
    "KafkaError": "problems",
    "KafkaLeftovers": "problems",
    "MemberView": "views",
    "NeverFired": "problems",
    "NotInTime": "problems",
    "OnlyHere": "problems",
    "Rebalance": "views",
    "Record": "views",
    "Redelivery": "share_groups",
    "ShareGroup": "share_groups",
    "ShareGroupView": "share_groups",
    "SharePartition": "share_groups",
    "Transaction": "groups",
}


def __getattr__(name: str) -> object:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
