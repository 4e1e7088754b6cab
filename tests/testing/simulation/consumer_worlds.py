"""Worlds of the consumer protocol (KIP-848), with the same nodes, network, disks and troubles as the others.

Groups are either of the consumer protocol alone, or in migration: each process that starts uses the classic or the
consumer protocol, so that groups change from one kind to the other, and have members of both in between. Seeds of
these worlds are their own: `python -m tests.testing.simulation.run --protocol consumer --seed 3`.

Heartbeats are not skipped here, so quiet times are short.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from coordinatord.coordination.group.consumer.state import ConsumerGroup, ConsumerState
from coordinatord.coordination.group.states import STABLE
from coordinatord.testing.member.state import MemberSettings
from tests.testing.simulation.consumer_watch import ConsumerWatch
from tests.testing.simulation.plan import MINUTE_MS, GroupPlan, Plan
from tests.testing.simulation.world import World

QUIET_MS = 5 * MINUTE_MS

PROTOCOLS = {"consumer": ("consumer",), "mixed": ("classic", "consumer")}


def _has_no_assignment_yet(consumer: ConsumerGroup) -> bool:
    """A static member came back and upgraded a classic group in the middle of a rebalance. The target is that
    of the classic group, which had none (coordination/group/consumer/upgrade.py).
    """
    return consumer.assignment_timestamp_ms == 0 and not any(consumer.target.values())


class ConsumerWorld(World):
    """See the module."""

    watch_type = ConsumerWatch

    def __init__(self, seed: int, *, plan: Plan | None = None, trace: bool = False) -> None:
        chance = random.Random(f"{seed}/consumer plan")
        plan = plan or Plan.of(seed)
        session_ms = chance.choice((6_000, 10_000, 45_000))
        groups = [
            replace(
                group,
                session_ms=session_ms,
                rebalance_ms=max(group.rebalance_ms, 20_000),
                members=chance.choice((2, 3, 4, 6)),
                assignor=("cooperative-sticky",),
                auto_commit_ms=5_000,
            )
            for group in plan.groups
        ]
        plan = replace(
            plan,
            groups=tuple(groups),
            topic_partitions=chance.choice((3, 5, 8)),
            # What a lost disk takes back, the models know nothing of.
            flush=chance.choice(("always", "always", "never")),
            quiet_ms=min(plan.quiet_ms, QUIET_MS),
            chapters=2,
        )
        super().__init__(seed, plan=plan, trace=trace)
        self.protocols = {group.group_id: chance.choice(("consumer", "mixed")) for group in groups}
        self.choices = self.engine.chance("protocols")
        self.settings = replace(
            self.settings,
            group_consumer_session_timeout_ms=session_ms,
            group_consumer_min_session_timeout_ms=1_000,
            group_consumer_heartbeat_interval_ms=session_ms // 4,
            group_consumer_min_heartbeat_interval_ms=500,
            group_consumer_assignment_interval_ms=chance.choice((0, 0, 1_000, 3_000)),
        )

    def member_settings(self, group: GroupPlan, number: int) -> MemberSettings:
        protocol = self.choices.choice(PROTOCOLS[self.protocols[group.group_id]])
        return replace(group.member_settings(number), group_protocol=protocol)

    def unsettled(self) -> str | None:
        for node in self.machine.workers:
            if node.daemon is None or node.stopping:
                return f"{node.name} does not run"
            if node.daemon.coordinator.is_loading:
                return f"{node.name} loads"
        for group in self.plan.groups:
            wrong = self._unsettled(group)
            if wrong is not None:
                return f"EventuallyConverges: {wrong}"
        return None

    def _unsettled(self, group: GroupPlan) -> str | None:
        actor = self.actor(group.group_id)
        live = None if actor is None else actor.group
        consumer = None if live is None else live.consumer
        members: dict[str, Any] = {}
        if live is not None:
            members = live.members if consumer is None else consumer.members
        if group.group_id in self.asleep:
            return f"{group.group_id} has members" if members else None
        if live is None:
            return f"{group.group_id} is nowhere"
        if not (live.state is STABLE if consumer is None else consumer.state is ConsumerState.STABLE):
            return f"{group.group_id} is {(live if consumer is None else consumer).state.value}"
        owned: list[tuple[str, int]] = []
        mine = [each for each in self.consumers.values() if each.group is group]
        for who in mine:
            its = who.member.generation
            if not who.is_settled() or who.stopping:
                return f"{who.name} has not got all it wants"
            if its.member_id not in members:
                return f"{who.name} is no member"
            epoch = live.generation_id if consumer is None else members[its.member_id].epoch
            if its.generation_id != epoch:
                return f"{who.name} is in epoch {its.generation_id}, and not in {epoch}"
            owned += who.member.assignment
        if len(members) != len(mine):
            return f"{group.group_id} has {len(members)} members for {len(mine)} consumers"
        if not owned and consumer is not None and _has_no_assignment_yet(consumer):
            return None
        if sorted(owned) != [(group.topic, number) for number in range(self.plan.topic_partitions)]:
            return f"{group.group_id}: {sorted(owned)} are owned"
        return None

    def _is_idle(self) -> bool:
        return False
