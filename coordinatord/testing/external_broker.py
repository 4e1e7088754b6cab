"""Commands on an external broker: those that Kafka's protocol allows; OnlyHere for the others.

The generation of a classic group, which no API returns, is read from `__consumer_offsets`: the end of each rebalance is
logged there with its generation.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from coordinatord.broker.topics.names import OFFSETS_TOPIC
from coordinatord.server.control.commands import BY_NAME
from coordinatord.testing.problems import KafkaError, OnlyHere
from coordinatord.testing.views import Record
from coordinatord.testing.wire import Wire, check
from coordinatord.transport.cluster.partitioner import partition_for
from kafka_wire.api.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_wire.api.describe_groups import DescribeGroupsRequest
from kafka_wire.api.describe_transactions import DescribeTransactionsRequest
from kafka_wire.api.init_producer_id import InitProducerIdRequest
from kafka_wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_wire.errors import DecodeError, ErrorCode
from kafka_wire.records.consumer_assignment import decode_assignment
from kafka_wire.records.keys import decode_key, decode_value
from kafka_wire.records.offsets import GroupMetadataKey, GroupMetadataValue

TRANSACTION_KEY = 1
"""Key type of FindCoordinator for transactional ids."""

FENCING_TIMEOUT_MS = 60_000
"""Value of transaction.timeout.ms for the request that fences a producer; no transaction is begun with it."""

LOOK_S = 0.05
"""Interval in seconds between two reads of a wait: an external broker does not notify waits."""


class ElsewhereLink:
    """Link (links.Link) to an external broker, which can read groups, remove members, end transactions, and wait."""

    def __init__(self, find: Callable[[], tuple[str, int]]) -> None:
        self._wire = Wire(find)
        self._logs: dict[int, _GroupLog] = {}
        self._can: dict[str, Callable[..., dict[str, Any]]] = {
            "group": self._group,
            "kick": self._kick,
            "transaction": self._transaction,
            "expire_transaction": self._expire_transaction,
        }

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Run one command and return its result (see links.Link). Raises OnlyHere for a command that only coordinatord
        has.
        """
        if name == "changed":
            time.sleep(min(LOOK_S, arguments.get("timeout_ms", 0) / 1000))
            return {"version": 0}
        can = self._can.get(name)
        if can is not None:
            return can(**arguments)
        about = BY_NAME[name].about.rstrip(".")
        raise OnlyHere(f"Only coordinatord can do this, and the broker is another one: {about[0].lower()}{about[1:]}.")

    async def call_later(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Run one command from a coroutine, as `call` does."""
        return await asyncio.to_thread(self.call, name, **arguments)

    def _group(self, group: str) -> dict[str, Any]:
        group_id = group
        told: dict[str, Any] = {
            "version": 0,
            "group": group_id,
            "node": self._wire.coordinator_id(group_id),
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
        return told | {
            "protocol": "classic" * bool(members),
            "state": classic.group_state,
            "generation": self._generation(group_id) if members else 0,
            "members": members,
        }

    def _described(self, group_id: str) -> tuple[Any, Any]:
        """Return (consumer group, None), or (None, classic group) if there is no such consumer group."""
        to, what = self._wire.coordinator(group_id), f"group {group_id}"
        (found,) = self._wire.ask(ConsumerGroupDescribeRequest([group_id]), 0, to).groups
        if found.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
            check(found.error_code, what)
            return found, None
        (classic,) = self._wire.ask(DescribeGroupsRequest([group_id]), 5, to).groups
        check(classic.error_code, what)
        return None, classic

    def _generation(self, group_id: str) -> int:
        """Return the generation of a classic group after its last completed rebalance; 0 if there was none."""
        partition = partition_for(group_id, len(self._wire.leaders(OFFSETS_TOPIC)))
        log = self._logs.setdefault(partition, _GroupLog())
        for each in self._wire.records_from(OFFSETS_TOPIC, partition, log.offset):
            log.add(each)
        return log.generations.get(group_id, 0)

    def _kick(self, group: str, member: str) -> dict[str, Any]:
        """Remove a member from its group (removeMembersFromConsumerGroup)."""
        known = self._group(group)["members"]
        found = [each for each in known if member in (each["member_id"], each["client_id"], each["instance_id"])]
        if len(found) != 1:
            names = ", ".join(f"{each['client_id']} ({each['member_id']})" for each in known)
            raise KafkaError(
                f"Group {group} has {len(found)} members called {member!r}. It has {names or 'no members'}."
            )
        member_id = found[0]["member_id"]
        request = LeaveGroupRequest(group, "", [MemberIdentity(member_id, None, "removed by a test")])

        def leave() -> None:
            told = self._wire.ask(request, 5, self._wire.coordinator(group))
            check(told.error_code or told.members[0].error_code, f"member {member} of group {group}")

        self._wire.patiently(leave)
        return {"member_id": member_id}

    def _transaction(self, transactional_id: str) -> dict[str, Any]:
        def look() -> dict[str, Any]:
            to = self._wire.coordinator(transactional_id, TRANSACTION_KEY)
            (told,) = self._wire.ask(DescribeTransactionsRequest([transactional_id]), 0, to).transaction_states
            check(told.error_code, f"transactional id {transactional_id}")
            return {"transactional_id": transactional_id, "state": told.transaction_state}

        found: dict[str, Any] = self._wire.patiently(look)
        return found

    def _expire_transaction(self, transactional_id: str) -> dict[str, Any]:
        """Abort an open transaction (fenceProducers): InitProducerId for its transactional id fences the producer."""
        state = self._transaction(transactional_id)["state"]
        if state != "Ongoing":
            raise KafkaError(f"Transactional id {transactional_id} has no open transaction: its state is {state}.")
        request = InitProducerIdRequest(transactional_id, FENCING_TIMEOUT_MS)

        def fence() -> None:
            told = self._wire.ask(request, 4, self._wire.coordinator(transactional_id, TRANSACTION_KEY))
            check(told.error_code, f"transactional id {transactional_id}")

        self._wire.patiently(fence)
        return {}


class _GroupLog:
    """A partition of `__consumer_offsets`: the next offset to read, and the generations read so far."""

    def __init__(self) -> None:
        self.offset = 0
        self.generations: dict[str, int] = {}

    def add(self, record: Record) -> None:
        self.offset = record.offset + 1
        key = decode_key(record.key) if record.key is not None else None
        if isinstance(key, GroupMetadataKey):
            value = None if record.value is None else decode_value(key, record.value)
            self.generations[key.group] = value.generation if isinstance(value, GroupMetadataValue) else 0


def _assigned(assignment: bytes) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    try:
        for topic, partition in decode_assignment(assignment) if assignment else ():
            found.setdefault(topic, []).append(partition)
    except DecodeError:  # the client's own format
        return {}
    return {topic: sorted(partitions) for topic, partitions in found.items()}
