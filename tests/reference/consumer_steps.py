"""Random programs of both protocols: what up to six members of a group do, some of them consumers of KIP-848, some
classic ones, drawn from a seed.

As in `random_steps.py`, a step names nothing that only a broker knows. Nothing depends on time: sessions and rebalances
last much longer than a program, and each assignment is computed at once. So a program takes as long as its requests.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from tests.reference.random_steps import SEATS, Program, Step

MAX_STEPS = 36
SHARED: Mapping[str, int] = {"random.a": 1, "random.b": 3, "random.c": 6}
"""Topics that all programs read; their partitions."""

OWN = ("topic_x", "topic_y")
"""Topics of one program, which come, grow and go."""

UNKNOWN_TOPIC = "random.none"
EXPRESSIONS = (r"random\.(a|b)", r"random\..*", r".*\.c", "nothing", "random.b")
WRONG_EXPRESSIONS = ("(", "a**", r"\8", "")
SESSION_MS = 60_000
REBALANCE_MS = 300_000

_ALL: Mapping[str, str] = {
    "group.coordinator.rebalance.protocols": "classic,consumer",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.session.timeout.ms": "60000",
    "group.consumer.max.session.timeout.ms": "60000",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.max.size": "5",
    "group.max.size": "5",
    "offset.metadata.max.bytes": "20",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}

SETTINGS: Mapping[str, Mapping[str, str]] = {
    "bidirectional": _ALL | {"group.consumer.migration.policy": "bidirectional"},
    "upgrade": _ALL | {"group.consumer.migration.policy": "upgrade", "group.consumer.assignors": "range,uniform"},
    "downgrade": _ALL | {"group.consumer.migration.policy": "downgrade"},
    "disabled": _ALL | {"group.consumer.migration.policy": "disabled", "group.consumer.assignors": "range"},
}
"""Of the brokers, by the policy of migration."""


def policy(seed: int) -> str:
    """Of every ten programs seven have a broker that migrates both ways."""
    return ("upgrade", "downgrade", "disabled")[seed % 10] if seed % 10 < 3 else "bidirectional"


def program(seed: int) -> Program:
    """The program of a seed; the same one on every machine."""
    chance = random.Random(f"consumer program {seed}")
    draw = Draw(chance)
    kinds = chance.choice((("consumer",), ("consumer", "consumer", "classic"), ("consumer", "classic"), ("classic",)))
    draw.seats = [
        draw.seat(letter, chance.choice(kinds)) for letter in SEATS[: chance.choice((1, 2, 3, 3, 4, 4, 5, 6))]
    ]
    length = chance.randint(8, MAX_STEPS)
    weights = WEIGHTS | (TOPIC_WEIGHTS if draw.has_topics else {}) | (PATTERN_WEIGHTS if draw.has_patterns else {})
    names = ["cycle", *chance.choices(list(weights), list(weights.values()), k=length - 1)]
    if draw.has_topics:
        names[:0] = ["create"]
    return Program(seed, draw.seats, [{"do": name, **STEPS[name](draw)} for name in names])


class Draw:
    """Draws one program. Programs with topics of their own have no expressions: when a broker looks for new topics that
    an expression matches is a matter of seconds.
    """

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.has_topics = chance.random() < 0.25
        self.has_patterns = not self.has_topics and chance.random() < 0.35
        self.is_uniform = chance.random() < 0.4  # all read the same
        self.names = [*SHARED, *(OWN if self.has_topics else ())]
        self.common = chance.sample(self.names, chance.randint(1, len(self.names)))
        self.seats: list[Step] = []

    def mostly(self, usual: Any, *others: Any, often: float = 0.85) -> Any:
        return usual if self.chance.random() < often else self.chance.choice(others)

    def seat(self, letter: str, kind: str) -> Step:
        chance = self.chance
        is_static = chance.random() < 0.3
        some = chance.sample(["range", "cooperative-sticky", "sticky"], chance.randint(1, 3))
        return {
            "kind": kind,
            "instance": f"static-{letter}" if is_static else None,
            "version": chance.randint(5, 9) if is_static else self.mostly(9, *range(10), often=0.4),
            "session": SESSION_MS,
            "rebalance": REBALANCE_MS,
            "protocols": some if "range" in some or chance.random() < 0.1 else [*some, "range"],
            "type": self.mostly("consumer", "connect", often=0.97),
            "subscription": chance.randint(0, 3),
            "topics": self.topics(),
            "beat": self.mostly(1, 0, often=0.75),
            "assignor": self.mostly(None, "range", "uniform", often=0.8),
            "pattern": chance.choice(EXPRESSIONS) if self.has_patterns and chance.random() < 0.5 else None,
            "rack": self.mostly(None, "r1", often=0.9),
        }

    def topics(self) -> list[str]:
        if self.is_uniform:
            return list(self.common)
        return self.chance.sample(self.names, self.chance.randint(1, len(self.names)))

    def number(self) -> int:
        return self.chance.randrange(len(self.seats))

    def who(self) -> Step:
        """A seat, and in whose name it speaks."""
        return {
            "seat": self.number(),
            "id": self.mostly("own", "none", "stale", "next", "stranger", often=0.88),
            "instance": self.mostly("own", "none", "next", "stranger", often=0.92),
        }

    def some(self) -> list[int]:
        """Nearly all of the seats, in any order."""
        absent = self.mostly(0, 1, 2, often=0.6)
        count = len(self.seats)
        return self.chance.sample(range(count), max(1, count - absent))

    def group(self) -> str:
        return str(self.mostly("group", "group2", often=0.92))

    def offsets(self) -> dict[str, list[int]]:
        names = self.chance.sample(self.names, self.mostly(1, 2, 3, often=0.6))
        if self.chance.random() < 0.15:
            names.append(UNKNOWN_TOPIC)
        numbers = {name: list(range(SHARED.get(name, 2))) for name in names}
        if self.chance.random() < 0.1:
            numbers[names[0]].append(6)
        return {name: self.chance.sample(each, self.chance.randint(1, len(each))) for name, each in numbers.items()}

    # What members of the new protocol do

    def beat(self) -> Step:
        step = self.who() | {
            "version": self.mostly(None, 0, 1, often=0.8),  # None: the seat's own
            "epoch": self.mostly("own", 0, "before", "after", "stale", self.mostly(-1, -3), often=0.8),
            "full": self.chance.random() < 0.2,
            "ack": self.mostly("told", "old", "none", "empty", "more", often=0.75),
            "group": self.mostly("group", "group2", often=0.97),
        }
        if self.chance.random() < 0.25:
            step["change"] = self.chance.choice(
                [{"topics": self.topics()}, {"topics": self.topics()}, {"topics": []}, {"rack": "r2"}, {"rack": " "}]
                + [{"assignor": name} for name in ("range", "uniform", "odd", "")]
                + [{"rebalance": 200_000}, {"instance": ""}]
            )
        return step

    def join(self) -> Step:
        return self.who() | {
            "version": None,
            "epoch": 0,
            "full": True,
            "ack": self.mostly("empty", "none", "told", often=0.95),
            "group": self.group(),
        }

    def leave(self) -> Step:
        return self.who() | {"version": None, "epoch": self.mostly(-1, -2, often=0.6), "full": False, "ack": "none",
                             "group": "group"}  # fmt: skip

    def pattern(self) -> Step:
        step = self.beat()
        wanted = self.mostly(self.chance.choice(EXPRESSIONS), *WRONG_EXPRESSIONS, None, often=0.75)
        return step | {"version": 1, "change": {"pattern": wanted, "topics": self.mostly([], None, self.topics())}}

    # What classic members do

    def classic_join(self) -> Step:
        return self.who() | {
            "version": self.mostly(None, *range(10), often=0.7),
            "change": self.chance.random() < 0.3,
            "type": self.mostly("own", "", "other", often=0.95),
            "protocols": self.mostly(None, [], ["odd"], ["range"], ["cooperative-sticky", "range"], often=0.8),
            "session": "own",
            "owned": self.mostly("told", "none", often=0.8),
        }

    def sync(self) -> Step:
        return self.who() | {
            "version": self.mostly(5, 0, 1, 2, 3, 4, often=0.6),
            "generation": self.mostly(0, 1, -1, "none"),
            "type": self.mostly("own", "other", None, often=0.94),
            "name": self.mostly("own", "other", None, often=0.94),
            "assign": self.mostly("all", "none", "first", "garbage", "user data", often=0.8),
        }

    def classic_heartbeat(self) -> Step:
        return self.who() | {"version": self.chance.randint(0, 4), "generation": self.mostly(0, 1, -1, "none")}

    def classic_leave(self) -> Step:
        others = [self.who() for _ in range(self.mostly(0, 1, 2, often=0.6))]
        step = self.who() | {"version": self.mostly(5, *range(5), often=0.5), "others": others}
        if self.chance.random() < 0.3:  # as an operator sends it
            step |= {"id": "none", "instance": "own"}
        return step

    # What both do

    def cycle(self) -> Step:
        """Each goes on as a client would, perhaps several times."""
        return {"seats": self.some(), "times": self.mostly(1, 2, 3, often=0.5)}

    def switch(self) -> Step:
        """A client is restarted with the other protocol; perhaps it says so to the group first."""
        return {"seat": self.number(), "leaves": self.chance.random() < 0.6, "joins": self.chance.random() < 0.8}

    def commit(self) -> Step:
        as_member = self.chance.random() < 0.8
        step = self.who() if as_member else {"seat": self.number(), "id": "none", "instance": "none"}
        return step | {
            "version": self.mostly(10, 9, *range(2, 9), often=0.5),
            "group": self.group(),
            "generation": self.mostly(0, 1, -1, -2, "none", often=0.65) if as_member else "none",
            "topics": self.offsets(),
            "offset": self.chance.randrange(1_000),
            "epoch": self.mostly(-1, 0, 3, often=0.7),
            "metadata": self.mostly("", None, "m" * 20, "m" * 21, often=0.8),
            "retention": -1,
        }

    def transaction(self) -> Step:
        return self.who() | {
            "version": self.mostly(4, 3, 0, often=0.7),
            "generation": self.mostly(0, 1, -1, -2, "none", often=0.65),
            "topics": self.offsets(),
            "offset": self.chance.randrange(1_000),
            "commits": self.chance.random() < 0.6,
        }

    def fetch(self) -> Step:
        return {
            "seat": self.number(),
            "version": self.mostly(10, *range(1, 10), often=0.4),
            "groups": self.mostly(["group"], ["group", "group2"], ["group3", "group"], often=0.8),
            "topics": self.mostly(None, self.offsets(), often=0.5),
            "stable": self.chance.random() < 0.3,
            "id": self.mostly(None, "own", "stranger", "next", often=0.5),
            "epoch": self.mostly(-1, 0, "own", often=0.5),
        }

    def describe(self) -> Step:
        groups = self.mostly(["group"], ["group2"], ["group", "group3"], ["", "group"], often=0.7)
        return {"seat": self.number(), "version": self.chance.randint(0, 6), "groups": groups}

    def describe_consumer(self) -> Step:
        return self.describe() | {"version": self.chance.randint(0, 1), "operations": self.chance.random() < 0.2}

    def list(self) -> Step:
        states = ("Stable", "Empty", "PreparingRebalance", "Assigning", "reconciling", "Dead", "Odd")
        return {
            "seat": self.number(),
            "version": self.chance.randint(0, 5),
            "states": self.mostly([], self.chance.sample(states, 2), often=0.5),
            "types": self.mostly([], ["classic"], ["Consumer"], ["odd"], often=0.5),
        }

    def delete(self) -> Step:
        groups = self.chance.sample(["group", "group2", "group3"], self.chance.randint(1, 3))
        return {"seat": self.number(), "version": self.chance.randint(0, 2), "groups": groups}

    def delete_offsets(self) -> Step:
        return {"seat": self.number(), "group": self.group(), "topics": self.offsets()}

    def configure(self) -> Step:
        names = {
            "consumer.heartbeat.interval.ms": ("6000", "4999", "15001", "x", None),
            "consumer.session.timeout.ms": ("50000", "44999", "60001", None),
            "consumer.assignment.interval.ms": ("0", "-1", "15001", None),
            "consumer.odd": ("1",),
        }
        name = self.chance.choice(list(names))
        value = self.mostly(names[name][0], *names[name], often=0.5)
        return {"seat": self.number(), "name": name, "value": value}

    # Topics

    def create(self) -> Step:
        return {"seat": 0, "topic": self.chance.choice(OWN), "partitions": self.chance.randint(1, 3)}

    def grow(self) -> Step:
        return {"seat": 0, "topic": self.chance.choice(OWN), "by": self.mostly(1, 0, 2)}

    def drop(self) -> Step:
        return {"seat": 0, "topic": self.chance.choice(OWN)}


STEPS = {
    "beat": Draw.beat, "begin": Draw.join, "end": Draw.leave, "pattern": Draw.pattern, "join": Draw.classic_join,
    "sync": Draw.sync, "heartbeat": Draw.classic_heartbeat, "leave": Draw.classic_leave, "cycle": Draw.cycle,
    "switch": Draw.switch, "commit": Draw.commit, "transaction": Draw.transaction, "fetch": Draw.fetch,
    "describe": Draw.describe, "describe consumer": Draw.describe_consumer, "list": Draw.list, "delete": Draw.delete,
    "delete offsets": Draw.delete_offsets, "configure": Draw.configure, "create": Draw.create, "grow": Draw.grow,
    "drop": Draw.drop,
}  # fmt: skip

WEIGHTS = {
    "beat": 24, "begin": 6, "end": 5, "join": 6, "sync": 4, "heartbeat": 4, "leave": 4, "cycle": 24, "switch": 9,
    "commit": 12, "transaction": 2, "fetch": 7, "describe": 2, "describe consumer": 2, "list": 1, "delete": 3,
    "delete offsets": 3, "configure": 1,
}  # fmt: skip
TOPIC_WEIGHTS = {"create": 5, "grow": 5, "drop": 3}
PATTERN_WEIGHTS = {"pattern": 12}
