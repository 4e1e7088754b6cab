"""What a story has cost, reckoned alike for what was simulated and for what was lived through."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

from coordinatord.testing.member.assignors.java_hash import TopicPartition
from coordinatord.testing.member.timer import NEVER
from coordinatord.testing.simulation.ownership import Holder, Ownership
from coordinatord.testing.simulation.report import report
from coordinatord.testing.simulation.scenario import Scenario
from coordinatord.testing.simulation.world import World
from tests.testing.simulation.stories import happenings


class Told(NamedTuple):
    """What a consumer has told: partitions that were added or have gone; `crashed` stands for all of them."""

    at_ms: int
    kind: str
    who: Any
    partitions: tuple[int, ...]
    generation: int


@dataclass(frozen=True, slots=True)
class Seen:
    """`assigned_ms`: when partitions were assigned, since the group has formed. `settled_ms`: for each happening, after
    how long the last partition was assigned that was assigned before the next one; None: nothing was."""

    rebalances: int  # generations, of which each is one
    unowned_ms: int
    longest_gap_ms: int
    owned_twice_ms: int
    assigned_ms: tuple[int, ...]
    settled_ms: tuple[int | None, ...]


def settled(happened_ms: Sequence[int], assigned_ms: Sequence[int]) -> tuple[int | None, ...]:
    """Both in milliseconds since the group has formed."""
    ends = [*happened_ms[1:], NEVER]
    return tuple(
        max((at_ms - begin for at_ms in assigned_ms if begin <= at_ms < end), default=None)
        for begin, end in zip(happened_ms, ends, strict=True)
    )


def account(
    scenario: Scenario, told: Iterable[Told], formed_ms: int, ended_ms: int, happened_ms: Sequence[int], generation: int
) -> Seen:
    """Of what real consumers told. `happened_ms`: since the group has formed. `generation` is the last one."""
    clock: Any = SimpleNamespace(now_ms=formed_ms)
    ownership = Ownership(clock, [("t", number) for number in range(scenario.partitions)])
    held: dict[Any, set[int]] = {}
    formed_generation, begun = 0, False
    assigned_ms = []
    for each in sorted(told, key=lambda each: each.at_ms):
        if each.at_ms > formed_ms and not begun:
            begun = True
            ownership.begin()
        if each.at_ms > ended_ms:
            break
        clock.now_ms = each.at_ms
        mine = held.setdefault(each.who, set())
        if each.kind == "assigned":
            mine.update(each.partitions)
            ownership.take(each.who, [("t", number) for number in each.partitions])
            if not begun:
                formed_generation = max(formed_generation, each.generation)
            elif each.partitions:
                assigned_ms.append(each.at_ms - formed_ms)
        else:
            gone = set(each.partitions) if each.kind == "revoked" else set(mine)
            mine -= gone
            ownership.let_go(each.who, [("t", number) for number in sorted(gone)], "rebalance")
    clock.now_ms = ended_ms
    ownership.end()
    return Seen(
        generation - formed_generation,
        sum(ownership.unowned_ms.values()),
        ownership.longest_gap_ms,
        ownership.doubled_ms,
        tuple(assigned_ms),
        settled(happened_ms, assigned_ms),
    )


class Watched(Ownership):
    """Remembers when partitions were assigned."""

    assigned_ms: list[int]

    def begin(self) -> None:
        super().begin()
        self.assigned_ms = []

    def assigned(
        self, who: Holder, partitions: Iterable[TopicPartition], generation_id: int, *, has_epochs: bool = False
    ) -> None:
        given = list(partitions)
        if given:
            self.assigned_ms.append(self.engine.now_ms - self.began_ms)
        super().assigned(who, given, generation_id, has_epochs=has_epochs)


def simulated(scenario: Scenario) -> Seen:
    """The same of a simulation."""
    world = World(scenario)
    watched = world.ownership = Watched(world.engine, world.ownership.holders)
    world.run()
    it = report(world)
    assert it.rebalances == it.generations
    return Seen(
        it.rebalances,
        it.unowned_ms,
        it.longest_gap_ms,
        it.owned_twice_ms,
        tuple(watched.assigned_ms),
        settled([at_ms for at_ms, _kind, _number in happenings(scenario)], watched.assigned_ms),
    )
