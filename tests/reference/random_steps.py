"""Random programs: what up to six members of a group do, drawn from a seed.

A program is a list of steps, and a step is a small dictionary: `{"do": "heartbeat", "seat": 2, "id": "own", ...}`. It
names nothing that only a broker knows: member ids, generations and leaders are looked up when it is played, in what the
broker has said so far (`random_player.py`). A step thus makes sense wherever it stands, and programs can be shortened.

Time is a grid, so that no answer depends on how quick a broker is. Members act at the beginning of a span of 3.5 s, in
less than half a second; sessions end half a second into a span, rebalances a second, and what these begin in turn ends
later in a span. After many of these one may fall into a burst all the same; such a program is left out.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Step = dict[str, Any]

SEATS = "ABCDEF"
MAX_STEPS = 40
SPAN_S = 3.5
BURST_S = 0.4
"""How long members may act at the beginning of a span."""

MARGIN_S = 0.05

SESSION_TIMEOUTS_MS = (4_000, 7_500, 11_000)
REBALANCE_TIMEOUTS_MS = (4_500, 8_000, 1_000)

PROTOCOLS = ("range", "roundrobin", "sticky")
TOPICS = {"random.one": 1, "random.two": 2}
UNKNOWN_TOPIC = "random.none"

_IMMEDIATE: Mapping[str, str] = {
    "group.min.session.timeout.ms": "4000",
    "group.initial.rebalance.delay.ms": "0",
    "group.max.size": "5",
    "offset.metadata.max.bytes": "20",
    "offsets.topic.num.partitions": "1",
}
SETTINGS: Mapping[str, Mapping[str, str]] = {
    "immediate": _IMMEDIATE,
    "delayed": {**_IMMEDIATE, "group.initial.rebalance.delay.ms": "500"},
}
"""Of the brokers, by the policy of first rebalances."""


@dataclass(frozen=True, slots=True)
class Program:
    """The steps that a seed stands for, or some of them. `seats` are the members' own settings, by number."""

    seed: int
    seats: list[Step]
    steps: list[Step]


def policy(seed: int) -> str:
    """One program in ten has a delayed first rebalance."""
    return "delayed" if seed % 10 == 9 else "immediate"


def program(seed: int) -> Program:
    """The program of a seed; the same one on every machine."""
    chance = random.Random(f"program {seed}")
    seats = [_seat(chance, name) for name in SEATS[: chance.randint(1, len(SEATS))]]
    if chance.random() < 0.1:
        for seat in seats:
            seat["type"] = "connect"
    length = chance.randint(8, MAX_STEPS)
    kinds = [chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0] for _ in range(length)]
    steps = [STEPS[kind](chance, len(seats)) for kind in ["settle", *kinds][:length]]
    return Program(seed, seats, steps)


def _seat(chance: random.Random, name: str) -> Step:
    is_static = chance.random() < 0.3
    return {
        "instance": f"static-{name}" if is_static else None,
        "version": chance.randint(5, 9) if is_static else chance.randint(0, 9),
        "session": chance.choice(SESSION_TIMEOUTS_MS),
        "rebalance": chance.choice(REBALANCE_TIMEOUTS_MS),
        "protocols": _protocols(chance),
        "type": "consumer",
        "topics": chance.sample(list(TOPICS), chance.randint(1, 2)),
    }


def _protocols(chance: random.Random) -> list[str]:
    """Mostly with something in common."""
    some = chance.sample(PROTOCOLS, chance.randint(1, 3))
    return some if chance.random() < 0.1 or "range" in some else [*some, "range"]


def _mostly(chance: random.Random, usual: Any, *others: Any, often: float = 0.85) -> Any:
    return usual if chance.random() < often else chance.choice(others)


def _who(chance: random.Random, seats: int, latest: int, instances_from: int) -> Step:
    """Seat, version, and in whose name it speaks."""
    return {
        "seat": chance.randrange(seats),
        "version": _mostly(chance, latest, *range(instances_from, latest + 1), often=0.4)
        if chance.random() < 0.8
        else chance.randrange(latest + 1),
        "id": _mostly(chance, "own", "none", "stale", "next", "leader", "stranger"),
        "instance": _mostly(chance, "own", "none", "next", "stranger", often=0.92),
    }


def _group(chance: random.Random) -> str:
    return _mostly(chance, "group", "group2", often=0.9)


def _join(chance: random.Random, seats: int) -> Step:
    step = _who(chance, seats, 9, 5) | {"do": "join", "change": chance.random() < 0.3}
    step["version"] = _mostly(chance, None, step["version"], often=0.6)  # None: the seat's own
    step["type"] = _mostly(chance, "own", "", "other", often=0.95)
    step["protocols"] = _mostly(chance, None, [], ["odd"], _protocols(chance), _protocols(chance), often=0.8)
    step["session"] = _mostly(chance, "own", 3_999, 1_800_001, often=0.97)
    step["reason"] = _mostly(chance, None, "because", often=0.7)
    return step


def _sync(chance: random.Random, seats: int) -> Step:
    return _who(chance, seats, 5, 3) | {
        "do": "sync",
        "generation": _mostly(chance, 0, 1, -1, "none"),
        "type": _mostly(chance, "own", "other", None, often=0.92),
        "name": _mostly(chance, "own", "other", None, often=0.92),
        "assign": _mostly(chance, "all", "none", "first", "stranger", often=0.6),
    }


def _heartbeat(chance: random.Random, seats: int) -> Step:
    return _who(chance, seats, 4, 3) | {"do": "heartbeat", "generation": _mostly(chance, 0, 1, -1, "none")}


def _leave(chance: random.Random, seats: int) -> Step:
    others = [_who(chance, seats, 5, 3) for _ in range(_mostly(chance, 0, 1, 2, 3, often=0.6))]
    step = _who(chance, seats, 5, 3) | {"do": "leave", "others": others}
    if chance.random() < 0.3:  # as an operator sends it
        step |= {"id": "none", "instance": "own"}
    return step


def _topics(chance: random.Random) -> dict[str, list[int]]:
    names = chance.sample([*TOPICS, UNKNOWN_TOPIC], _mostly(chance, 1, 0, 2, 3, often=0.7))
    return {name: chance.sample(range(3), chance.randint(1, 2)) for name in names}


def _commit(chance: random.Random, seats: int) -> Step:
    as_member = chance.random() < 0.7
    step = _who(chance, seats, 10, 7) | {
        "do": "commit",
        "group": _group(chance),
        "generation": _mostly(chance, 0, 1, -1, "none") if as_member else "none",
        "topics": _topics(chance),
        "offset": chance.randrange(1_000),
        "epoch": _mostly(chance, -1, 0, 3, often=0.7),
        "metadata": _mostly(chance, "", None, "m" * 20, "m" * 21, often=0.7),
        "retention": _mostly(chance, -1, 5_000, often=0.7),
    }
    step["version"] = max(2, step["version"])
    if not as_member:
        step |= {"id": "none", "instance": "none"}
    return step


def _fetch(chance: random.Random, seats: int) -> Step:
    return {
        "do": "fetch",
        "seat": chance.randrange(seats),
        "version": chance.randint(1, 10),
        "groups": _mostly(chance, ["group"], ["group2"], ["group", "group2"], ["group3", "group"], often=0.6),
        "topics": _mostly(chance, None, _topics(chance), often=0.5),
        "stable": chance.random() < 0.3,
        "id": _mostly(chance, None, "own", "stranger", often=0.7),
        "epoch": _mostly(chance, -1, 0, "own", often=0.7),
    }


def _describe(chance: random.Random, seats: int) -> Step:
    groups = _mostly(chance, ["group"], ["group2"], ["group", "group3"], often=0.8)
    return {"do": "describe", "seat": chance.randrange(seats), "version": chance.randint(0, 6), "groups": groups}


def _list(chance: random.Random, seats: int) -> Step:
    states = ("Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "stable", "Odd")
    return {
        "do": "list",
        "seat": chance.randrange(seats),
        "version": chance.randint(0, 5),
        "states": _mostly(chance, chance.sample(states, 2), [], often=0.8),
        "types": _mostly(chance, [], ["classic"], ["Consumer"], ["odd"], often=0.7),
    }


def _delete(chance: random.Random, seats: int) -> Step:
    groups = chance.sample(["group", "group2", "group3"], chance.randint(1, 3))
    return {"do": "delete", "seat": chance.randrange(seats), "version": chance.randint(0, 2), "groups": groups}


def _delete_offsets(chance: random.Random, seats: int) -> Step:
    return {"do": "delete offsets", "seat": chance.randrange(seats), "group": _group(chance), "topics": _topics(chance)}


def _gather(chance: random.Random, seats: int) -> Step:
    """All of them join, or all but some."""
    absent = chance.sample(range(seats), min(seats - 1, _mostly(chance, 0, 1, 2, often=0.7)))
    return {"do": "gather", "seats": [seat for seat in range(seats) if seat not in absent]}


def _assign(chance: random.Random, seats: int) -> Step:
    """The members sync, the leader as the first or last of them; perhaps some do not."""
    step = _gather(chance, seats)
    return step | {"do": "assign", "leader_first": chance.random() < 0.5}


def _settle(chance: random.Random, seats: int) -> Step:
    return {"do": "settle", "seats": list(range(seats)), "leader_first": chance.random() < 0.5}


def _beats(chance: random.Random, seats: int) -> Step:
    return _gather(chance, seats) | {"do": "heartbeats"}


def _close(chance: random.Random, seats: int) -> Step:
    return {"do": "close", "seat": chance.randrange(seats)}


def _restart(chance: random.Random, seats: int) -> Step:
    """The process of a member ends, and comes back without its member id."""
    return {"do": "restart", "seat": chance.randrange(seats)}


def _wait(chance: random.Random, seats: int) -> Step:
    return {"do": "wait", "spans": _mostly(chance, 1, 2, 3, often=0.7)}


STEPS = {
    "join": _join, "sync": _sync, "heartbeat": _heartbeat, "leave": _leave, "commit": _commit, "fetch": _fetch,
    "describe": _describe, "list": _list, "delete": _delete, "delete offsets": _delete_offsets, "gather": _gather,
    "assign": _assign, "settle": _settle, "heartbeats": _beats, "close": _close, "restart": _restart, "wait": _wait,
}  # fmt: skip

WEIGHTS = {
    "join": 16, "sync": 10, "heartbeat": 8, "leave": 6, "commit": 8, "fetch": 6,
    "describe": 8, "list": 1, "delete": 3, "delete offsets": 3, "gather": 6,
    "assign": 6, "settle": 8, "heartbeats": 3, "close": 3, "restart": 4, "wait": 8,
}  # fmt: skip
