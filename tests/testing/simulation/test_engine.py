"""Virtual time, links, the checks that can fail, and what a world needs that is rougher than a scenario."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from coordinatord.testing.member.assignors import ASSIGNORS
from coordinatord.testing.simulation.engine import START_MS, Engine, Link
from coordinatord.testing.simulation.ownership import Ownership
from coordinatord.testing.simulation.report import report
from coordinatord.testing.simulation.scenario import build
from coordinatord.testing.simulation.world import World


def test_time_jumps_and_what_is_due_together_happens_in_order() -> None:
    engine = Engine()
    seen: list[tuple[int, str]] = []

    def note(what: str) -> None:
        seen.append((engine.now_ms - START_MS, what))
        if what == "a":
            engine.at(START_MS, note, "asked for too late: now")

    for when_ms, what in ((50, "b"), (10, "a"), (50, "c"), (200, "never")):
        engine.at(START_MS + when_ms, note, what)
    engine.run_until(START_MS + 100)
    assert seen == [(10, "a"), (10, "asked for too late: now"), (50, "b"), (50, "c")]
    assert engine.now_ms == START_MS + 100


def test_chance_for_one_purpose_does_not_depend_on_another() -> None:
    one, two = Engine(7), Engine(7)
    two.chance("pauses").random()
    assert one.chance("crashes").random() == two.chance("crashes").random()
    assert one.chance("crashes").random() != one.chance("pauses").random() != Engine(8).chance("pauses").random()


def test_links_are_uneven_and_keep_the_order_of_each_direction() -> None:
    engine = Engine()
    arrived: dict[int, list[tuple[int, int]]] = {}
    for number in range(50):
        link = Link(engine, str(number), 20)
        of_link = arrived.setdefault(number, [])
        for sent in range(20):
            engine.at(
                START_MS + sent * 3,
                lambda link=link, of_link=of_link, sent=sent: link.carry(
                    0, engine.now_ms, lambda: of_link.append((sent, engine.now_ms - START_MS - sent * 3))
                ),
            )
    engine.run_until(START_MS + 1_000)
    assert all([sent for sent, _took in of_link] == list(range(20)) for of_link in arrived.values())
    usual = sorted(sum(took for _sent, took in of_link) / 20 for of_link in arrived.values())
    assert usual[0] < 15 < usual[25] < 30 < usual[-1]


def test_a_cut_link_carries_nothing_that_is_under_way() -> None:
    engine = Engine()
    link, seen = Link(engine, "a", 20), []
    link.carry(0, engine.now_ms, seen.append, "lost")
    link.cut = True
    engine.run_until(START_MS + 500)
    link.cut = False
    link.carry(0, engine.now_ms, seen.append, "carried")
    engine.run_until(START_MS + 1_000)
    assert (seen, link.lost) == (["carried"], 1)


def test_a_member_that_is_cut_off_is_expelled_and_comes_back() -> None:
    world = World(build({"members": 3, "partitions": 6, "session": "10s", "duration": "5m"}), lossy=True)
    link = world.links[1]
    world._plan = lambda: [  # type: ignore[method-assign]
        world.engine.at(world.formed_ms + at_ms, setattr, link, "cut", cut)
        for at_ms, cut in ((60_000, True), (90_000, False))
    ]
    world.run()
    it = report(world)
    assert link.lost >= 3, "heartbeats, and then the question who coordinates"
    assert it.expelled_alive == 1
    assert it.owned_twice_ms > 10_000, "it works on while the others have its partitions, until it hears of it"
    assert it.rebalances_by_trigger == {"session expired": 1, "new member": 1}
    assert world.is_formed()


def test_an_assignor_that_gives_a_partition_twice_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    assign = ASSIGNORS["range"].assign

    def greedy(self: Any, *args: Any) -> Any:
        assigned = assign(self, *args)
        first = next(iter(assigned.values()))[0]
        return {name: list({*partitions, first}) for name, partitions in assigned.items()}

    monkeypatch.setattr(ASSIGNORS["range"], "assign", greedy)
    world = World(build({"members": 2, "partitions": 4, "assignor": "range", "duration": "1m"}))
    world.run()
    assert world.ownership.conflicts
    with pytest.raises(AssertionError, match="two members of one generation own a partition"):
        report(world)


@dataclass(eq=False)
class Process:
    number: int
    generation_id: int = -1


def test_ownership_counts_gaps_overlaps_and_moves() -> None:
    clock: Any = SimpleNamespace(now_ms=0)
    ownership = Ownership(clock, [0])
    one, two = Process(1), Process(2)
    for at_ms, act, args in (
        (0, ownership.take, (one, [0])),
        (0, ownership.assigned, (one, [0], 1)),
        (100, ownership.let_go, (one, [0], "pause")),
        (150, ownership.take, (two, [0])),
        (150, ownership.assigned, (two, [0], 2)),
        (200, ownership.take, (one, [0])),
        (230, ownership.let_go, (one, [0], "expulsion")),
        (300, ownership.let_go, (two, [0], "stop")),
    ):
        clock.now_ms = at_ms
        act(*args)
    clock.now_ms = 340
    ownership.end()
    assert ownership.unowned_by == {"pause": 50, "stop": 40, "start": 0}
    assert (ownership.doubled_ms, ownership.held_ms, ownership.moved) == (30, 100 + 150 + 30, 1)
    assert ownership.longest_gap_ms == 50
    assert ownership.conflicts == []
