"""What a seed means: how many nodes, groups and members there are, their settings, and how much goes wrong."""

from __future__ import annotations

import random
from dataclasses import dataclass

from coordinatord.testing.member.state import MemberSettings

SECOND_MS = 1_000
MINUTE_MS = 60_000
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """One group."""

    group_id: str
    topic: str
    members: int
    session_ms: int
    rebalance_ms: int
    assignor: tuple[str, ...]
    static: bool
    auto_commit_ms: int

    def member_settings(self, number: int) -> MemberSettings:
        return MemberSettings(
            self.group_id,
            group_instance_id=f"i{number}" if self.static else None,
            session_timeout_ms=self.session_ms,
            # More often than rebalances end, or members would miss every one.
            heartbeat_interval_ms=min(self.session_ms, self.rebalance_ms) // 3,
            max_poll_interval_ms=self.rebalance_ms,
            auto_commit_interval_ms=self.auto_commit_ms,
            auto_offset_reset="earliest",
            partition_assignment_strategy=self.assignor,
            metadata_max_age_ms=6 * HOUR_MS,
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """What a seed means."""

    nodes: int
    most_nodes: int
    offsets_partitions: int
    topic_partitions: int
    flush: str
    drift: float
    chapters: int
    mayhem_ms: int
    quiet_ms: int
    troubles_per_minute: float
    retention_minutes: int
    segment_bytes: int
    groups: tuple[GroupPlan, ...]

    @classmethod
    def of(cls, seed: int) -> Plan:
        chance = random.Random(f"{seed}/plan")
        most = chance.choice((1, 1, 2, 3))
        groups = []
        for number in range(chance.choice((1, 2, 2, 3))):
            session_ms = chance.choice((6_000, 10_000, 10_000, 45_000, 300_000))
            groups.append(
                GroupPlan(
                    f"g{number}",
                    f"t{chance.randrange(2)}",
                    chance.choice((1, 2, 3, 4, 6)),
                    session_ms,
                    chance.choice((5_000, 20_000, 60_000, 300_000)),
                    chance.choice((("range",), ("cooperative-sticky",), ("range", "cooperative-sticky"))),
                    chance.random() < 0.3,
                    chance.choice((5_000, HOUR_MS, 6 * HOUR_MS)),
                )
            )
        polls_often = any(group.auto_commit_ms < HOUR_MS for group in groups)
        return cls(
            nodes=chance.randint(1, most),
            most_nodes=most,
            offsets_partitions=chance.choice((1, 2, 4)),
            topic_partitions=chance.choice((1, 3, 5)),
            flush=chance.choice(("always", "always", "interval", "never")),
            drift=chance.choice((0.0, 0.0001, 0.001)),
            chapters=3,
            mayhem_ms=chance.choice((1, 3, 6)) * MINUTE_MS,
            quiet_ms=10 * MINUTE_MS if polls_often else chance.choice((24, 96, 336)) * HOUR_MS,
            troubles_per_minute=chance.choice((2, 6, 15)),
            retention_minutes=chance.choice((60, 600, 10_080)),
            segment_bytes=chance.choice((2_000, 20_000, 1 << 20)),
            groups=tuple(groups),
        )
