"""Topics and the hashes that Kafka computes of them and of groups that subscribe to all of them."""

from __future__ import annotations

import random
from typing import NamedTuple


class Case(NamedTuple):
    """A topic: its id, its name, and the racks of each partition."""

    topic_id: bytes
    name: str
    racks: list[list[str]]


RECORDED_SEEDS = range(4)
NAMES = ("orders", "a", "ab", "abc", "abcd", "payments.eu-west_1", "t" * 249)
RACKS = ("r1", "r2", "eu-west-1a", "ß", "𝄞", "Ｚ")


def groups(seeds: range) -> list[list[Case]]:
    """One group for each seed."""
    return [_group(random.Random(seed)) for seed in seeds]


def _group(chance: random.Random) -> list[Case]:
    names = chance.sample(NAMES, chance.randint(1, len(NAMES)))
    return [
        Case(
            chance.randbytes(16),
            name,
            [chance.sample(RACKS, chance.randint(0, 3)) for _ in range(chance.randint(1, 12))],
        )
        for name in names
    ]


RECORDED: list[list[int]] = [
    [
        4125961268986512161,
        -9046280104653775017,
        4825850888492567954,
        2856404051572158927,
        2991110261756028365,
        -6953046341307997963,
        154349481700656213,
        4617857634191178229,
    ],
    [-3578429299526866964, -580884942720419386, -2776054580119159879],
    [
        -9082346859628614135,
        6309471687090591491,
        -2584123754468371349,
        1768059831083800116,
        -7454941249454384382,
        9217070320980113664,
        6561993116083079669,
        -6129457534245909825,
    ],
    [-3375017528733730945, -4698139354929436142, -5485378118616776314],
]
"""For each of RECORDED_SEEDS, the hashes of the topics in order and that of the group."""
