"""A broker that is not ours: what can be read of it over Kafka's protocol, and a reason for what cannot be done."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from coordinatord.control.commands import BY_NAME
from coordinatord.member.subscription import decode_assignment
from coordinatord.testing.problems import OnlyHere
from coordinatord.testing.wire import Wire, check
from kafka_wire.api.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_wire.api.describe_groups import DescribeGroupsRequest
from kafka_wire.errors import DecodeError, ErrorCode

LOOK_S = 0.05
"""How often a wait looks: nobody wakes it."""


class ElsewhereLink:
    """A link (links.Link) that can read groups and wait."""

    def __init__(self, find: Callable[[], tuple[str, int]]) -> None:
        self._wire = Wire(find)

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """See links.Link. Raises OnlyHere for what only coordinatord can do."""
        if name == "changed":
            time.sleep(min(LOOK_S, arguments["timeout_ms"] / 1000))
            return {"version": 0}
        if name == "group":
            return self._group(arguments["group"])
        about = BY_NAME[name].about.rstrip(".")
        raise OnlyHere(f"Only coordinatord can do this, and the broker is another one: {about[0].lower()}{about[1:]}.")

    async def call_later(self, name: str, **arguments: Any) -> dict[str, Any]:
        """See links.Link."""
        return await asyncio.to_thread(self.call, name, **arguments)

    def _group(self, group_id: str) -> dict[str, Any]:
        told: dict[str, Any] = {
            "version": 0,
            "group": group_id,
            "protocol": "",
            "state": "Dead",
            "generation": 0,
            "members": [],
            "rebalances": [],
            "under_way": None,
        }
        found, classic = self._wire.patiently(lambda: self._described(group_id))
        if found is not None:
            members = [
                {
                    "member_id": each.member_id,
                    "client_id": each.client_id,
                    "instance_id": each.instance_id,
                    "assignment": {
                        topic.topic_name: sorted(topic.partitions) for topic in each.assignment.topic_partitions
                    },
                }
                for each in found.members
            ]
            return told | {
                "protocol": "consumer",
                "state": found.group_state,
                "generation": found.group_epoch,
                "members": members,
            }
        members = [
            {
                "member_id": each.member_id,
                "client_id": each.client_id,
                "instance_id": each.group_instance_id,
                "assignment": _assigned(each.member_assignment),
            }
            for each in classic.members
        ]
        return told | {"protocol": "classic" * bool(members), "state": classic.group_state, "members": members}

    def _described(self, group_id: str) -> tuple[Any, Any]:
        """A group as a consumer group, or as a classic one."""
        to, what = self._wire.coordinator(group_id), f"group {group_id}"
        (found,) = self._wire.ask(ConsumerGroupDescribeRequest([group_id]), 0, to).groups
        if found.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
            check(found.error_code, what)
            return found, None
        (classic,) = self._wire.ask(DescribeGroupsRequest([group_id]), 5, to).groups
        check(classic.error_code, what)
        return None, classic


def _assigned(assignment: bytes) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    try:
        for topic, partition in decode_assignment(assignment) if assignment else ():
            found.setdefault(topic, []).append(partition)
    except DecodeError:  # the client's own format
        return {}
    return {topic: sorted(partitions) for topic, partitions in found.items()}
