"""Kafka for tests: a coordinator in a thread, verbs and faults on it. docs/testing.md has recipes.

    from coordinatord.testing import Kafka

    with Kafka(topics={"orders": 4}) as kafka:
        kafka.put("orders", range(8))
        consumer = KafkaConsumer("orders", bootstrap_servers=kafka.bootstrap_servers, group_id="billing")

Under pytest the fixture `kafka` is one for each test (plugin.py). The modules are imported when they are used: a run of
pytest that does not use the fixtures pays nothing.

    kafka.py      Kafka: the one object
    groups.py     a group: what it looks like, verbs, waits
    faults.py     faults as blocks
    waits.py      waits and blocks, for tests and for coroutines
    views.py      what reads return
    servers.py    the thread, the process, the broker elsewhere
    links.py      how commands get to the control of a server
    wire.py       records and offsets, over Kafka's protocol
    report.py     what a failed test tells
    plugin.py     fixtures, marker and options of pytest
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
    from coordinatord.testing.views import GroupView as GroupView
    from coordinatord.testing.views import MemberView as MemberView
    from coordinatord.testing.views import Rebalance as Rebalance
    from coordinatord.testing.views import Record as Record

__all__ = [
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
    "Transaction",
]

_MODULES = {
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
    "Transaction": "groups",
}


def __getattr__(name: str) -> object:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
